"""Compare a load's offsets, rows and events with the table and the quarantine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sluice.config.reading.toml import ConfigError
from sluice.core.offsets.quarantine import CONSUMER_STAGE, PRODUCER_STAGE
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.sources import SourceCheck, check_rows
from sluice.core.offsets.sources import check_events as check_event_counts
from sluice.core.offsets.sources import check_offsets as check_offset_counts
from sluice.core.offsets.verify import OffsetVerification, needs_read, verify
from sluice.loads.sources.base import Counted, Source
from sluice.loads.verification.file_origins import FileOrigins, Recorded, nothing_recorded
from sluice.loads.verification.without_record import NO_GAPS, GapsWithoutRecord

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table import FileScanTask, Table

    from sluice.clients.lake.catalog import Lake
    from sluice.config.stream import StreamSpec
    from sluice.core.csv.form import Declared
    from sluice.core.offsets.bitmaps import Bitmap
    from sluice.core.offsets.counts import Counts
    from sluice.core.offsets.verify import FileStats
    from sluice.loads.verification.rejected_rows import RejectedRows


@dataclass(frozen=True)
class LoadFiles:
    """The files that can hold records of a load, planned once: those that were committed since the load was
    planned, and of these the ones that reach behind its start offsets. ``expected``: the offsets that the
    load sent, without those that a change removed singly; ``source_ids``: its sources, empty if only offsets
    are asked for. ``tasks`` and ``stats`` are of ``table``; ``quarantine_tasks`` of ``quarantine``.
    ``counts_rows``: whether the rows of a source are compared, and not its offsets or events."""

    expected: OffsetRanges
    source_ids: list[str]
    table: Table
    tasks: list[FileScanTask]
    stats: list[FileStats]
    quarantine: Table
    quarantine_tasks: list[FileScanTask]
    counts_rows: bool = True

    @classmethod
    def plan(
        cls,
        lake: Lake,
        spec: StreamSpec,
        sources: Sequence[Source],
        expected: OffsetRanges,
        recorded: Recorded = nothing_recorded,
        table: Table | None = None,
    ) -> LoadFiles:
        """``recorded``: which expired snapshots are the stream's, and which are of verified rewrites;
        ``table``: the state to verify, read before this call; by default the one that is there now."""
        from sluice.clients.lake.reading import files

        # The table first: of each batch it is published before the quarantine.
        table = table or lake.table(spec.table)
        quarantine = lake.table(spec.quarantine_table)
        origins = FileOrigins(table, recorded)
        tasks = files_since(table, spec.table, sources, origins.note)
        quarantine_tasks = files_since(quarantine, spec.quarantine_table, sources)
        starts = start_offsets(sources)
        stats = origins.marked(files.file_stats(table, tasks), expected)
        reaching = [n for n, file in enumerate(stats) if file.may_reach(starts)]
        return cls(
            expected,
            [source.source_id for source in sources],
            table,
            [tasks[n] for n in reaching],
            [stats[n] for n in reaching],
            quarantine,
            quarantine_tasks,
            any(source.COUNTED is Counted.ROWS for source in sources),
        )

    @classmethod
    def at(cls, lake: Lake, spec: StreamSpec, offsets: OffsetRanges) -> LoadFiles:
        """The files of the whole table that can hold these offsets. Those of expired snapshots, and of
        rewrites, count as another program's, and are read: their batches may be years behind in the log."""
        from sluice.clients.lake.reading import files

        table, quarantine = lake.table(spec.table), lake.table(spec.quarantine_table)
        origins = FileOrigins(table)
        tasks = files.committed_since(table, 0, note=origins.note)
        stats = origins.marked(files.file_stats(table, tasks), offsets)
        chosen = [n for n, file in enumerate(stats) if file.may_contain(offsets)]
        return cls(
            offsets,
            [],
            table,
            [tasks[n] for n in chosen],
            [stats[n] for n in chosen],
            quarantine,
            files.committed_since(quarantine, 0),
        )

    @cached_property
    def unclear(self) -> list[FileScanTask]:
        """The files that may hold expected offsets, and of which the metadata is not conclusive."""
        paths = {file.path for file in needs_read(self.expected, self.stats)}
        return [task for task in self.tasks if task.file.file_path in paths]

    @cached_property
    def held(self) -> tuple[Counts[int], Counts[str]]:
        """The offsets of the ``unclear`` files, by partition, and the row numbers in the table, by source id:
        a file of which both are needed is read once."""
        from sluice.clients.lake import counting

        names = sorted(self.source_ids) if self.counts_rows else []
        unclear = {task.file.file_path for task in self.unclear}
        both, offsets_only, rows_only = list["FileScanTask"](), list["FileScanTask"](), list["FileScanTask"]()
        for task in self.tasks:
            # A feed's table has no such column.
            may_hold = bool(names) and counting.may_hold(self.table, task, names)
            if task.file.file_path in unclear:
                (both if may_hold else offsets_only).append(task)
            elif may_hold:
                rows_only.append(task)
        offsets, rows = counting.count_held(self.table, both, names)
        if offsets_only:
            offsets.add_counts(counting.count_offsets(self.table, offsets_only))
        if rows_only:
            rows.add_counts(counting.rows_by_source(self.table, names, rows_only))
        return offsets, rows

    @cached_property
    def published(self) -> Counts[str]:
        """Row numbers in the table, by source id."""
        from sluice.clients.lake import counting

        if self.counts_rows:
            return self.held[1]
        return counting.rows_by_source(self.table, self.source_ids, self.tasks)

    @cached_property
    def rejected(self) -> RejectedRows:
        """Quarantined rows of the load's sources, and those that the consumer rejected of its offsets."""
        from pyiceberg.expressions import And, EqualTo, In, Or

        from sluice.clients.lake import counting
        from sluice.clients.lake.reading import files
        from sluice.loads.verification.rejected_rows import COLUMNS, RejectedRows

        near = files.overlapping(self.expected)
        rows = Or(In(files.SOURCE, self.source_ids), And(EqualTo("stage", CONSUMER_STAGE), near))
        of_consumer = And(rows, EqualTo("stage", CONSUMER_STAGE))
        with counting.null_named(self.quarantine, self.quarantine_tasks, of_consumer):
            batches = files.read(self.quarantine, rows, COLUMNS, tasks=self.quarantine_tasks)
            return RejectedRows.counted(batches, self.source_ids)

    def withheld(self, source_id: str) -> Bitmap:
        """The source's rows that are withheld. Not those that are published by now: of these a producer that
        was believed dead has sent a copy."""
        found = self.rejected.withheld[source_id].present
        # The table is read only if there are any.
        return found - self.published[source_id].present if found else found

    def rejected_sources(self, declared: Declared) -> list[str]:
        """Why producers rejected rows of the load's sources: the most frequent reasons, with what would
        accept their rows, ``declared`` as it is. Empty if none was."""
        from pyiceberg.expressions import And, EqualTo, In

        from sluice.clients.lake.reading import files
        from sluice.core.csv.summary import Rejected, summary

        rows = And(In(files.SOURCE, self.source_ids), EqualTo("stage", PRODUCER_STAGE))
        columns = (files.ROW, "reason", "line", "object")
        batches = files.read(self.quarantine, rows, columns, tasks=self.quarantine_tasks)
        values = (
            values
            for batch in batches
            for values in zip(*(batch[name].to_pylist() for name in columns), strict=True)
        )
        name = self.quarantine.name()[-1]
        where = f"sluice sql shows all in the columns reason, object and line of {name}"
        return summary((Rejected(*one) for one in values), declared, where)

    def rejected_rows(self, source_id: str) -> Bitmap:
        """The source's rows in quarantine, without duplicates of published ones."""
        return self.rejected.others[source_id].present | self.withheld(source_id)


def start_offsets(sources: Sequence[Source]) -> dict[int, int]:
    """Partition -> the first offset that a row of one of the sources may have; 0 for other partitions."""
    starts = [source.start_offsets for source in sources]
    return {
        partition: min(offsets.get(partition, 0) for offsets in starts)
        for partition in {partition for offsets in starts for partition in offsets}
    }


def files_since(
    table: Table,
    name: str,
    sources: Sequence[Source],
    note: Callable[[ManifestEntry], bool] = lambda entry: True,
) -> list[FileScanTask]:
    """The files that were committed since the first of a load's sources was planned: with all its rows.
    ``note``: as of :func:`~sluice.clients.lake.reading.files.committed_since`."""
    from sluice.clients.lake.commits import sequence_since
    from sluice.clients.lake.reading import files

    # Without a source of its own a load has no files.
    if not sources:
        return []
    since = sequence_since(table, [source.head(name) for source in sources])
    return files.committed_since(table, since, note=note)


@dataclass(frozen=True)
class OffsetCheck:
    """``verification``: of the load's offsets but those ``without`` a record; ``quarantined``: of the load's
    offsets; ``files``: number of data files that may hold any of them, ``read`` of which had no conclusive
    metadata."""

    verification: OffsetVerification
    quarantined: OffsetRanges
    files: int
    read: int
    without: GapsWithoutRecord = NO_GAPS

    def message(self) -> str:
        return (
            f"{self.files} data files may hold the load's offsets, {self.read} had to be read; "
            f"{self.quarantined.count} offsets are in quarantine; without a record: {self.without.message()}"
        )


def check_offsets(
    load: LoadFiles, explain: Callable[[OffsetRanges], GapsWithoutRecord] = lambda gaps: NO_GAPS
) -> OffsetCheck:
    """Verify the load's offsets by file metadata, and by two columns of the files that it does not decide.
    ``explain``: which gaps have no record; asked once, if there are any."""
    expected = load.expected
    stats = [file for file in load.stats if file.may_contain(expected)]
    quarantined, repeated = load.rejected.offsets, load.rejected.repeated
    offsets, _ = load.held

    def verified(wanted: OffsetRanges) -> OffsetVerification:
        return verify(wanted, stats, offsets, quarantined=quarantined, repeated=repeated, allow_outside=True)

    verification = verified(expected)
    without = explain(verification.gaps) if verification.gaps else NO_GAPS
    if without.explained:
        verification = verified(expected.minus(without.explained))
    return OffsetCheck(verification, quarantined.intersect(expected), len(stats), len(load.unclear), without)


def check_source(
    spec: StreamSpec,
    load: LoadFiles,
    check: OffsetCheck,
    source: Source,
    rows: int | None,
    removed: Sequence[int] = (),
) -> SourceCheck:
    """Whether each of the source's ``rows`` rows is published once or quarantined, but for those that a
    change ``removed`` singly. Events cannot be read again: the topic's offsets tell their number. Of records
    of others the offsets are all that is known."""
    if source.COUNTED is Counted.EVENTS:
        return check_events(spec, load, check)
    if source.COUNTED is Counted.OFFSETS:
        found = check.verification
        return check_offset_counts(
            found.expected, check.quarantined.count, found.gaps.count, found.duplicates.count
        )
    if rows is None:
        raise ValueError(f"{source.name}: its number of rows is not known")
    source_id = source.source_id
    return check_rows(rows, load.published[source_id], load.rejected_rows(source_id), removed)


def check_events(spec: StreamSpec, load: LoadFiles, check: OffsetCheck) -> SourceCheck:
    """Whether rows with the load's offsets and quarantined offsets add up, and each of the rows' event ids is
    in the table once. Raises ConfigError if the stream declares no feed."""
    from sluice.clients.lake.reading import files
    from sluice.clients.lake.reading.event_ids import count_event_ids

    if spec.feed is None:
        raise ConfigError(f"stream {spec.name!r} declares no [feed], but its load's plan is of a feed")
    rows = files.overlapping(load.expected)
    found = count_event_ids(load.table, rows, spec.feed.event_id, spec.partition_by, load.tasks)
    return check_event_counts(
        total=load.expected.count - check.without.explained.count,
        published=found.rows,
        quarantined=check.quarantined.count,
        missing_id=found.missing_id,
        duplicates=found.duplicates,
        more=found.more,
    )
