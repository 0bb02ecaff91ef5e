"""Bodies of objects, unpacked by what they begin with, and never more of them at once than is asked for."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
# What a name may end in that no reader here unpacks.
_OTHERS = {
    b"PK\x03\x04": "a zip archive (an Excel workbook is one)",
    b"PK\x05\x06": "an empty zip archive",
    b"BZh": "packed by bzip2",
    b"\xfd7zXZ\x00": "packed by xz",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"\x04\x22\x4d\x18": "packed by lz4",
    b"PAR1": "a Parquet file",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"%PDF": "a PDF",
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    # Frames that readers skip, in front of one of zstd.
    **{bytes([kind]) + b"\x2a\x4d\x18": "zstd or lz4 behind a skippable frame" for kind in range(0x50, 0x60)},
}
# What is packed may not be packed again, or of another format.
_PACKED = {b"\x1f\x8b\x08": "packed twice", _ZSTD: "packed twice", **_OTHERS}
_MAGIC_BYTES = 6


class OtherFormat(ValueError):
    """An object that no reader here unpacks; the text says what it is, and the fix."""


class CorruptZstd(ValueError):
    """An object that begins as zstd, and is not whole."""


# Raised when an object is read that is packed, and truncated or corrupt. A lost connection is none of them.
UNPACKING_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error, CorruptZstd)


def corrupt_message(error: Exception) -> str:
    """What is wrong with an object of which reading raised one of UNPACKING_ERRORS."""
    return f"{'truncated' if isinstance(error, EOFError) else 'corrupt'} packed data ({error})"


def unpacked(body: Any, size: int) -> Iterator[bytes]:
    """Chunks of at most ``size`` bytes of a body: of gzip (all its members), zstd (all frames), or as it is.

    Raises OtherFormat; reading raises UNPACKING_ERRORS.
    """
    buffered = io.BufferedReader(body, max(size, _MAGIC_BYTES))
    head = buffered.peek(_MAGIC_BYTES)[:_MAGIC_BYTES]
    _check_format(head, _OTHERS)
    if head.startswith(_ZSTD):
        return _checked(_of_zstd(buffered, size))
    reader: Any = buffered
    # One byte only if the object, or the first read of it, has no more.
    if head and _GZIP.startswith(head[:2]):
        packed: Any = gzip.GzipFile(fileobj=buffered)
        reader = io.BufferedReader(packed, size)
        return _checked(iter(lambda: reader.read1(size), b""))
    return iter(lambda: reader.read1(size), b"")


def _check_format(head: bytes, others: Mapping[bytes, str]) -> None:
    for magic, kind in others.items():
        if head.startswith(magic):
            raise OtherFormat(
                f"it is {kind}, not CSV. Fix: upload the CSV file itself, plain, as gzip or as zstd"
            )


def _checked(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """What was packed."""
    for first in chunks:
        _check_format(first, _PACKED)
        yield first
        yield from chunks


def _of_zstd(buffered: io.BufferedReader, size: int) -> Iterator[bytes]:
    # Not by zstandard's reader, which takes a truncated frame for a whole one.
    stream = pa.CompressedInputStream(pa.PythonFile(buffered, mode="r"), "zstd")
    while True:
        try:
            chunk = stream.read(size)
        except OSError as error:
            if str(error).startswith(("Truncated", "ZSTD")):
                raise CorruptZstd(str(error)) from error
            raise
        if not chunk:
            return
        yield chunk
