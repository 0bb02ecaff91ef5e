"""Record offsets out of files in a bucket, as far as requests go; the bucket itself is in tests/spark."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import pyarrow
import pytest
from pyarrow import parquet

from sluice.clients.s3 import object_file
from spark_jobs.common.lake.written.read_offsets import COLUMNS, OffsetReader, by_partition
from tests.support.s3_answer import object_answer

ROWS = 9_000
Reading = Callable[..., OffsetReader]


def file_of(offsets: list[int], partition: int = 1) -> bytes:
    body = io.BytesIO()
    columns = {
        # Large, and before the record offsets, as the columns of a stream are.
        "text": [str(number) * 9 for number in range(len(offsets))],
        "_kafka_partition": pyarrow.array([partition] * len(offsets), pyarrow.int32()),
        "_kafka_offset": pyarrow.array(offsets, pyarrow.int64()),
    }
    parquet.write_table(pyarrow.table(columns), body)
    return body.getvalue()


class Bucket:
    """Answers as S3 does; ``plain``: with the whole object and no range, which it may for a short one."""

    def __init__(self, objects: dict[str, bytes], plain: bool = False) -> None:
        self.objects, self.plain = objects, plain
        self.asked: Counter[str] = Counter()

    def get_object(self, **given: Any) -> dict[str, Any]:
        body = self.objects[f"s3://{given['Bucket']}/{given['Key']}"]
        self.asked[given["Key"]] += 1
        return object_answer(body, "" if self.plain else given["Range"])


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Reading:
    def made(bucket: Bucket, tail: int = object_file.TAIL_BYTES) -> OffsetReader:
        monkeypatch.setattr(object_file, "TAIL_BYTES", tail)
        return OffsetReader(cast("Any", bucket))

    return made


def offsets_of(reader: OffsetReader, *uris: str) -> dict[int, list[int]]:
    found = by_partition(pyarrow.concat_tables(reader.tables(uris, COLUMNS)))
    return {partition: offsets.tolist() for partition, offsets in found.items()}


@pytest.mark.parametrize(
    ("tail", "requests"),
    [(64, 3), (70_000, 1), (1024 * 1024, 1)],
)
def test_what_lies_in_the_tail_costs_no_further_request(tail: int, requests: int, reading: Reading) -> None:
    offsets = list(range(100, 100 + ROWS))
    bucket = Bucket({"s3://b/a/k.parquet": file_of(offsets)})
    assert len(bucket.objects["s3://b/a/k.parquet"]) > 2 * 70_000
    assert offsets_of(reading(bucket, tail), "s3://b/a/k.parquet") == {1: offsets}
    assert bucket.asked["a/k.parquet"] == requests


def test_offsets_of_all_files_come_by_partition_each_as_often_as_it_is_there(reading: Reading) -> None:
    bucket = Bucket(
        {"s3://b/1": file_of([3, 1, 1]), "s3://b/2": file_of([1, 9]), "s3://b/3": file_of([1], 2)}
    )
    found = offsets_of(reading(bucket), *bucket.objects)
    assert {partition: sorted(offsets) for partition, offsets in found.items()} == {
        1: [1, 1, 1, 3, 9],
        2: [1],
    }
    assert set(bucket.asked.values()) == {1}


def test_an_answer_without_a_range_is_the_whole_object(reading: Reading) -> None:
    assert offsets_of(reading(Bucket({"s3://b/k": file_of([7])}, plain=True)), "s3://b/k") == {1: [7]}


def test_without_files_nothing_is_asked(reading: Reading) -> None:
    assert reading(Bucket({})).tables([], COLUMNS) == []


def test_a_file_that_is_cut_off_is_an_error_and_not_less(reading: Reading) -> None:
    with pytest.raises(pyarrow.ArrowInvalid):
        offsets_of(reading(Bucket({"s3://b/k": file_of([1, 2])[:-20]})), "s3://b/k")
