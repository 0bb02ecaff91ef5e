"""Runs of sources in the files of a batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest

from sluice.core.offsets.deduplication import LoadedRows, Run
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.verify import FileStats
from spark_jobs.common.consumer.writer import StreamWriter
from spark_jobs.common.lake.written.added_file import AddedFile
from spark_jobs.common.lake.written.written_batch import WrittenBatch, runs_of
from tests.support.counted import listed
from tests.support.raising import raising

A, B = "a" * 16, "b" * 16


def rows(*given: tuple[int, int, str | None, int | None]) -> pyarrow.Table:
    """Return rows made of (partition, offset, source, base offset)."""
    names = ("_kafka_partition", "_kafka_offset", "_source_id", "_source_base_offset")
    types = (pyarrow.int32(), pyarrow.int64(), pyarrow.string(), pyarrow.int64())
    columns = zip(*given, strict=True)
    return pyarrow.table({n: pyarrow.array(c, t) for n, t, c in zip(names, types, columns, strict=True)})


def test_consecutive_offsets_of_one_base_are_a_run_in_any_order() -> None:
    table = rows(
        (0, 12, A, 10), (1, 7, A, 7), (0, 10, A, 10), (0, 11, A, 10), (0, 20, B, 20), (0, 99, None, None)
    )
    assert runs_of(table) == [Run(A, 0, 0, 3, 3), Run(A, 1, 0, 1, 1), Run(B, 0, 0, 1, 1)]
    assert runs_of(rows((0, 99, None, None))) == []


def test_another_base_is_another_run_even_of_the_same_rows() -> None:
    """Two producers send one source, in turn."""
    table = rows((0, 0, A, 0), (0, 1, A, 1), (0, 2, A, 1), (0, 3, A, 2))
    assert sorted(runs_of(table)) == [Run(A, 0, 0, 1, 1), Run(A, 0, 0, 2, 2), Run(A, 0, 1, 2, 1)]


def test_what_is_missing_is_a_gap() -> None:
    table = rows((0, 10, A, 10), (0, 13, A, 10), (0, 15, A, 10), (1, 13, A, 13))
    assert runs_of(table) == [
        Run(A, 0, 0, 1, 1), Run(A, 0, 3, 4, 1), Run(A, 0, 5, 6, 1), Run(A, 1, 0, 1, 1)
    ]  # fmt: skip


class Tables:
    """A reader of files that are given."""

    def __init__(self, **files: pyarrow.Table) -> None:
        self.files, self.asked = files, list[str]()

    def tables(self, paths: list[str], columns: object) -> list[pyarrow.Table]:
        self.asked += paths
        return [self.files[path] for path in paths]


def file(path: str, *offsets: int, base: int | None = 10) -> AddedFile:
    stats = FileStats(path, 0, 0, offsets[0], offsets[-1], len(offsets))
    source = None if base is None else A
    return AddedFile(stats, source, source, base, base, 0 if base is not None else len(offsets))


def test_bounds_are_enough_if_they_are_for_all_files() -> None:
    reader: Any = Tables()
    batch = WrittenBatch([file("a", 10, 11, 12), file("b", 20, 21, base=None)], [], reader)
    assert (batch.runs, reader.asked) == ([Run(A, 0, 0, 3, 3)], [])
    assert batch.rejected == OffsetRanges()


def test_rejected_rows_are_no_gaps_wherever_they_lie() -> None:
    """Between two files, and behind the last one; the bounds of ``b`` are conclusive."""
    of_a = rows((0, 10, A, 10), (0, 11, A, 10), (0, 14, A, 10))
    rejected = rows((0, 12, A, 10), (0, 15, A, 10), (0, 99, None, None))
    reader: Any = Tables(a=of_a, b=rows((0, 13, A, 10)), rejected=rejected)
    batch = WrittenBatch(
        [file("a", 10, 11, 14), file("b", 13), file("c", 16, base=None)], ["rejected"], reader
    )
    assert batch.rejected == OffsetRanges.of({0: [(12, 13), (15, 16), (99, 100)]})
    assert batch.runs == [Run(A, 0, 0, 6, 6)]
    assert listed(batch.offsets(["a"])) == {0: [10, 11, 14]}
    assert sorted(reader.asked) == ["a", "b", "rejected"], "no file is read twice"


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ((4, 5, 7), "passed: 4 of 4 offsets, each once"),
        ((4, 6, 7), r"failed: 1 gaps (0=[5,6)), 1 duplicates (0=[6,7)); 3 of 4 offsets found"),
    ],
)
def test_a_rejected_record_in_the_place_of_a_lost_one_is_not_published(
    held: tuple[int, ...], said: str
) -> None:
    reader: Any = Tables(f=rows(*((0, offset, A, 4) for offset in held)), bad=rows((0, 6, A, 4)))
    written = WrittenBatch([file("f", *held)], ["bad"], reader)
    writer: Any = SimpleNamespace(_loaded_rows=lambda sources: LoadedRows())
    of_batch: Any = SimpleNamespace(write=lambda *given, **named: written)
    ranges = OffsetRanges.of({0: [(4, 8)]})
    assert StreamWriter._write_and_verify(writer, of_batch, ranges, {})[1].message() == said


def test_a_record_that_is_rejected_twice_is_no_single_one() -> None:
    reader: Any = Tables(rejected=rows((0, 12, A, 10), (0, 12, A, 10)))
    with raising(ValueError, "1 offsets"):
        _ = WrittenBatch([], ["rejected"], reader).rejected
