"""A change of a stream's table: ``spark_jobs/__main__.py change nyc_taxi --plan s3://…/change.json``.

Rows of the plan go, and records of the plan are read from the topic (from the quarantine if the topic has
lost them), decoded as by the consumer, and come: in one commit beside the running stream, whose writer
acquires its lease again. Action fill_columns reads no record: ``fill`` makes its rows. Before it:

- each record of the plan is in the new files or rejected, once;
- no row of a source is in the table twice afterwards: one that is elsewhere already is rejected;
- every other row of the files that are exchanged is in a new one, with the same values.

A record that is rejected now and was published is an error. Others go into the quarantine, and what is
published leaves it, as with a batch: staged on a branch, and published after the table.

It may be killed and started again at any time, and run twice: ``main`` names the changes that are published.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pyspark.sql import SparkSession

from sluice.clients.catalogs.vended import client_of, follow
from sluice.clients.s3.requests import connect, read_json
from sluice.config import platform as platforms
from sluice.config import streams
from sluice.config.platform import Platform
from sluice.config.stream import StreamSpec
from sluice.core.changes.plan import ChangePlan
from sluice.core.changes.result import ChangeResult
from sluice.core.decoding.decoder import RecordDecoder
from sluice.core.offsets.deduplication import LoadedRows, loaded_from, possible_duplicates
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.batches import Snapshot
from sluice.core.tables.summary import KIND
from spark_jobs.common.consumer.decoded_rows import Decode
from spark_jobs.common.consumer.run import decoding_of_change, registry_of
from spark_jobs.common.lake import known_tables
from spark_jobs.common.lake.iceberg import MAIN
from spark_jobs.common.lake.writer_lease import ConcurrentCommit
from spark_jobs.common.lake.written.read_offsets import COLUMNS, OffsetReader
from spark_jobs.common.lake.written.written_batch import WrittenBatch
from spark_jobs.common.maintenance.change_quarantine import ChangeQuarantine
from spark_jobs.common.maintenance.changed_stream import ChangedStream, ChangeRefused
from spark_jobs.common.maintenance.fill.columns import FilledFiles, fill
from spark_jobs.common.maintenance.fill.fillers import filler_of
from spark_jobs.common.maintenance.incoming import IncomingRecords, StagedRecords
from spark_jobs.common.maintenance.leaving import Leaving
from spark_jobs.common.maintenance.row_diff import RowsDiffer, compare
from spark_jobs.common.maintenance.staged_change import StagedChange, TableFile, Touched
from spark_jobs.common.maintenance.staged_files import CommitConflict
from spark_jobs.common.spark import session
from spark_jobs.common.spark.process import log_to_stderr

log = logging.getLogger(__name__)

SHUFFLE_PARTITIONS = 32
# A running stream moves main every few seconds; compactions exchange files that are to go.
MAX_PUBLISHES, MAX_STAGINGS = 20, 3
QUARANTINE_SECONDS = 1.0
Said = Mapping[str, str]


def main(name: str, options: Sequence[str]) -> int:
    """Make the change of ``--plan s3://…``; return the exit code, 0. Raises on failure."""
    arguments = argparse.ArgumentParser(description=f"Change rows of the table of {name}.")
    arguments.add_argument("--plan", required=True, help="the s3:// address of the run's change.json")
    args = arguments.parse_args(options)
    log_to_stderr()
    spec, platform = streams.load(name), platforms.load("consumer")
    plan = ChangePlan.from_document(read_json(connect(platform.s3), args.plan))
    spark = session.start(f"sluice {name} change", platform, SHUFFLE_PARTITIONS)
    known_tables.check(spark, platform, name, spec.table, spec.quarantine_table)
    decode = partial(decoding_of_change, spark, spec, registry_of(spec, platform))
    Change(spark, platform, spec, decode, plan).run()
    return 0


class Change:
    """One change, from a plan to its commit; for one thread."""

    def __init__(
        self,
        spark: SparkSession,
        platform: Platform,
        spec: StreamSpec,
        decoding: Callable[[str], Decode | RecordDecoder],
        plan: ChangePlan,
    ) -> None:
        """``decoding``: how records are decoded, by the text of the schema that the table follows, which is
        empty for the declared one."""
        self.spark, self.platform, self.spec, self.plan = spark, platform, spec, plan
        self._decoding = decoding
        self.reader = OffsetReader(client_of(platform))
        self.stream = ChangedStream(spark, platform, spec, plan, self.reader)
        self.quarantine = ChangeQuarantine(spark, spec, self.reader)
        for table in (self.stream.table, self.quarantine.table):
            follow(platform, table.name, table.location())

    def run(self) -> None:
        """Make the change, unless it is made. Raises ChangeRefused, RowsDiffer, CommitConflict, LookupError
        for records that neither topic nor quarantine has."""
        for attempt in range(MAX_STAGINGS):
            if self.stream.is_published(self.stream.now()):
                log.info("change %s is published already", self.plan.id)
                break
            try:
                self._stage_and_publish()
                break
            except CommitConflict as conflict:
                if attempt == MAX_STAGINGS - 1:
                    raise
                log.warning("staging again: %s", conflict)
        self.quarantine.finish(self.stream.now().rejected)

    def _stage_and_publish(self) -> None:
        with StagedChange(self.spark, self.spec.table, self.reader) as staged:
            if not self.plan.reads_records:
                self._fill_and_publish(staged)
                return
            touched = staged.touched(self.plan.rows_out, self.plan.sources_out)
            log.info(
                "change %s: %d rows go, of %d files; %d records come",
                self.plan.id, touched.rows, len(touched.files), self.plan.rows_in.count,
            )  # fmt: skip
            self._check_not_doubled(staged, touched)
            kept = self._keep(staged, touched)
            coming = self._incoming(staged).load(staged, touched)
            result = ChangeResult(
                id=self.plan.id,
                action=self.plan.action,
                out=touched.offsets,
                rows_out=touched.rows,
                published=self.plan.rows_in.minus(coming.rejected),
                rejected=coming.rejected,
                removed=OffsetRanges(),
                kept=touched.kept_rows,
                files_removed=len(touched.files),
                files_added=len(kept) + len(coming.files),
                recovered=coming.recovered,
            )
            self._publish(staged, touched, [*kept, *coming.files], coming, result)

    def _fill_and_publish(self, staged: StagedChange) -> None:
        found, records = FilledFiles(), self.spec.records
        filler = filler_of(self.spec, self.platform, self.stream.followed(staged.schema))
        if filler is not None and records is not None:
            partitioned = bool(self.spec.partition_by)
            found = fill(
                staged, records.unknown_column, filler, self.plan.rows_out, is_partitioned=partitioned
            )
        touched = found.touched
        result = ChangeResult(
            id=self.plan.id,
            action=self.plan.action,
            out=touched.offsets,
            rows_out=touched.rows,
            published=touched.offsets,
            rejected=OffsetRanges(),
            removed=OffsetRanges(),
            kept=touched.kept_rows,
            files_removed=len(touched.files),
            files_added=len(found.files),
            filled=found.account,
        )
        # Nothing comes that was not there: no row has another source, and the quarantine stays as it is.
        bad = self.spark.createDataFrame([], "reason string")
        none = StagedRecords([], staged.batch([]), OffsetRanges(), bad)
        self._publish(staged, touched, found.files, none, result)

    def _incoming(self, staged: StagedChange) -> IncomingRecords:
        decode = self._decoding(self.stream.followed(staged.schema))
        return IncomingRecords(
            self.spark, self.platform, self.spec, decode, self.plan, self.stream, self.reader
        )

    def _check_not_doubled(self, staged: StagedChange, touched: Touched) -> None:
        present = staged.touched(self.plan.rows_in).offsets.minus(touched.offsets)
        if present:
            raise ChangeRefused(
                f"{self.spec.table}: records at {present} are to come and are in the table already. Fix: "
                "trigger a new run, which replaces them or leaves them out"
            )

    def _keep(self, staged: StagedChange, touched: Touched) -> list[TableFile]:
        """Write the rows again that stay, and compare them by value."""
        if not touched.partial:
            return []
        rows = staged.rows_without(touched.partial, touched.offsets)
        partitions = {one.stats.partition_lower for one in touched.partial}
        # One topic partition in a file, in order, as the writer does: most files' bounds are conclusive.
        one_each = rows.repartitionByRange(len(partitions), "_kafka_partition")
        in_order = one_each.sortWithinPartitions(*COLUMNS)
        files = staged.written(rows if self.spec.partition_by else in_order)
        diff = compare(rows, staged.rows([one.handle for one in files]), ()) if files else None
        found = diff.rows if diff else 0
        if found != touched.kept_rows or (diff and not diff.is_same):
            message = diff.message() if diff else "no row was written"
            raise RowsDiffer(
                f"{self.spec.table}: {touched.kept_rows} rows stay: {message}; nothing was published"
            )
        return files

    def _publish(
        self,
        staged: StagedChange,
        touched: Touched,
        added: list[TableFile],
        coming: StagedRecords,
        result: ChangeResult,
    ) -> None:
        checked, leaving = staged.base, Leaving(self.reader, self.plan, touched, coming.rejected)
        waits, came = 0, result.published if self.plan.reads_records else OffsetRanges()
        for _ in range(MAX_PUBLISHES):
            now, head = self.stream.now(), self.stream.table.head(MAIN)
            if self.stream.is_published(now):
                return
            self.stream.check_topic(now)
            checked = self._check_no_copies(staged, touched, coming, checked)
            try:
                rejections, left = self.quarantine.stage_change(
                    self.plan.id,
                    now.epoch,
                    now.rejected,
                    came.union(self.plan.quarantined_out),
                    coming.rejected,
                    coming.bad,
                )
            except ConcurrentCommit as moved:
                # The writer has published a batch, and its rejected records follow.
                log.info("waiting for the quarantine: %s", moved)
                waits += 1
                time.sleep(QUARANTINE_SECONDS)
                continue
            leaving.look_at(left)
            made = leaving.said_of(result).after(self.plan, self.stream.removed_before(now))
            closed = LoadedRows.all_of(self.plan.closes, now.ends)
            address = self.stream.record(made, loaded_from(coming.written.runs).union(closed))
            now = self.stream.recorded(now)
            summary = self.stream.summary(now, rejections, made, address, leaving.malformed)

            def of_head(found: int, expected: int | None = head, state: Said = summary) -> Said | None:
                return state if found == expected else None

            if staged.publish(touched.files, added, self.plan.id, of_head):
                log.info("change %s published: %s", self.plan.id, result.message())
                return
        raise CommitConflict(
            f"{self.spec.table}: in {MAX_PUBLISHES} attempts the stream published first "
            f"{MAX_PUBLISHES - waits} times, and its quarantine lacked records of its newest batch {waits} "
            f"times; nothing was published. Fix: {self._fix(waits)}"
        )

    def _fix(self, waits: int) -> str:
        if waits == MAX_PUBLISHES:
            return "start the stream's consumer, which publishes them, then clear apply_change"
        dag = f"{self.spec.name}_stream"
        return f"trigger {dag} with action stop, then clear apply_change; then {dag} with action start"

    def _check_no_copies(
        self, staged: StagedChange, touched: Touched, coming: StagedRecords, checked: int | None
    ) -> int | None:
        """Raise CommitConflict if the stream published since the snapshot ``checked`` a row that is to come
        (of a rejected one, a producer that was believed dead may send a copy), or one of a source that goes.
        Return the head."""
        head, since = self.stream.table.head(MAIN), list[Snapshot]()
        going = set(self.plan.sources_out)
        sources = {run.source_id for run in coming.written.runs} | going
        for snapshot in self.stream.table.snapshots(MAIN):
            if snapshot.id == checked:
                runs = [
                    run
                    for later in since
                    if later.summary.get(KIND) == "batch"
                    for run in WrittenBatch(self.stream.table.added_files(later.id), [], self.reader).runs
                ]
                break
            since.append(snapshot)
        else:
            # It has expired: look at the whole table.
            with StagedChange(self.spark, self.spec.table, self.reader) as now:
                runs = now.runs_of(sources, touched.offsets)
        published = [run for run in runs if run.source_id in sources]
        copies = possible_duplicates(loaded_from(coming.written.runs), published)
        copies |= going & {run.source_id for run in published}
        if copies:
            raise CommitConflict(
                f"{self.spec.table}: rows of {', '.join(sorted(copies))} were published meanwhile; nothing "
                "was changed. Fix: run it again"
            )
        return head
