"""The files of some rows: one of each partition, in its folder."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from sluice.config.schema import Partition
from spark_jobs.common.lake.data_files import partitioned
from spark_jobs.common.lake.data_files.parquet_file import DataFile
from spark_jobs.common.lake.data_files.partitioned import Files, Layout, by_partition
from tests.support.field_ids import with_ids
from tests.support.memory_s3 import MemoryS3

FOLDER = "s3://lake/raw/t/data/"
BY_TEXT_AND_NUMBER = (Partition("text", 1), Partition("number"))


def rows(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


SCHEMA = with_ids(pa.schema([("text", pa.string()), ("number", pa.int64()), ("at", pa.int64())]))
LAYOUT = Layout(SCHEMA, FOLDER, BY_TEXT_AND_NUMBER)


def uploaded(layout: Layout, batches: Sequence[pa.RecordBatch]) -> tuple[MemoryS3, list[Any]]:
    s3 = MemoryS3()
    with Files(layout, "f.parquet") as files:
        for batch in batches:
            files.add(batch)
        return s3, files.upload(s3.as_client())


def values(file: DataFile) -> tuple[Any, ...]:
    return tuple(value for _, value in file.partition)


def column_at(s3: MemoryS3, uri: str) -> list[int]:
    body = s3.objects["lake", uri.removeprefix("s3://lake/")]
    return parquet.read_table(io.BytesIO(body)).column("at").to_pylist()


def test_each_partition_has_one_file_in_its_folder() -> None:
    first = rows(text=["ab", "b", None], number=[1, 1, None], at=[0, 1, 2])
    second = rows(text=["aa", None, "b"], number=[1, None, 2], at=[3, 4, 5])
    s3, files = uploaded(LAYOUT, [first, second])
    found = {file.uri.removeprefix(FOLDER): (values(file), column_at(s3, file.uri)) for file in files}
    assert found == {
        # Sorted by the column of the truncated partition.
        "text_trunc=a/number=1/00000-f.parquet": (("a", 1), [3, 0]),
        "text_trunc=b/number=1/00001-f.parquet": (("b", 1), [1]),
        "text_trunc=null/number=null/00002-f.parquet": ((None, None), [2, 4]),
        "text_trunc=b/number=2/00003-f.parquet": (("b", 2), [5]),
    }
    assert len(s3.objects) == len(files) == 4
    assert {tuple(name for name, _ in file.partition) for file in files} == {("truncate(1, text)", "number")}


def test_values_of_a_partition_are_those_of_json() -> None:
    layout = Layout(with_ids(pa.schema([("day", pa.date32())])), FOLDER, (Partition("day"),))
    _, files = uploaded(layout, [rows(day=[date(2026, 1, 2)])])
    assert [file.partition for file in files] == [(("day", "2026-01-02"),)]


def test_values_with_the_same_folder_are_files_of_their_own() -> None:
    layout = Layout(SCHEMA, FOLDER, (Partition("text"),))
    s3, files = uploaded(layout, [rows(text=["null", None, "null"], at=[0, 1, 2]), rows(text=[None], at=[3])])
    assert len({file.uri for file in files}) == len(s3.objects) == 2
    assert {file.uri.rpartition("/")[0] for file in files} == {f"{FOLDER}text=null"}
    found = {values(file): column_at(s3, file.uri) for file in files}
    assert found == {("null",): [0, 2], (None,): [1, 3]}


@pytest.mark.parametrize("partitions", [(), BY_TEXT_AND_NUMBER])
def test_without_a_row_there_is_no_file(partitions: tuple[Partition, ...]) -> None:
    layout = Layout(SCHEMA, FOLDER, partitions)
    empty = [pa.RecordBatch.from_pylist([], SCHEMA)]
    for batches in ([], empty):
        s3, files = uploaded(layout, batches)
        assert (s3.objects, files) == ({}, [])


def test_a_table_without_partitions_has_one_file() -> None:
    _, files = uploaded(Layout(SCHEMA, FOLDER), [rows(at=[1]), rows(at=[2])])
    assert [(file.uri, file.records, file.partition) for file in files] == [
        (f"{FOLDER}00000-f.parquet", 2, ())
    ]


def test_rows_of_all_files_together_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file alone would wait for a row group of its own."""
    monkeypatch.setattr(partitioned, "BYTES_PER_GROUP", 24 * 100)
    batches = [rows(text=["a", "b"], number=[1, 1], at=[n, n]) for n in range(100)]
    size = sum(part.nbytes for batch in batches for _, part in by_partition(batch, BY_TEXT_AND_NUMBER))
    _, files = uploaded(LAYOUT, batches)
    assert [file.records for file in files] == [100, 100]
    groups = [len(file.splits) for file in files]
    assert all(size // 2_400 - 1 <= count <= size // 2_400 + 1 for count in groups), groups
    assert groups[0] > 1


def test_files_are_sorted_by_truncated_columns_alone() -> None:
    assert LAYOUT.sorted_by == ["text"]
