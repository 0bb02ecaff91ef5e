"""Rows of a table whose further fields are filled into columns: found, written again, and compared."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from sluice.core.changes.filled import FilledFields, KeptValues
from sluice.core.decoding.filling.batches import Account, Filled, Filler, filled, lacking, with_columns
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.record_batches.cursor import Flags
from spark_jobs.common.lake.written.read_offsets import COLUMNS, is_in
from spark_jobs.common.maintenance.changed_stream import ChangeRefused
from spark_jobs.common.maintenance.row_diff import RowsDiffer, compare
from spark_jobs.common.maintenance.staged_change import StagedChange, TableFile, Touched

log = logging.getLogger(__name__)

_FILE = "_file"
_SURVEY = "file string, what string, path string, reason string, count long, partition int, offset long"
_ROWS, _FIELD, _COLUMN, _KEPT = "rows", "field", "column", "kept"


@dataclass(frozen=True)
class Rows:
    """Which rows of a table are filled, and how: ``unknown`` is the column of further fields. Can be
    pickled."""

    unknown: str
    filler: Filler
    offsets: OffsetRanges

    def fill(self, rows: pa.RecordBatch) -> dict[int, Filled]:
        return dict(filled(rows, self.unknown, self._chosen(rows), self.filler))

    def _chosen(self, rows: pa.RecordBatch) -> Flags:
        partitions, offsets = (rows.column(name).to_numpy() for name in COLUMNS)
        chosen = np.zeros(len(rows), np.bool_)
        for partition in np.unique(partitions).tolist():
            here = partitions == partition
            chosen[here] = is_in(offsets[here], self.offsets[partition])
        return chosen


@dataclass(frozen=True)
class FilledFiles:
    """``touched``: the files with rows that were filled; ``files``: those in their place; ``account``: what
    went into columns, and what stays."""

    touched: Touched = field(default_factory=Touched)
    files: list[TableFile] = field(default_factory=list)
    account: FilledFields = field(default_factory=FilledFields)


def fill(
    staged: StagedChange, unknown: str, filler: Filler, offsets: OffsetRanges, *, is_partitioned: bool
) -> FilledFiles:
    """Stage the files that have a row at ``offsets`` to fill, with all of their rows. Raises ChangeRefused if
    the table does not have all columns yet, RowsDiffer if what was written is not each row once and the same
    but for what was filled."""
    # Offsets of files with further fields may lie between those of files without any.
    candidates = staged.candidates(offsets, not_null=unknown)
    if not candidates:
        return FilledFiles()
    found = staged.rows([one.handle for one in candidates])
    table = to_arrow_schema(found.schema)
    if missing := lacking(filler.type, pa.struct(list(table))):
        raise ChangeRefused(
            f"{staged.name}: the table has no column yet for {', '.join(missing[:10])}; nothing was "
            "changed. Fix: start the stream's consumer, which adds them, then clear apply_change"
        )
    rows = Rows(unknown, filler, offsets)
    per_file, account = _survey(found, rows)
    log.info("further fields: %s", account.message())
    if not account.rows:
        return FilledFiles(account=account)
    touched = staged.touched(offsets, files=[one for one in candidates if one.stats.path in per_file])
    before = staged.rows([one.handle for one in touched.files])
    files = _written(staged, before, rows, touched, is_partitioned=is_partitioned)
    _check(staged, before, files, rows, account)
    return FilledFiles(touched, files, account)


def _survey(found: DataFrame, rows: Rows) -> tuple[dict[str, int], FilledFields]:
    """File -> number of its rows to fill, of those that have any; and the account of all rows."""
    columns = [name for name in found.columns if name in {*COLUMNS, rows.unknown, *rows.filler.type.names}]
    texts = found.where(F.col(f"`{rows.unknown}`").isNotNull())
    selected = texts.select(*(F.col(f"`{name}`") for name in columns), F.col(_FILE))
    counted = selected.mapInArrow(partial(_counted, rows), _SURVEY).groupBy("file", "what", "path", "reason")
    sums = counted.agg(F.sum("count"), F.min(F.struct("partition", "offset")))
    per_file, fields, of_columns = dict[str, int](), Counter[str](), set[str]()
    kept, first = Counter[tuple[str, str]](), dict[tuple[str, str], tuple[int, int]]()
    for file, what, path, reason, count, place in sums.toLocalIterator():
        if what == _ROWS:
            per_file[file] = count
        elif what == _FIELD:
            fields[path] += count
        elif what == _COLUMN:
            of_columns.add(path)
        else:
            kept[path, reason] += count
            first[path, reason] = min(tuple(place), first.get((path, reason), tuple(place)))
    stays = tuple(KeptValues(*key, count, *first[key]) for key, count in sorted(kept.items()))
    return per_file, FilledFields(sum(per_file.values()), fields, tuple(sorted(of_columns)), stays)


def _counted(rows: Rows, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The account of rows, by their files: as _SURVEY has it."""
    for batch in batches:
        accounts: dict[str, Account] = {}
        places = [batch.column(name) for name in (*COLUMNS, _FILE)]
        for place, one in rows.fill(batch).items():
            partition, offset, file = (column[place].as_py() for column in places)
            accounts.setdefault(file, Account()).add(one, (partition, offset))
        yield from _described(accounts)


def _described(accounts: Mapping[str, Account]) -> Iterator[pa.RecordBatch]:
    found: list[tuple[Any, ...]] = []
    for file, one in accounts.items():
        if one.rows:
            found.append((file, _ROWS, "", "", one.rows, 0, 0))
        found += [(file, _FIELD, path, "", count, 0, 0) for path, count in one.fields.items()]
        found += [(file, _COLUMN, name, "", 0, 0, 0) for name in one.columns]
        found += [(file, _KEPT, *key, count, *one.first[key]) for key, count in one.kept.items()]
    if found:
        types = (pa.utf8(),) * 4 + (pa.int64(), pa.int32(), pa.int64())
        names = [part.split()[0] for part in _SURVEY.split(", ")]
        arrays = [
            pa.array(values, kind) for values, kind in zip(zip(*found, strict=True), types, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, names)


def _filled(rows: Rows, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield with_columns(batch, rows.unknown, rows.fill(batch))


def _written(
    staged: StagedChange, before: DataFrame, rows: Rows, touched: Touched, *, is_partitioned: bool
) -> list[TableFile]:
    new = before.mapInArrow(partial(_filled, rows), before.schema)
    if is_partitioned:
        return staged.written(new)
    # One topic partition in a file, in order, as the writer does: most files' bounds are conclusive.
    partitions = {one.stats.partition_lower for one in touched.files}
    one_each = new.repartitionByRange(len(partitions), "_kafka_partition")
    return staged.written(one_each.sortWithinPartitions(*COLUMNS))


def _check(
    staged: StagedChange, before: DataFrame, files: list[TableFile], rows: Rows, account: FilledFields
) -> None:
    after = staged.rows([one.handle for one in files])
    expected = before.mapInArrow(partial(_filled, rows), before.schema)
    changed = {rows.unknown, *account.columns}
    others = [F.col(f"`{name}`") for name in before.columns if name not in changed]
    for one, other in ((before.select(*others), after.select(*others)), (expected, after)):
        diff = compare(one, other)
        if not diff.is_same:
            raise RowsDiffer(f"{staged.name}: {diff.message()}; nothing was published")
    if left := _survey(after, rows)[1].rows:
        raise RowsDiffer(f"{staged.name}: {left} rows are not filled; nothing was published")
