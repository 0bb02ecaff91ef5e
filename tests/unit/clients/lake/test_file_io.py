"""Reading a table's files with boto3: one request each, and its errors as those of the table."""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError, ReadTimeoutError, ResponseStreamingError
from pyarrow import dataset
from pyarrow import parquet as pq

from sluice.clients.lake import file_io as lake_io
from sluice.clients.lake.errors import asking
from sluice.clients.lake.file_io import BotoFileIO
from sluice.clients.lake.snapshots.stored_files import states
from sluice.clients.s3 import object_file
from sluice.clients.s3.bodies import TRIES
from sluice.config.platform_sections.lake import BUCKET_LISTS
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, Unreachable
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising
from tests.support.s3_answer import object_answer

LIST, DATA = "s3://b/t/metadata/snap-1.avro", "s3://b/t/data/1.parquet"


class Bucket:
    """Objects by URI, or the error that asking for one, or reading it, raises. ``breaks``: so many answers
    break off; ``ignores_ranges``: except the first of an object, all answers are the whole object."""

    def __init__(self, objects: Mapping[str, bytes | Exception]) -> None:
        self.objects = objects
        self.asked: Counter[str] = Counter()
        self.breaks, self.ignores_ranges = 0, False

    def get_object(self, **given: str) -> dict[str, Any]:
        uri = f"s3://{given['Bucket']}/{given['Key']}"
        self.asked[uri] += 1
        found = self.objects[uri]
        if isinstance(found, ClientError):
            raise found
        if isinstance(found, Exception):
            return object_answer(b"x") | {"Body": Broken(found)}
        ignored = self.ignores_ranges and self.asked[uri] > 1
        answer = object_answer(found, "" if ignored else given.get("Range", ""))
        if self.breaks:
            self.breaks -= 1
            return answer | {"Body": Broken(ResponseStreamingError(error="broken off"))}
        return answer


class Broken(io.RawIOBase):
    def __init__(self, error: Exception) -> None:
        self._error = error

    def readinto(self, buffer: Any) -> int:
        raise self._error


def refusal(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "GetObject")


def parquet() -> bytes:
    body = io.BytesIO()
    pq.write_table(pa.table({"n": range(9_000), "text": [str(n) * 9 for n in range(9_000)]}), body)
    return body.getvalue()


def columns(files: BotoFileIO) -> list[int]:
    with files.new_input(DATA).open() as file:
        found: list[int] = (
            dataset.ParquetFileFormat().make_fragment(file).to_table(columns=["n"])["n"].to_pylist()
        )
    return found


def file_io(**objects: bytes | Exception) -> tuple[Bucket, BotoFileIO]:
    bucket = Bucket({{"list": LIST, "data": DATA}[name]: body for name, body in objects.items()})
    return bucket, BotoFileIO({}, cast("Any", bucket))


@pytest.mark.parametrize("tail", [64, 1024 * 1024])
def test_a_data_file_is_read_from_its_end_and_one_of_metadata_at_once(
    tail: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_file, "TAIL_BYTES", tail)
    body = parquet()
    bucket, files = file_io(list=b"x" * 9_000, data=body)
    for _ in range(2):
        assert files.new_input(LIST).open().read() == b"x" * 9_000
    assert columns(files) == list(range(9_000))
    assert bucket.asked[LIST] == 1
    assert (bucket.asked[DATA] == 1) == (tail > len(body))


@pytest.mark.parametrize("tail", [64, 1024 * 1024])
def test_an_answer_that_breaks_off_is_asked_for_again(tail: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_file, "TAIL_BYTES", tail)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    bucket, files = file_io(list=b"x", data=parquet())
    bucket.breaks = TRIES - 1
    assert files.new_input(LIST).open().read() == b"x"
    bucket.breaks = TRIES - 1
    assert columns(files) == list(range(9_000))
    bucket.breaks = TRIES
    with raising(Unreachable, "table t: "), asking("table t"):
        files.new_input(DATA).open()


def test_a_read_across_the_tail_asks_for_what_is_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_file, "TAIL_BYTES", 10)
    bucket, files = file_io(data=bytes(range(100)))
    with files.new_input(DATA).open() as file:
        file.seek(85)
        assert file.read(10) == bytes(range(85, 95))
    assert bucket.asked[DATA] == 2


def test_a_gateway_that_ignores_ranges_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow would write what is too long behind its memory."""
    monkeypatch.setattr(object_file, "TAIL_BYTES", 64)
    bucket, files = file_io(data=parquet())
    bucket.ignores_ranges = True
    with raising(Unreachable, DATA, "asked for"), asking("table t"):
        columns(files)


def test_manifests_are_kept_within_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_io, "KEPT_BYTES", 25)
    names = [f"s3://b/{n}.avro" for n in range(3)]
    bucket = Bucket({name: bytes(10) for name in names} | {"s3://b/v.metadata.json": b"x"})
    files = BotoFileIO({}, cast("Any", bucket))
    for name in [*names, names[2], names[1], names[0], *["s3://b/v.metadata.json"] * 2]:
        files.new_input(name).open()
    assert [bucket.asked[name] for name in names] == [2, 1, 1]
    assert bucket.asked["s3://b/v.metadata.json"] == 2


@pytest.mark.parametrize("location", [LIST, DATA])
def test_a_file_that_metadata_names_and_that_is_gone_is_refused(location: str) -> None:
    _, files = file_io(list=refusal("NoSuchKey"), data=refusal("NoSuchKey"))
    assert not files.new_input(location).exists()
    with raising(Refused, location, "it is gone") as raised, asking("table t"):
        files.new_input(location).open()
    assert raised.value.code == ErrorCode.LAKE_FILE_MISSING


# A missing bucket is no missing table: a stream without its table counts as one that begins.
@pytest.mark.parametrize("error", [refusal("NoSuchBucket"), ReadTimeoutError(endpoint_url="x")])
@pytest.mark.parametrize("location", [LIST, DATA])
def test_what_s3_does_not_answer_is_unreachable(
    location: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    _, files = file_io(list=error, data=error)
    with raising(Unreachable, "table t: "), asking("table t"):
        files.new_input(location).open()


@pytest.mark.parametrize(
    ("refused", "message", "code"),
    [
        ("AccessDenied", "S3 denies access", ErrorCode.S3_PERMISSION),
        ("ExpiredToken", "S3 refuses the login (ExpiredToken: ", ErrorCode.S3_LOGIN),
    ],
)
def test_what_s3_denies_is_refused(refused: str, message: str, code: ErrorCode) -> None:
    _, files = file_io(list=refusal(refused))
    with raising(Refused, f"table t: {message}", "Fix:") as raised, asking("table t"):
        files.new_input(LIST).open()
    assert raised.value.code == code


@pytest.mark.parametrize("is_listed", [True, False])
def test_what_is_denied_in_a_bucket_that_cannot_be_listed_may_be_missing(is_listed: bool) -> None:
    denied = ClientError({"Error": {"Code": "AccessDenied"}}, "GetObject")
    properties = {} if is_listed else {BUCKET_LISTS: "false"}
    opened = BotoFileIO(properties, cast("Any", Bucket({LIST: denied}))).new_input(LIST)
    if not is_listed:
        assert not opened.exists()
    code = ErrorCode.S3_PERMISSION if is_listed else ErrorCode.LAKE_FILE_MISSING
    with pytest.raises(Refused) as refused, asking("manifest list"):
        opened.open()
    assert refused.value.code is code
    assert is_listed or "or no right to read it" in str(refused.value)


def test_an_overwritten_object_has_another_state_and_one_that_is_gone_none() -> None:
    memory = MemoryS3()
    files = BotoFileIO({}, memory.as_client())
    memory.objects["b", "t/data/1.parquet"] = b"one"
    memory.objects["b", "t/data/2.parquet"] = b"two"
    (first,) = states(files, [DATA])
    assert states(files, [DATA, "s3://b/t/data/gone.parquet"]) == [first, None]
    # As long as the one before it, and then the first one again.
    memory.earlier["b", "t/data/1.parquet"] = [b"one"]
    memory.objects["b", "t/data/1.parquet"] = b"eno"
    (second,) = states(files, [DATA])
    memory.earlier["b", "t/data/1.parquet"] = [b"eno", b"one"]
    memory.objects["b", "t/data/1.parquet"] = b"one"
    assert len({first, second, *states(files, [DATA])}) == 3
