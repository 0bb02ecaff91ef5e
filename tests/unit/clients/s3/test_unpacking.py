"""Packed bodies: what is whole is read to its end, and what is not is an error."""

from __future__ import annotations

import gzip
import io
import zipfile

import pyarrow as pa
import pytest

from sluice.clients.s3.unpacking import UNPACKING_ERRORS, OtherFormat, corrupt_message, unpacked

DATA = b"".join(b"%d,some text\n" % n for n in range(9_000))


def zstd(data: bytes) -> bytes:
    packed: bytes = pa.Codec("zstd").compress(data, asbytes=True)
    return packed


PACKED = {
    "plain": DATA,
    "gzip": gzip.compress(DATA),
    "gzip members": gzip.compress(DATA[:999]) + gzip.compress(DATA[999:]),
    "zstd": zstd(DATA),
    "zstd frames": zstd(DATA[:999]) + zstd(DATA[999:]),
}


@pytest.mark.parametrize("kind", PACKED)
def test_what_is_packed_is_read_in_small_chunks(kind: str) -> None:
    chunks = list(unpacked(io.BytesIO(PACKED[kind]), 1000))
    assert b"".join(chunks) == DATA
    assert max(map(len, chunks)) <= 1000


@pytest.mark.parametrize("cut", [1, 9, 200])
@pytest.mark.parametrize("kind", [kind for kind in PACKED if kind != "plain"])
def test_what_is_truncated_is_an_error(kind: str, cut: int) -> None:
    with pytest.raises(UNPACKING_ERRORS) as refusal:
        list(unpacked(io.BytesIO(PACKED[kind][:-cut]), 1000))
    assert "packed data" in corrupt_message(refusal.value)


@pytest.mark.parametrize("kind", [kind for kind in PACKED if kind != "plain"])
def test_what_is_corrupt_is_an_error(kind: str) -> None:
    data = PACKED[kind]
    middle = len(data) // 2
    with pytest.raises(UNPACKING_ERRORS):
        list(unpacked(io.BytesIO(data[:middle] + bytes(99) + data[middle + 99 :]), 1000))


def test_an_archive_is_named_as_such() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.csv", DATA)
    with pytest.raises(OtherFormat, match="it is a zip archive"):
        unpacked(io.BytesIO(packed.getvalue()), 1000)


def test_a_lost_connection_is_not_taken_for_corrupt_data() -> None:
    class Lost(io.BytesIO):
        def readinto(self, buffer: object) -> int:
            if self.tell() > 200:
                raise ConnectionResetError("the connection was reset")
            return super().readinto(memoryview(buffer)[:100])  # type: ignore[arg-type]

    with pytest.raises(ConnectionResetError):
        list(unpacked(Lost(zstd(DATA)), 100))


def test_nothing_has_no_chunk() -> None:
    assert list(unpacked(io.BytesIO(b""), 1000)) == []
    assert list(unpacked(io.BytesIO(b"a"), 1000)) == [b"a"]
