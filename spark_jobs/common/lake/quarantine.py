"""Rejected records in the quarantine table: raw bytes, origin and reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.platform_sections.lake import CATALOG
from sluice.config.stream import StreamSpec
from sluice.core.offsets.quarantine import (
    CONSUMER_STAGE,
    NO_REJECTIONS,
    Rejections,
    Settlement,
    held_in,
    settlement,
)
from sluice.core.tables.records import RECORD
from sluice.core.tables.summary import NEWEST_MALFORMED, PREFIX, REJECTED, WRITER
from sluice.core.tables.writers import epoch_of
from spark_jobs.common.lake.clock import now_ms
from spark_jobs.common.lake.data_files.parquet_file import DataFile
from spark_jobs.common.lake.iceberg import MAIN, CommitRefused, IcebergTable, StagedSnapshot
from spark_jobs.common.lake.tables import IncompatibleSchema
from spark_jobs.common.lake.write import on_branch
from spark_jobs.common.lake.writer_lease import MAX_ATTEMPTS, ConcurrentCommit
from spark_jobs.common.spark.failures import Unrecoverable
from spark_jobs.common.spark.texts import printable

KEEP_SNAPSHOTS = 20
# Columns of a rejected record: the topic's whole record, as retention deletes it there, and its source.
REJECTED_COLUMNS = (*RECORD, "reason")
# Longest text, in a summary, of the newest malformed record's place and reason.
MAX_CHARACTERS = 200


class Quarantine:
    """A stream's quarantine. What is added is staged on a branch, and published by moving ``main`` from the
    expected snapshot, which removes the branch in the same commit: Iceberg's own commit to ``main`` would,
    after a lost answer, take back what others published meanwhile."""

    def __init__(self, spark: SparkSession, spec: StreamSpec) -> None:
        self.spark, self.name = spark, spec.quarantine_table
        self.table = IcebergTable(spark, self.name)

    def _move_main(
        self, main: int | None, branch: str, staged: int, head: int, expired: Sequence[int] = ()
    ) -> None:
        """Publish ``staged`` of a branch with this head. Raises CommitRefused."""
        target = staged if self.table.parent(staged) == main else self._on_top(staged)
        self.table.change_refs({MAIN: main, branch: head}, {MAIN: target, branch: None}, expired)

    def _on_top(self, staged: int) -> StagedSnapshot:
        summary = self.table.summary(staged)
        properties = {key: value for key, value in summary.items() if key.startswith(PREFIX)}
        return self.table.stage(properties, files_of=staged)

    def _moved(self, why: str) -> ConcurrentCommit:
        return ConcurrentCommit(f"{self.name}: {why}")


class BatchQuarantine(Quarantine):
    """The records that a stream's batches reject, for its writer, on a branch with its name.

    They are published after their batch. A later writer removes the branch too, after it has published what
    belongs to a published batch: what a suspended writer staged is published once, or never.
    """

    def stage(
        self, files: Sequence[DataFile], writer: str, before: Rejections, after: Rejections, newest: str = ""
    ) -> list[str]:
        """Stage the files of a batch's rejected records; return their addresses.

        ``before`` and ``after``: the stream's rejections without and with the batch. ``newest``: place and
        reason of the newest malformed record, in one line of MAX_CHARACTERS at most, if there is one. Raises
        ConcurrentCommit if the quarantine does not hold the earlier ones.
        """
        summary = {WRITER: writer, **after.properties()}
        summary |= {NEWEST_MALFORMED: newest} if newest else {}
        for _ in range(MAX_ATTEMPTS):
            self.table.refresh()
            # In every attempt: the writer may have been suspended, and its stream restored to its state.
            self.check_holds(before)
            main, staged = self.table.head(MAIN), self.table.stage(summary, files=files)
            if staged.parent == main:
                try:
                    self.table.change_refs({MAIN: main}, {writer: staged})
                    return [file.uri for file in files]
                except CommitRefused:
                    continue
        raise self._moved("its main moves too often")

    def publish(self, writer: str, rejected: Rejections) -> None:
        """Publish what is staged for the newest batch of ``rejected``, which is published.

        Raises ConcurrentCommit if a later writer has done it or removed it.
        """
        for _ in range(MAX_ATTEMPTS):
            self.table.refresh()
            main, branch, staged = (
                self.table.head(MAIN),
                self.table.head(writer),
                self._staged(writer, rejected),
            )
            if staged is None or branch is None:
                break
            try:
                # The producer quarantines rows of sources meanwhile.
                expired = self.table.expirable(KEEP_SNAPSHOTS, now_ms())
                self._move_main(main, writer, staged, branch, expired)
                return
            except CommitRefused:
                continue
        raise self._moved(f"what {writer} staged for {rejected.batch} is not there, or main moves too often")

    def settle(
        self, writer: str, rejected: Rejections, ends: Mapping[int, int], check_lease: Callable[[], None]
    ) -> None:
        """Make the quarantine hold what the published batches rejected, and nothing else; remove the branches
        of earlier writers. For a writer that has just acquired the lease.

        ``ends``: of the published batches. Raises what ``check_lease`` raises, ConcurrentCommit if another
        commit came between, and Unrecoverable if rejected records are missing.
        """
        self.table.refresh()
        main, line = self.table.head(MAIN), self._line()
        earlier = [name for name in self.table.branches() if 0 < epoch_of(name) < epoch_of(writer)]
        pending = next((name for name in earlier if self._staged(name, rejected) is not None), None)
        # After the reads: a later writer's commits are then refused by their heads, or not seen.
        check_lease()
        todo = settlement(rejected, line, is_staged=pending is not None)
        rejected = next((held for held in line if held == rejected), rejected)
        if todo is Settlement.LOST:
            raise self._lost(f"{self._held()}", rejected)
        try:
            if todo is Settlement.NOTHING:
                # A suspended writer may publish what it staged until its branch is gone.
                if earlier:
                    self.table.change_refs({MAIN: main}, dict.fromkeys(earlier))
                return
            if todo is Settlement.REMOVE_LATER:
                self._remove_later(writer, main, rejected, ends)
        except CommitRefused as refusal:
            raise self._moved(str(refusal)) from refusal
        if pending is not None and todo is Settlement.PUBLISH_STAGED:
            self.publish(pending, rejected)
        self.settle(writer, rejected, ends, check_lease)

    def with_malformed(self, rejected: Rejections) -> Rejections:
        """``rejected`` with the number of malformed ones, which is here if the quarantine holds them."""
        held = self._held()
        return held if held == rejected else rejected

    def _remove_later(
        self, writer: str, main: int | None, rejected: Rejections, ends: Mapping[int, int]
    ) -> None:
        self.table.change_refs({MAIN: main}, {writer: main})
        published = " OR ".join(
            f"(_kafka_partition = {partition} AND _kafka_offset < {end})" for partition, end in ends.items()
        )
        branch = on_branch(self.name, writer)
        with self.table.committing():
            self.spark.sql(
                f"DELETE FROM {branch} WHERE stage = '{CONSUMER_STAGE}' AND NOT ({published or 'false'})"
            )
        left = self.spark.table(branch).where(f"stage = '{CONSUMER_STAGE}'").count()
        if left != rejected.count:
            # Rejected by a batch of another line, of which this one published the offsets otherwise.
            raise self._lost(f"{left} rejected records", rejected)
        self.table.refresh()
        head = self.table.head(writer)
        # Spark's DELETE has no properties, and the check of compactions would take it for one.
        properties = {WRITER: writer, **rejected.properties()}
        target = self.table.stage(properties, files_of=None if head == main else head)
        self.table.change_refs({MAIN: main, writer: head}, {MAIN: target, writer: None})

    def _line(self) -> list[Rejections]:
        """What ``main`` held, newest first, as far as that is kept; at last nothing, if all is."""
        kept = list(self.table.line())
        line = [held_in([snapshot.summary]) for snapshot in kept if REJECTED in snapshot.summary]
        return line if kept and self.table.parent(kept[-1].id) is not None else [*line, NO_REJECTIONS]

    def _held(self) -> Rejections:
        return held_in(snapshot.summary for snapshot in self.table.line())

    def _staged(self, writer: str, rejected: Rejections) -> int | None:
        """The writer's snapshot that holds what is missing on ``main`` of ``rejected``, and no more."""
        branch = list(self.table.snapshots(writer))
        for number, snapshot in enumerate(branch):
            if REJECTED in snapshot.summary and held_in([snapshot.summary]) == rejected:
                before = held_in(earlier.summary for earlier in self.table.line(writer, number + 1))
                return snapshot.id if before == self._held() else None
        return None

    def check_holds(self, rejected: Rejections) -> None:
        """Raise ConcurrentCommit if the quarantine, as of its last refresh, does not hold ``rejected``."""
        if (held := self._held()) != rejected:
            raise self._moved(f"it has {held}, the stream has {rejected}")

    def _lost(self, found: str, rejected: Rejections) -> Unrecoverable:
        return Unrecoverable(
            f"{self.name}: has {found}, and its stream {rejected}: one of the tables was restored to an "
            "earlier state, or lost snapshots. Fix: restore both tables of the same backup"
        )


def of_stage(spark: SparkSession, table: str, rows: DataFrame, stage: str) -> DataFrame:
    """The rows of one file with all columns of the quarantine; those missing in ``rows`` are null.

    They are computed in the tasks that ``rows`` has: a coalesce would decode a whole batch in one. Raises
    IncompatibleSchema if the table lacks one of them.
    """
    staged = rows.withColumns({"stage": F.lit(stage), "quarantined_at": F.current_timestamp()})
    if "reason" in rows.columns:
        staged = staged.withColumn("reason", printable(F.col("reason")))
    fields = spark.table(f"{CATALOG}.{table}").schema
    if missing := sorted(set(rows.columns) - {field.name for field in fields}):
        raise IncompatibleSchema(
            f"{table}: no column {', '.join(missing)}, so rejected records would not be kept whole. Fix: add "
            "them as docs/stored-data.md lists them, or name a new table"
        )
    return staged.select(
        *(
            F.col(field.name)
            if field.name in staged.columns
            else F.lit(None).cast(field.dataType).alias(field.name)
            for field in fields
        )
    ).repartition(1)
