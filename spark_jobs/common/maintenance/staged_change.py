"""Files of a table to exchange for a change: found, staged, and published on ``main`` in one commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow
import pyarrow.compute
from pyspark.sql import DataFrame, SparkSession

from sluice.core.messages import summarize
from sluice.core.offsets.deduplication import Run
from sluice.core.offsets.ranges import IntervalSet, OffsetRanges
from sluice.core.offsets.verify import FileStats
from sluice.core.tables.rewrites import id_of_change
from sluice.core.tables.storage import REWRITE_ID
from sluice.core.tables.summary import CHANGE_ID
from spark_jobs.common.lake import state_property
from spark_jobs.common.lake.clock import committing
from spark_jobs.common.lake.data_files.schema import other_columns
from spark_jobs.common.lake.expected_refs import CommitRefused
from spark_jobs.common.lake.followed.documents import followed_digest
from spark_jobs.common.lake.iceberg import maintains, not_removed, with_properties
from spark_jobs.common.lake.written.added_file import BOUNDED, AddedFile, read
from spark_jobs.common.lake.written.read_offsets import COLUMNS, OffsetReader, by_partition, is_in
from spark_jobs.common.lake.written.written_batch import SOURCE_COLUMNS, WrittenBatch
from spark_jobs.common.maintenance.staged_files import CommitConflict, StagedFiles
from spark_jobs.common.spark.columns import is_at, offset_masks

# Ids of sources in a filter of Iceberg; of more, each file's bounds are compared here.
MAX_FILTERED = 200


@dataclass(frozen=True)
class TableFile:
    """A data file of the table: Iceberg's own, and what its metadata says."""

    handle: Any
    file: AddedFile

    @property
    def stats(self) -> FileStats:
        return self.file.stats


@dataclass
class Touched:
    """The files with rows that go. ``whole``: all of their rows do. ``offsets``: of the rows that go, which
    are ``rows``."""

    whole: list[TableFile] = field(default_factory=list)
    partial: list[TableFile] = field(default_factory=list)
    offsets: OffsetRanges = field(default_factory=OffsetRanges)
    rows: int = 0

    @property
    def files(self) -> list[TableFile]:
        return [*self.whole, *self.partial]

    @property
    def kept_rows(self) -> int:
        """The rows of these files that stay."""
        return sum(one.stats.records for one in self.files) - self.rows

    def add(self, one: TableFile, offsets: OffsetRanges, rows: int) -> None:
        if rows:
            (self.whole if rows == one.stats.records else self.partial).append(one)
            self.offsets = self.offsets.union(offsets)
            self.rows += rows


class StagedChange(StagedFiles):
    """A change of one table with the columns of offsets and sources, for one thread."""

    def __init__(self, spark: SparkSession, table: str, reader: OffsetReader) -> None:
        super().__init__(spark, table)
        self._reader = reader
        self._columns = {name: self._stage.schema().findField(name) for name in BOUNDED}
        self._value_of = self._jvm.org.apache.iceberg.types.Conversions.fromByteBuffer

    @property
    def name(self) -> str:
        """Name of the table, with its namespace."""
        return self._name

    def described(self, handles: Iterable[Any]) -> list[TableFile]:
        return [TableFile(one, read(one, self._columns, self._value_of)) for one in handles]

    def candidates(
        self, ranges: OffsetRanges, sources: Sequence[str] = (), not_null: str = ""
    ) -> list[TableFile]:
        """The files of ``base`` that may hold one of these offsets or rows of these sources, and, if it is
        named, a value of the column ``not_null``; reads manifests only."""
        if self.base is None or not (ranges or sources):
            return []
        expressions = self._jvm.org.apache.iceberg.expressions.Expressions
        chosen = expressions.alwaysFalse()
        if ranges:
            pairs = [pair for offsets in ranges.partitions.values() for pair in offsets]
            chosen = getattr(expressions, "and")(
                expressions.greaterThanOrEqual("_kafka_offset", min(start for start, _ in pairs)),
                expressions.lessThan("_kafka_offset", max(until for _, until in pairs)),
            )
        if sources and len(sources) <= MAX_FILTERED:
            ids = self._jvm.java.util.ArrayList()
            for source in sources:
                ids.add(source)
            of_sources = getattr(expressions, "in")("_source_id", ids)
            chosen = getattr(expressions, "or")(chosen, of_sources)
        elif sources:
            chosen = expressions.alwaysTrue()
        if not_null:
            chosen = getattr(expressions, "and")(chosen, expressions.notNull(not_null))
        scan = self._stage.newScan().useSnapshot(self.base).filter(chosen).includeColumnStats()
        tasks = scan.planFiles()
        try:
            found = self.described(self._files(tasks.iterator()))
        finally:
            tasks.close()
        wanted = set(sources)
        return [one for one in found if one.stats.may_contain(ranges) or _may_be_of(one.file, wanted)]

    @staticmethod
    def _files(tasks: Any) -> Iterator[Any]:
        while tasks.hasNext():
            # A scan reuses it.
            yield tasks.next().file().copy()

    def touched(
        self, ranges: OffsetRanges, sources: Sequence[str] = (), files: Sequence[TableFile] | None = None
    ) -> Touched:
        """The files of ``base`` with rows at these offsets or of these sources; of ``files``, if given."""
        found, unclear = Touched(), list[TableFile]()
        for one in self.candidates(ranges, sources) if files is None else files:
            offsets = _offsets_by_bounds(one.file, ranges, sources)
            if offsets is None:
                unclear.append(one)
            else:
                found.add(one, offsets, offsets.count)
        columns = COLUMNS + (SOURCE_COLUMNS if sources else [])
        for one, table in zip(
            unclear, self._reader.tables((o.stats.path for o in unclear), columns), strict=True
        ):
            offsets, rows = _matching(table, ranges, sources)
            found.add(one, offsets, rows)
        return found

    def rows_without(self, files: Sequence[TableFile], offsets: OffsetRanges) -> DataFrame:
        """The rows of these files, except those at ``offsets``."""
        rows = self.rows([one.handle for one in files])
        return rows.join(offset_masks(self._spark, offsets), is_at(*COLUMNS), "left_anti")

    def written(self, rows: DataFrame) -> list[TableFile]:
        """Stage rows; return their files."""
        return self.described(self.append(rows))

    def batch(self, files: Sequence[TableFile]) -> WrittenBatch:
        return WrittenBatch([one.file for one in files], [], self._reader)

    def runs_of(self, sources: set[str], without: OffsetRanges) -> list[Run]:
        """The runs of these sources in ``base``, of the rows that are not at these offsets."""
        files = self.candidates(OffsetRanges(), sorted(sources))
        return [run for run in self.batch(files).runs_without(without) if run.source_id in sources]

    def commit_to(
        self,
        branch: str,
        parent: int,
        removed: Sequence[TableFile],
        added: Sequence[TableFile],
        properties: Mapping[str, str],
    ) -> None:
        """Exchange the files on a branch whose head is ``parent``. Raises CommitConflict if it is not."""
        update = _exchange_of(self._table, removed, added)
        with committing(self._spark, self._name):
            with_properties(update.toBranch(branch), properties).commit()
        self._table.refresh()
        snapshot = self._table.snapshot(branch)
        if snapshot is None or snapshot.parentId() != parent:
            raise CommitConflict(f"{self._name}: branch {branch} was changed. Fix: run it again")

    def publish(
        self,
        removed: Sequence[TableFile],
        added: Sequence[TableFile],
        change_id: str,
        summary: Callable[[int], Mapping[str, str] | None],
    ) -> bool:
        """Exchange the files on ``main`` in one commit of three snapshots: the exchange; the manifests that
        list removed files, rewritten; and one without files and with ``summary``, from which a query can
        begin. ``summary``: of the head of ``main``; None if it is not the expected one.

        Returns False, and nothing is published, if another commit came first. Raises CommitConflict if a
        removed file is not in the table any more, or if the table follows another schema than when it was
        staged or has its columns with other ids, and what ``summary`` raises.
        """
        self.check_age()
        rewrite = id_of_change(change_id, self._key)
        properties = {REWRITE_ID: rewrite, CHANGE_ID: change_id}
        try:
            with committing(self._spark, self._name):
                transaction = self._table.newTransaction()
                self._check_schema(transaction.table())
                head = transaction.table().currentSnapshot()
                said = summary(int(head.snapshotId()))
                if said is None:
                    return False
                self._exchange(transaction, removed, added, properties)
                self._rewrite_manifests(transaction, properties)
                with_properties(transaction.newFastAppend(), {**said, **properties}).commit()
                self._name_rewrite(transaction, rewrite)
                self._say_state(transaction)
                self._swap(transaction)
        except CommitRefused:
            return False
        return True

    def _say_state(self, transaction: Any) -> None:
        table = transaction.table()
        text = self._jvm.org.apache.iceberg.SnapshotParser.toJson(table.currentSnapshot())
        is_by_catalog = maintains(self._spark)
        said, outdated = state_property.moved_to(json.loads(text), table.properties(), is_by_catalog)
        if not said and not outdated:
            return
        update = transaction.updateProperties()
        for name, value in said.items():
            update.set(name, value)
        for name in outdated:
            update.remove(name)
        update.commit()

    def _check_schema(self, table: Any) -> None:
        # Rows that come would lack fields that the table has by now.
        if (found := followed_digest(table.properties())) != self.schema:
            raise CommitConflict(
                f"{self._name}: follows schema {found!r}, and what was staged has {self.schema!r}; nothing "
                "was published. Fix: run it again"
            )
        # A catalog was restored, and the stream followed the same versions again, in other batches.
        if other := other_columns(self.columns, self._columns_of(table)):
            raise CommitConflict(
                f"{self._name}: has not the columns of what was staged: {summarize(other)}; nothing was "
                "published. Fix: run it again"
            )

    def _exchange(
        self,
        transaction: Any,
        removed: Sequence[TableFile],
        added: Sequence[TableFile],
        properties: Mapping[str, str],
    ) -> None:
        if not removed and not added:
            return
        with_properties(_exchange_of(transaction, removed, added), properties).commit()
        if missing := not_removed(dict(transaction.table().currentSnapshot().summary()), len(removed)):
            raise CommitConflict(
                f"{self._name}: {missing} of {len(removed)} files were rewritten meanwhile; "
                "nothing was published. Fix: run it again"
            )


def _exchange_of(table: Any, removed: Sequence[TableFile], added: Sequence[TableFile]) -> Any:
    """The pending update of a table or a transaction that exchanges the files."""
    update = table.newOverwrite() if removed else table.newAppend()
    for one in removed:
        update.deleteFile(one.handle)
    for one in added:
        (update.addFile if removed else update.appendFile)(one.handle)
    return update


def _may_be_of(file: AddedFile, sources: set[str]) -> bool:
    if not sources or file.is_external:
        return False
    lower, upper = file.source_lower, file.source_upper
    return lower is None or upper is None or any(lower <= source <= upper for source in sources)


def _offsets_by_bounds(file: AddedFile, ranges: OffsetRanges, sources: Sequence[str]) -> OffsetRanges | None:
    """The offsets of the file's rows that match, if its bounds tell; else None."""
    stats, run = file.stats, file.run()
    if not stats.is_conclusive:
        return None
    assert stats.partition_lower is not None
    offsets = OffsetRanges({stats.partition_lower: stats.offsets})
    if not sources or not _may_be_of(file, set(sources)):
        return offsets.intersect(ranges)
    if run is None:
        return None
    return offsets if run.source_id in sources else offsets.intersect(ranges)


def _matching(table: pyarrow.Table, ranges: OffsetRanges, sources: Sequence[str]) -> tuple[OffsetRanges, int]:
    """The offsets of the matching rows, and how many these are: more if an offset is there more than once."""
    found, rows = dict[int, IntervalSet](), 0
    # In the quarantine, what the producer rejected has no offsets.
    table = table.filter(pyarrow.compute.is_valid(table["_kafka_offset"]))
    if sources:
        column = table["_source_id"].combine_chunks()
        plain = column.dictionary_decode() if pyarrow.types.is_dictionary(column.type) else column
        chosen = pyarrow.compute.is_in(plain, value_set=pyarrow.array(sources, plain.type))
        of_sources = by_partition(table.filter(chosen).select(COLUMNS))
        table = table.filter(pyarrow.compute.invert(chosen))
        for partition, values in of_sources.items():
            found[partition] = IntervalSet.of_values(values)
            rows += len(values)
    for partition, values in by_partition(table.select(COLUMNS)).items():
        inside = values[is_in(values, ranges[partition])]
        if len(inside):
            found[partition] = found.get(partition, IntervalSet()).union(IntervalSet.of_values(inside))
            rows += len(inside)
    return OffsetRanges(dict(sorted(found.items()))), rows
