"""What a written file says of itself beside its footer: offsets that its bounds do not tell, bounds that its
footer lacks, and which of its columns have a dictionary."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from spark_jobs.common.lake.data_files.parquet_file import DataFile, ParquetFile
from tests.support.field_ids import with_ids
from tests.support.memory_s3 import MemoryS3

URI = "s3://lake/raw/t/data/f.parquet"
NAMES = ["_kafka_partition", "_kafka_offset"]
# In the order of a file's columns: 1, 2, 3, and 6 below 4 and 5.
LIST = pa.list_(pa.struct([("x", pa.float64())]))
TEXTS = with_ids(
    pa.schema([("_kafka_partition", pa.int32()), ("n", pa.int64()), ("text", pa.string()), ("list", LIST)])
)
PLACES = with_ids(
    pa.schema([("_kafka_partition", pa.int32()), ("n", pa.int64()), ("_kafka_offset", pa.int64())])
)
# Arrow writes no bound of more than 4,096 bytes.
LONG = "z" * 4_097


def written(
    pieces: Sequence[pa.RecordBatch],
    schema: pa.Schema,
    partition: tuple[Any, ...] = (),
    sorted_by: Sequence[str] = (),
) -> tuple[DataFile, bytes]:
    """With a row group of each piece."""
    s3 = MemoryS3()
    with ParquetFile(schema, sorted_by) as file:
        for piece in pieces:
            file.add(piece)
            file.flush()
        found = file.upload(s3.as_client(), URI, partition)
    (body,) = s3.objects.values()
    return found, body


def at(partition: int | None, *offsets: int) -> pa.RecordBatch:
    columns = {
        "n": pa.array(offsets, pa.int64()),
        "_kafka_partition": pa.array([partition] * len(offsets), pa.int32()),
        "_kafka_offset": pa.array(offsets, pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def pairs(table: pa.Table) -> list[tuple[int | None, int]]:
    return list(zip(*table.select(NAMES).to_pydict().values(), strict=True))


def test_a_file_of_one_topic_partition_is_told_by_its_bounds() -> None:
    file, _ = written([at(2, 5, 6), at(2, 7)], PLACES)
    assert file.offsets is None


@pytest.mark.parametrize(
    ("pieces", "partition", "expected"),
    [
        ([at(2, 5, 6), at(3, 5)], (), [(2, 5), (2, 6), (3, 5)]),
        ([at(2, 5), at(None, 6)], (), [(2, 5), (None, 6)]),
        # A rejected record, or none, is between them, or the one that is lost.
        ([at(2, 5, 6), at(2, 8)], (), [(2, 5), (2, 6), (2, 8)]),
        # A file of a table's partition has some of the offsets between its bounds.
        ([at(2, 5, 9)], ("a",), [(2, 5), (2, 9)]),
        ([at(2, 5, 9)], (None,), [(2, 5), (2, 9)]),
    ],
    ids=["partitions", "none and one", "gap", "partitioned", "partition of null"],
)
def test_offsets_that_bounds_do_not_tell_are_read_back(
    pieces: list[pa.RecordBatch], partition: tuple[Any, ...], expected: list[Any]
) -> None:
    file, body = written(pieces, PLACES, partition)
    assert file.offsets is not None
    assert file.offsets.column_names == NAMES
    assert pairs(file.offsets) == expected
    assert parquet.read_table(io.BytesIO(body)).column("n").to_pylist() == [n for _, n in expected], (
        "sent whole"
    )


def test_offsets_are_those_of_all_row_groups_as_the_file_has_them() -> None:
    file, body = written([at(2, 8, 3), at(0, 1), at(2, 5, 4)], PLACES, ("a",), sorted_by=["n"])
    assert len(file.splits) == 3
    assert file.offsets is not None
    assert pairs(file.offsets) == [(2, 3), (2, 8), (0, 1), (2, 4), (2, 5)]
    assert pairs(file.offsets) == pairs(parquet.read_table(io.BytesIO(body)))


def test_rows_that_wait_for_their_row_group_count() -> None:
    s3 = MemoryS3()
    with ParquetFile(PLACES) as file:
        for partition in (1, 2):
            file.add(at(partition, 7))
        found = file.upload(s3.as_client(), URI)
    assert found.offsets is not None
    assert pairs(found.offsets) == [(1, 7), (2, 7)]


def test_a_table_without_offsets_has_none_to_read_back() -> None:
    file, _ = written([at(2, 1).select(["n", NAMES[0]])], TEXTS, ("a",))
    assert file.offsets is None


def group(*texts: str | None) -> pa.RecordBatch:
    columns = {
        "_kafka_partition": pa.array([1] * len(texts), pa.int32()),
        "n": pa.array(range(len(texts)), pa.int64()),
        "text": pa.array(texts, pa.string()),
        "list": pa.array([[{"x": 1.0}]] * len(texts), LIST),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_a_column_of_which_one_row_group_lacks_its_bounds_is_named() -> None:
    """Iceberg takes such a row group for one of nulls: the file's bounds would be those of the other one."""
    file, body = written([group("a", "b"), group(LONG)], TEXTS)
    metadata = parquet.read_metadata(io.BytesIO(body))
    said = [metadata.row_group(number).column(2).statistics.has_min_max for number in range(2)]
    assert said == [True, False]
    assert file.unbounded == {3}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([LONG[:-1]], set()),
        ([LONG], {3}),
        (["a", LONG], {3}),
        (["a" + LONG, "b"], {3}),
        # Between the bounds any length will do.
        (["a", "b" * 5_000, "c"], set()),
        # Without a value no bound is missing.
        ([None], set()),
        ([None, LONG], {3}),
        # As many characters as are fine, and twice the bytes.
        (["é" * 2_049], {3}),
    ],
    ids=["4096", "4097", "upper", "lower", "between", "null", "null and one", "bytes"],
)
def test_bounds_that_are_too_long(texts: list[str | None], expected: set[int]) -> None:
    file, _ = written([group(*texts)], TEXTS)
    assert file.unbounded == expected


def test_bounds_below_a_nested_column_have_an_id_of_their_own() -> None:
    kind = pa.map_(pa.string(), pa.struct([("n", pa.int64()), ("text", pa.string())]))
    schema = with_ids(pa.schema([("first", pa.int64()), ("map", kind), ("last", pa.binary())]))
    values = [[("key", {"n": 1, "text": LONG})]]
    columns = [pa.array([1]), pa.array(values, kind), pa.array([b"\0" * 4_097])]
    file, _ = written([pa.RecordBatch.from_arrays(columns, schema.names)], schema)
    # 1 first, 2 map, 3 its key, 4 its value, 5 n, 6 text, 7 last.
    assert file.unbounded == {6, 7}


def test_numbers_that_are_all_different_have_no_dictionary() -> None:
    below = pa.struct([("_source_row", pa.int64())])
    schema = with_ids(pa.schema([*PLACES, ("_source_row", pa.int64()), ("list", LIST), ("record", below)]))
    piece = at(2, 5, 6).append_column("_source_row", pa.array([1, 2]))
    piece = piece.append_column("record", pa.array([{"_source_row": 1}, None], below))
    _, body = written([piece], schema)
    row_group = parquet.read_metadata(io.BytesIO(body)).row_group(0)
    columns = [row_group.column(number) for number in range(row_group.num_columns)]
    assert {column.path_in_schema: column.has_dictionary_page for column in columns} == {
        "_kafka_partition": True,
        "n": True,
        "_kafka_offset": False,
        "_source_row": False,
        "list.list.element.x": True,
        # Another column of this name.
        "record._source_row": True,
    }


def test_a_part_of_a_topic_partition_is_a_few_row_groups() -> None:
    """Rows that come in small pieces; what is encoded at once is what a task needs of memory."""
    pieces = [at(0, *range(begin, begin + 10_000)) for begin in range(0, 310_000, 10_000)]
    s3 = MemoryS3()
    with ParquetFile(PLACES) as file:
        for piece in pieces:
            file.add(piece)
        file.upload(s3.as_client(), URI)
    (body,) = s3.objects.values()
    metadata = parquet.read_metadata(io.BytesIO(body))
    groups = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert groups == [150_000, 150_000, 10_000]
