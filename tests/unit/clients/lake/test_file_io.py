"""Reading a table's files with boto3: one request each, and its errors as those of the table."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any, cast

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from pyarrow import dataset
from pyarrow import parquet as pq

from sluice.clients.errors import Refused, Unreachable
from sluice.clients.lake.catalog import asking
from sluice.clients.lake.file_io import BotoFileIO
from sluice.io import object_file
from sluice.model.error_codes import ErrorCode
from tests.support.raising import raising

LIST, DATA = "s3://b/t/metadata/snap-1.avro", "s3://b/t/data/1.parquet"


class Bucket:
    """Objects by URI, or the error that asking for one, or reading it, raises."""

    def __init__(self, objects: dict[str, bytes | Exception]) -> None:
        self.objects = objects
        self.asked: Counter[str] = Counter()

    def get_object(self, **given: str) -> dict[str, Any]:
        uri = f"s3://{given['Bucket']}/{given['Key']}"
        self.asked[uri] += 1
        found = self.objects[uri]
        if isinstance(found, ClientError):
            raise found
        if isinstance(found, Exception):
            return {"Body": Broken(found)}
        first, _, last = given["Range"].removeprefix("bytes=").partition("-")
        begin = int(first) if first else max(len(found) - int(last), 0)
        end = int(last) if first and last else len(found) - 1
        body = io.BytesIO(found[begin : end + 1])
        return {"Body": body, "ContentRange": f"bytes {begin}-{end}/{len(found)}"}


class Broken:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def read(self) -> bytes:
        raise self._error


def refusal(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "GetObject")


def file_io(**objects: bytes | Exception) -> tuple[Bucket, BotoFileIO]:
    bucket = Bucket({{"list": LIST, "data": DATA}[name]: body for name, body in objects.items()})
    return bucket, BotoFileIO({}, cast("Any", bucket))


@pytest.mark.parametrize("tail", [64, 1024 * 1024])
def test_a_data_file_is_read_from_its_end_and_one_of_metadata_at_once(
    tail: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_file, "TAIL_BYTES", tail)
    rows = pa.table({"n": range(9_000), "text": [str(n) * 9 for n in range(9_000)]})
    body = io.BytesIO()
    pq.write_table(rows, body)
    bucket, files = file_io(list=b"x" * 9_000, data=body.getvalue())
    for _ in range(2):
        assert files.new_input(LIST).open().read() == b"x" * 9_000
    with files.new_input(DATA).open() as file:
        found = dataset.ParquetFileFormat().make_fragment(file).to_table(columns=["n"])
    assert found == rows.select(["n"])
    assert bucket.asked[LIST] == 1
    assert (bucket.asked[DATA] == 1) == (tail > len(body.getvalue()))


@pytest.mark.parametrize("location", [LIST, DATA])
def test_a_file_that_metadata_names_and_that_is_gone_is_refused(location: str) -> None:
    _, files = file_io(list=refusal("NoSuchKey"), data=refusal("NoSuchKey"))
    assert not files.new_input(location).exists()
    with raising(Refused, location, "it is gone") as raised, asking("table t"):
        files.new_input(location).open()
    assert raised.value.code == ErrorCode.LAKE_FILE_MISSING


# A missing bucket is no missing table: a stream without its table counts as one that begins.
@pytest.mark.parametrize(
    "error", [refusal("NoSuchBucket"), refusal("AccessDenied"), ReadTimeoutError(endpoint_url="x")]
)
@pytest.mark.parametrize("location", [LIST, DATA])
def test_what_s3_does_not_answer_is_unreachable(location: str, error: Exception) -> None:
    _, files = file_io(list=error, data=error)
    with raising(Unreachable, "table t: "), asking("table t"):
        files.new_input(location).open()
