"""What a batch wrote: its files and rejected records, and the offsets and rows of sources in them.

From the files' bounds, and read from the files whose bounds are not conclusive: what is verified and recorded
is what was written, not a second evaluation of the records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy
import pyarrow
import pyarrow.compute

from sluice.core.offsets.counts import Counts, present_offsets
from sluice.core.offsets.deduplication import Run
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.schema_versions.offsets import Bounds
from spark_jobs.common.lake.written.added_file import AddedFile
from spark_jobs.common.lake.written.read_offsets import COLUMNS, OffsetReader, by_partition, is_in

SOURCE_COLUMNS = ["_source_id", "_source_base_offset"]


@dataclass(frozen=True)
class WrittenBatch:
    """``files``: the table's; ``staged``: the files of the rejected records, in the quarantine;
    ``malformed``: how many of them were not rejected on purpose. ``without_record``: offsets that have none.
    ``reader``: for files whose bounds are not conclusive. ``found_runs``: the runs, where its writer saw each
    row; None if they are to be read. ``tables``: address -> COLUMNS of files that were read already.
    ``schemas``: id of a registry's schema -> the bounds of its records. For one thread."""

    files: list[AddedFile]
    staged: list[str]
    reader: OffsetReader
    malformed: int = 0
    without_record: OffsetRanges = field(default_factory=OffsetRanges)
    found_runs: list[Run] | None = None
    tables: dict[str, pyarrow.Table] = field(default_factory=dict)
    schemas: dict[int, Bounds] = field(default_factory=dict)

    def offsets(self, paths: list[str]) -> Counts[int]:
        """The offsets in these files, by partition."""
        found = Counts[int]()
        for table in self._read(paths):
            for partition, offsets in by_partition(table.select(COLUMNS)).items():
                found.at(partition).add(offsets)
        return found

    @cached_property
    def rejected(self) -> OffsetRanges:
        """The offsets of the rejected records. Raises ValueError if one is there more than once."""
        found = self.offsets(self.staged)
        ranges = present_offsets(found)
        if ranges.count != found.values:
            raise ValueError(f"{ranges.count} offsets are rejected, some of them more than once")
        return ranges

    @cached_property
    def runs(self) -> list[Run]:
        """The runs of the sources in the batch. Rejected rows belong to them: each would be a gap."""
        if self.found_runs is not None:
            return self.found_runs
        files = [file for file in self.files if not file.is_external]
        conclusive = [run for file in files if (run := file.run()) is not None]
        if len(conclusive) == len(files) and not self.staged:
            return sorted(conclusive)
        tables = self._read([*(file.stats.path for file in files), *self.staged])
        return sorted(runs_of(pyarrow.concat_tables(tables))) if tables else []

    def runs_at(self, offsets: OffsetRanges) -> list[Run]:
        """As :attr:`runs`, of the rows at these offsets."""
        files = [file for file in self.files if not file.is_external and file.stats.may_contain(offsets)]
        tables = self._read([file.stats.path for file in files])
        return sorted(run for table in tables for run in runs_of(table.filter(_mask(table, offsets))))

    def runs_without(self, offsets: OffsetRanges) -> list[Run]:
        """As :attr:`runs`, of the rows that are not at these offsets."""
        found = []
        unclear = list[str]()
        for file in self.files:
            run = file.run()
            if run is not None and not file.stats.may_contain(offsets):
                found.append(run)
            elif not file.is_external:
                unclear.append(file.stats.path)
        for table in self._read(unclear):
            found += runs_of(table.filter(pyarrow.compute.invert(_mask(table, offsets))))
        return sorted(found)

    def _read(self, paths: list[str]) -> list[pyarrow.Table]:
        missing = [path for path in paths if path not in self.tables]
        columns = COLUMNS if self.found_runs is not None else COLUMNS + SOURCE_COLUMNS
        self.tables.update(zip(missing, self.reader.tables(missing, columns), strict=True))
        return [self.tables[path] for path in paths]


def _mask(rows: pyarrow.Table, offsets: OffsetRanges) -> pyarrow.Array:
    """Which of ``rows`` are at these offsets."""
    found = numpy.zeros(rows.num_rows, bool)
    partitions, values = (rows[name].to_numpy() for name in COLUMNS)
    for number, ranges in offsets.partitions.items():
        found |= (partitions == number) & is_in(values, ranges)
    return pyarrow.array(found)


def runs_of(rows: pyarrow.Table) -> list[Run]:
    """The runs of ``rows`` (COLUMNS and SOURCE_COLUMNS): consecutive offsets of one source, partition and
    base offset."""
    if rows["_source_id"].null_count:
        rows = rows.filter(pyarrow.compute.is_valid(rows["_source_id"]))
    if not rows.num_rows:
        return []
    sources = rows["_source_id"].combine_chunks().dictionary_encode()
    partition, offset, base = (
        rows[name].to_numpy() for name in ("_kafka_partition", "_kafka_offset", "_source_base_offset")
    )
    # First those that follow each other in their file: then there are few to sort.
    columns = _joined([sources.indices.to_numpy(), partition, base, offset, offset + 1])
    order = numpy.lexsort(columns[3::-1])
    source, partition, base, offset, until = _joined([column[order] for column in columns])
    names = sources.dictionary.to_pylist()
    return [
        Run(names[s], int(p), int(a), int(b), int(b - a))
        for s, p, a, b in zip(source, partition, offset - base, until - base, strict=True)
    ]


def _joined(columns: list[Any]) -> list[Any]:
    """Rows (source, partition, base offset, first offset and the one after the last) with those neighbours
    joined that follow each other."""
    *place, offset, until = columns
    begins = numpy.ones(len(offset), bool)
    begins[1:] = offset[1:] != until[:-1]
    for column in place:
        begins[1:] |= column[1:] != column[:-1]
    first = numpy.flatnonzero(begins)
    return [*(column[first] for column in (*place, offset)), until[numpy.append(first[1:], len(offset)) - 1]]
