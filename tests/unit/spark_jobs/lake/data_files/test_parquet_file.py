"""A table's Parquet file: its rows, its row groups, and its footer as a file of its own."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from sluice.core.schema_versions.table_columns import arrow_schema
from spark_jobs.common.lake.data_files import parquet_file
from spark_jobs.common.lake.data_files.parquet_file import DataFile, ParquetFile
from tests.support.memory_s3 import MemoryS3

URI = "s3://lake/raw/t/data/a=1/f.parquet"
SCHEMA = arrow_schema(
    {
        "fields": [
            {"id": 4, "name": "n", "required": True, "type": "long"},
            {"id": 2, "name": "text", "required": False, "type": "string"},
            {
                "id": 7,
                "name": "list",
                "required": False,
                "type": {
                    "type": "list",
                    "element-id": 8,
                    "element-required": False,
                    "element": {
                        "type": "struct",
                        "fields": [{"id": 9, "name": "x", "required": True, "type": "double"}],
                    },
                },
            },
        ]
    }
)


def rows(numbers: Sequence[int], **more: Sequence[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(numbers, pa.int64()), **more})


def texts(numbers: Sequence[int]) -> list[str]:
    return [f"text {number % 3}" for number in numbers]


def written(
    pieces: Sequence[pa.RecordBatch],
    schema: pa.Schema = SCHEMA,
    sorted_by: Sequence[str] = (),
    partition: tuple[Any, ...] = ("1",),
) -> tuple[DataFile, bytes]:
    s3 = MemoryS3()
    with ParquetFile(schema, sorted_by) as file:
        for piece in pieces:
            file.add(piece)
        found = file.upload(s3.as_client(), URI, partition)
    ((place, body),) = s3.objects.items()
    assert place == ("lake", "raw/t/data/a=1/f.parquet")
    return found, body


def read(body: bytes) -> pa.Table:
    return parquet.read_table(io.BytesIO(body))


def test_rows_come_back_from_the_bucket() -> None:
    lists = [[{"x": 1.5}, None], None, []]
    pieces = [rows([1, 2, 3], text=["a", None, "é"], list=lists), rows([], text=[]), rows([4], text=["d"])]
    file, body = written(pieces)
    assert read(body).to_pylist() == [
        {"n": 1, "text": "a", "list": lists[0]},
        {"n": 2, "text": None, "list": None},
        {"n": 3, "text": "é", "list": []},
        {"n": 4, "text": "d", "list": None},
    ]
    assert (file.uri, file.size, file.records, file.partition) == (URI, len(body), 4, ("1",))


def test_a_reader_finds_each_column_by_its_id() -> None:
    _, body = written([rows([1], list=[[{"x": 1.5}]])])
    schema = parquet.read_schema(io.BytesIO(body))
    element = schema.field("list").type.value_field
    fields = [*schema, element, element.type.field("x")]
    assert [field.metadata[b"PARQUET:field_id"] for field in fields] == [b"4", b"2", b"7", b"8", b"9"]
    assert (schema.field("n").nullable, schema.field("text").nullable) == (False, True)


@pytest.mark.parametrize(("name", "most"), [("ROWS_PER_GROUP", 100), ("BYTES_PER_GROUP", 40 * (8 + 4 + 6))])
def test_a_row_group_is_written_when_enough_rows_wait(
    monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    pieces = [rows(range(at, at + 40), text=texts(range(at, at + 40))) for at in range(0, 280, 40)]
    monkeypatch.setattr(parquet_file, name, most)
    file, body = written(pieces)
    metadata = parquet.read_metadata(io.BytesIO(body))
    groups = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert groups == ([120, 120, 40] if name == "ROWS_PER_GROUP" else [40] * 7)
    assert read(body).column("n").to_pylist() == list(range(280))
    assert file.records == 280


def test_a_large_piece_is_one_row_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_file, "ROWS_PER_GROUP", 10)
    _, body = written([rows(range(35)), rows([35])])
    metadata = parquet.read_metadata(io.BytesIO(body))
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [35, 1]


def test_each_row_group_is_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_file, "ROWS_PER_GROUP", 4)
    pieces = [rows([1, 2], text=["b", "c"]), rows([3, 4], text=["a", "b"]), rows([5, 6], text=["z", None])]
    _, body = written(pieces, sorted_by=["text"])
    table = read(body)
    assert table.column("text").to_pylist() == ["a", "b", "b", "c", "z", None]
    assert table.column("n").to_pylist() == [3, 1, 4, 2, 5, 6]


def test_the_footer_is_a_file_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Iceberg reads counts and bounds from it, and never opens the file for them."""
    monkeypatch.setattr(parquet_file, "ROWS_PER_GROUP", 3)
    pieces = [rows([5, 1, 9], text=["x", None, "y"]), rows([7, 8, 2]), rows([3], text=["a"])]
    file, body = written(pieces)
    whole, footer = (parquet.read_metadata(io.BytesIO(each)) for each in (body, file.footer))
    assert footer.equals(whole)
    length = int.from_bytes(body[-8:-4], "little")
    assert file.footer == b"PAR1" + body[-8 - length :]
    assert [footer.row_group(n).column(0).statistics.min for n in range(3)] == [1, 2, 3]
    assert [footer.row_group(n).column(0).statistics.max for n in range(3)] == [9, 8, 3]
    assert [footer.row_group(n).column(1).statistics.null_count for n in range(3)] == [1, 3, 0]


def test_splits_are_where_the_row_groups_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_file, "ROWS_PER_GROUP", 1)
    file, body = written([rows(range(at, at + 50), text=texts(range(50))) for at in (0, 50, 100)])
    metadata = parquet.read_metadata(io.BytesIO(body))
    assert len(file.splits) == metadata.num_row_groups == 3
    assert file.splits[0] == 4, "behind the magic bytes"
    for number, (begin, end) in enumerate(zip(file.splits, (*file.splits[1:], file.size), strict=True)):
        group = metadata.row_group(number)
        size = sum(group.column(n).total_compressed_size for n in range(group.num_columns))
        assert begin + size <= end, "whole before the next one"
        places = [group.column(n).data_page_offset for n in range(group.num_columns)]
        assert all(begin <= place < begin + size for place in places)


def test_a_column_of_another_type_is_cast_if_no_value_changes() -> None:
    small = pa.RecordBatch.from_pydict({"n": pa.array([1], pa.int32())})
    dictionary = rows([2], text=pa.array(["a"]).dictionary_encode())
    _, body = written([small, dictionary])
    assert read(body).column("text").to_pylist() == [None, "a"]
    with pytest.raises(pa.ArrowInvalid):
        written([pa.RecordBatch.from_pydict({"n": ["no number"]})])
    with pytest.raises(pa.ArrowNotImplementedError):
        written([rows([1], text=pa.array([{"a": 1}]))])


@pytest.mark.parametrize(
    "given", [pa.RecordBatch.from_pydict({"n": [1, None]}), pa.RecordBatch.from_pydict({"text": ["a"]})]
)
def test_null_in_a_required_column_is_an_error(given: pa.RecordBatch) -> None:
    """Also if the rows lack it."""
    with pytest.raises(pa.ArrowInvalid):
        written([given])


def test_no_footer_names_the_schema_of_arrow() -> None:
    """It would give other readers than Iceberg types of its own."""
    _, body = written([rows([1])])
    assert b"ARROW:schema" not in (parquet.read_metadata(io.BytesIO(body)).metadata or {})
