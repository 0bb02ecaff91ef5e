"""One streaming query of one writer: write its batches to its sinks, then commit its state."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import dropwhile, takewhile

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from sluice.config.platform_sections.lake import CATALOG
from sluice.config.sections.query import Query
from sluice.config.stream import StreamSpec
from sluice.core.queries.progress import QueryState
from sluice.core.schema_versions.table_columns import arrow_schema
from sluice.core.tables.batches import Snapshot
from sluice.core.tables.summary import CHANGE_ID, END_OFFSETS
from spark_jobs.common.consumer.state import changes_until
from spark_jobs.common.kafka.heartbeat import CountingEvent
from spark_jobs.common.lake.data_files.schema import leaf_types
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from spark_jobs.common.lake.writer_lease import ConcurrentCommit
from spark_jobs.common.queries import aggregate
from spark_jobs.common.queries.first_batch import PartialSnapshotRead
from spark_jobs.common.queries.state_table import QueryStateWriter
from spark_jobs.common.sinks.base import Sink
from spark_jobs.common.spark import offset_log as plans
from spark_jobs.common.spark import session
from spark_jobs.common.spark.checkpoint import Checkpoint, CheckpointCorrupted
from spark_jobs.common.spark.guarded_query import GuardedQuery
from spark_jobs.common.spark.offset_log import Plan

log = logging.getLogger(__name__)


class SourceChanged(ConcurrentCommit):
    """The batch reads past a change of the stream's table. Recovery corrects the query, or says that it is
    not."""


class ColumnsWidened(ConcurrentCommit):
    """Columns of the stream's table have other types than the query began with. It starts again, with
    these."""


class StreamingQueryRun(GuardedQuery):
    """The streaming query ``name`` of ``spec``, from :meth:`start` on.

    ``sink_stop``: counts the pauses of its sinks. ``doing``: the current step.
    """

    def __init__(
        self,
        spark: SparkSession,
        spec: StreamSpec,
        name: str,
        writer: QueryStateWriter,
        checkpoint: Checkpoint,
        sinks: Sequence[Sink],
        sink_stop: CountingEvent,
    ) -> None:
        super().__init__(self._batch)
        self.name = name
        # Unique in a session of Spark.
        self.label = f"{spec.name}.{name}"
        self._spark, self._spec, self._writer, self._checkpoint = spark, spec, writer, checkpoint
        self._query: Query = spec.queries[name]
        self._sinks, self._sink_stop = sinks, sink_stop
        self.doing = f"{name}: starting"
        self._steps = 0
        self._source = IcebergTable(spark, spec.table)
        # As Spark reads them from its start on: all columns, and those whose values it keeps.
        self._types: Mapping[int, pa.DataType] = {}
        self._kept: Mapping[str, pa.DataType] = {}

    @property
    def is_resting(self) -> bool:
        """Whether it waits for its next trigger, or has not started."""
        return self.streaming is None or not self.streaming.status["isTriggerActive"]

    def activity(self) -> object:
        """Changes with the progress of a batch: steps, Spark tasks, pauses of a sink."""
        tasks = session.tasks(self._spark, str(self.streaming.runId)) if self.streaming is not None else []
        return self._steps, self._sink_stop.waits, tasks

    def _set_step(self, step: str) -> None:
        self.doing = step
        self._steps += 1

    def start(self) -> None:
        """Raises ColumnsWidened if the table has other types than the checkpoint was restored for."""
        self._source.refresh()
        # Before Spark reads them: what becomes wider in between ends the first batch.
        columns = arrow_schema(self._source.schema())
        rows = aggregate.source(self._spark, self._spec.table)
        kept = aggregate.state_types(rows.schema, self._query)
        if self._writer.states[self.name].has_other_types(kept):
            raise self._widened()
        self._types = leaf_types(columns)
        self._kept = {name: columns.field(name).type for name in kept}
        self._start(aggregate.stream(rows, self._query, self.label, self._checkpoint.uri))

    def _batch(self, rows: DataFrame, batch: int) -> None:
        started = time.monotonic()
        self._set_step(f"{self.name}: reading for batch {batch}")
        before = plans.read(self._checkpoint, batch - 1) if batch else Plan(None, 0, 0)
        plan = plans.read(self._checkpoint, batch)
        state = self._writer.states[self.name]
        # Before Spark reads the rows: of a wider column it would fail, or read other values.
        snapshot = self._read(plan) if plan.source != before.source else None
        # Computed once: a query with state would write a state version with every action.
        results = rows.persist()
        try:
            count = results.count()
            if self._query.aggregates:
                self._checkpoint.verify(batch)
            if snapshot is None:
                # Only the watermark moved: no group has changed.
                return
            self._check_reads_all(before, snapshot)
            after = self._after(state, batch, plan, snapshot)
            if is_committed(state, batch, plan, self._checkpoint.uri):
                log.info("%s: batch %d skipped: all sinks have it", self.name, after.number)
                return
            written = self._write(results, after.number, count, is_whole=plan.all_files)
        finally:
            results.unpersist()
        late = self._late(before, plan)
        late_rows = 0 if late is None else late.count()
        early_rows = self._early_rows(before, plan)
        counted = replace(
            after, late_rows=state.late_rows + late_rows, early_rows=state.early_rows + early_rows
        )
        self._writer.publish(self.name, counted, late if late_rows else None)
        log.info(
            "%s: batch %d written results=%d sinks=%s late_rows=%d early_rows=%d seconds=%.1f",
            self.name, after.number, count, ",".join(written) or "none", late_rows, early_rows,
            time.monotonic() - started,
        )  # fmt: skip
        self._set_step(f"{self.name} is at batch {after.number}")

    def _read(self, plan: Plan) -> Snapshot:
        self._source.refresh()
        self._check_types()
        snapshot = next((s for s in self._source.snapshots(MAIN) if s.id == plan.source), None)
        if snapshot is None:
            raise PartialSnapshotRead(
                f"{self.name}: snapshot {plan.source} of {self._spec.table} not found; restart the queries"
            )
        files = (
            self._source.streamable_files(snapshot)
            if plan.all_files
            else int(snapshot.summary.get("added-data-files", "0"))
        )
        if files is None or plan.files < files:
            raise PartialSnapshotRead(
                f"{self.name}: the batch reads {plan.files} of the {files} files of snapshot {plan.source}; "
                "a batch must read complete snapshots: remove limits of files or rows per batch"
            )
        return snapshot

    def _check_types(self) -> None:
        """Raises ColumnsWidened if the batch may have values that the columns are too narrow for: Iceberg's
        source keeps those that it began with, and reads a decimal of more digits as null."""
        columns = arrow_schema(self._source.schema())
        found = leaf_types(columns)
        if any(found.get(number, kind) != kind for number, kind in self._types.items()):
            raise self._widened()
        # A record with a further field is another value.
        if any(columns.field(name).type != kind for name, kind in self._kept.items()):
            raise self._widened()

    def _widened(self) -> ColumnsWidened:
        return ColumnsWidened(
            f"{self.name}: columns of {self._spec.table} became wider, and nothing of the batch is written; "
            "the query starts again with these"
        )

    def _check_reads_all(self, before: Plan, until: Snapshot) -> None:
        """Raises PartialSnapshotRead if another program than Sluice overwrote rows since ``before``: of what
        Iceberg's source skips, a change is in the number of changes, and maintenance changes no row."""
        if before.source is None:
            return
        later = takewhile(lambda s: s.id != before.source, self._source.snapshots(MAIN))
        for snapshot in dropwhile(lambda s: s.id != until.id, later):
            if (
                snapshot.summary.get("operation") in ("overwrite", "delete")
                and CHANGE_ID not in snapshot.summary
            ):
                raise PartialSnapshotRead(
                    f"{self.name}: another program overwrote rows of {self._spec.table} in snapshot "
                    f"{snapshot.id}. Fix: find it and end it; give the query a new name, or rebuild it"
                )

    def _after(self, state: QueryState, batch: int, plan: Plan, snapshot: Snapshot) -> QueryState:
        changes = changes_until(self._source.snapshots(MAIN), snapshot.id).of_rows
        # Fewer: a batch that was planned before a change runs again after a crash.
        if changes > state.source_changes:
            raise SourceChanged(
                f"{self.name}: rows of {self._spec.table} were changed {changes - state.source_changes} "
                "times, which no batch reads; the query is rebuilt"
            )
        return replace(
            state,
            batch=batch,
            source_snapshot_id=snapshot.id,
            source_snapshot_at=snapshot.at_ms,
            watermark=plan.watermark,
            # Another program's snapshot has none.
            ends=json.loads(snapshot.summary.get(END_OFFSETS, "{}")) or state.ends,
        )

    def _write(self, results: DataFrame, number: int, count: int, *, is_whole: bool) -> list[str]:
        """``is_whole``: the batch reads the whole table, so a result that it has not has no rows any more."""
        is_whole = is_whole and bool(self._query.aggregates)
        written = []
        for sink in self._sinks:
            self._set_step(f"{self.name}: {count} results of batch {number} to {sink.name}")
            if sink.write(number, results, is_whole=is_whole):
                written.append(sink.name)
        return written

    def _late(self, before: Plan, plan: Plan) -> DataFrame | None:
        """The late rows of the batch, by the watermark of the batch before, as in Spark; None without one."""
        if self._query.window is None or before.watermark <= 0 or before.source is None:
            return None
        return aggregate.late(self._rows(before, plan), self._query, before.watermark)

    def _early_rows(self, before: Plan, plan: Plan) -> int:
        if self._query.window is None:
            return 0
        return aggregate.early(self._rows(before, plan), self._query).count()

    def _rows(self, before: Plan, plan: Plan) -> DataFrame:
        """The rows that the batch read, from the table again."""
        bounds = (
            {"snapshot-id": plan.source}
            if before.source is None
            else {"start-snapshot-id": before.source, "end-snapshot-id": plan.source}
        )
        return self._spark.read.options(**bounds).table(f"{CATALOG}.{self._spec.table}")


def is_committed(state: QueryState, batch: int, plan: Plan, uri: str) -> bool:
    """Whether the queries' table has the batch: after a crash, Spark repeats the newest one.

    Raises CheckpointCorrupted if the table has a later batch, or this number with another source: a batch
    that is skipped by mistake is in no sink. ``uri``: of the checkpoint.
    """
    if batch > state.batch:
        return False
    if batch < state.batch or plan.source != state.source_snapshot_id:
        raise CheckpointCorrupted(
            f"{uri}: batch {batch} reads up to snapshot {plan.source}; the queries' table has batch "
            f"{state.batch} up to {state.source_snapshot_id}, so the batch is neither written nor skipped. "
            "Fix: start the queries again, which compares both or rebuilds the query"
        )
    return True
