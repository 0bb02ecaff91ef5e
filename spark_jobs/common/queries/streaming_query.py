"""One streaming query of one writer: write its batches to its sinks, then commit its state."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from sluice.model.error_codes import ErrorCode
from sluice.model.queries.state import QueryState
from sluice.model.spec.platform import CATALOG
from sluice.model.spec.query import Query
from sluice.model.spec.stream import StreamSpec
from spark_jobs.common.kafka.heartbeat import CountingEvent
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable, Snapshot
from spark_jobs.common.queries import aggregate
from spark_jobs.common.queries.state_table import QueryStateWriter
from spark_jobs.common.sinks.base import Sink
from spark_jobs.common.spark import offset_log as plans
from spark_jobs.common.spark import session
from spark_jobs.common.spark.checkpoint import Checkpoint
from spark_jobs.common.spark.guarded_query import GuardedQuery
from spark_jobs.common.spark.offset_log import Plan

log = logging.getLogger(__name__)


class PartialSnapshotRead(RuntimeError):
    """A batch reads a part of a snapshot, so its end offsets are unknown."""

    code = ErrorCode.PARTIAL_SNAPSHOT_READ


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
        rows = self._spark.readStream.format("iceberg").load(f"{CATALOG}.{self._spec.table}")
        self._start(
            aggregate.results(rows, self._query)
            .writeStream.queryName(self.label)
            .outputMode(self._query.mode)
            .option("checkpointLocation", self._checkpoint.uri)
            .trigger(processingTime=f"{self._query.trigger_seconds} seconds")
        )

    def _batch(self, rows: DataFrame, batch: int) -> None:
        started = time.monotonic()
        self._set_step(f"{self.name}: reading for batch {batch}")
        before, plan = self._plan(batch - 1), self._plan(batch)
        state = self._writer.states[self.name]
        # Computed once: a query with state would write a state version with every action.
        results = rows.persist()
        try:
            count = results.count()
            if self._query.aggregates:
                self._checkpoint.verify(batch)
            if plan.source == before.source:
                # Only the watermark moved: no group has changed.
                return
            snapshot = self._read(plan)
            after = self._after(state, batch, plan, snapshot)
            if batch <= state.batch:
                log.info("%s: batch %d skipped: all sinks have it", self.name, after.number)
                return
            written = self._write(results, after.number, count)
        finally:
            results.unpersist()
        late = self._late(before, plan)
        late_rows = 0 if late is None else late.count()
        self._writer.publish(
            self.name, replace(after, late_rows=state.late_rows + late_rows), late if late_rows else None
        )
        log.info(
            "%s: batch %d written results=%d sinks=%s late_rows=%d seconds=%.1f",
            self.name, after.number, count, ",".join(written) or "none", late_rows,
            time.monotonic() - started,
        )  # fmt: skip
        self._set_step(f"{self.name} is at batch {after.number}")

    def _plan(self, batch: int) -> Plan:
        if batch < 0:
            return Plan(None, 0, 0)
        return plans.parse(self._checkpoint.plan(batch), f"{self._checkpoint.uri}/offsets/{batch}")

    def _read(self, plan: Plan) -> Snapshot:
        self._source.refresh()
        snapshot = next((s for s in self._source.snapshots(MAIN) if s.id == plan.source), None)
        if snapshot is None:
            raise PartialSnapshotRead(
                f"{self.name}: snapshot {plan.source} of {self._spec.table} not found; restart the queries"
            )
        files = int(snapshot.summary.get("added-data-files", "0"))
        if plan.files < files:
            raise PartialSnapshotRead(
                f"{self.name}: the batch reads {plan.files} of the {files} files of snapshot {plan.source}; "
                "a batch must read complete snapshots: remove limits of files or rows per batch"
            )
        return snapshot

    def _after(self, state: QueryState, batch: int, plan: Plan, snapshot: Snapshot) -> QueryState:
        return replace(
            state,
            batch=batch,
            source_snapshot_id=snapshot.id,
            source_snapshot_at=snapshot.at_ms,
            watermark=plan.watermark,
            ends=dict(ends_of(snapshot)) or state.ends,
        )

    def _write(self, results: DataFrame, number: int, count: int) -> list[str]:
        written = []
        for sink in self._sinks:
            self._set_step(f"{self.name}: {count} results of batch {number} to {sink.name}")
            if sink.write(number, results):
                written.append(sink.name)
        return written

    def _late(self, before: Plan, plan: Plan) -> DataFrame | None:
        """The late rows of the batch, by the watermark of the batch before, as in Spark; None without one."""
        if self._query.window is None or before.watermark <= 0 or before.source is None:
            return None
        reader = self._spark.read.option("start-snapshot-id", before.source)
        rows = reader.option("end-snapshot-id", str(plan.source)).table(f"{CATALOG}.{self._spec.table}")
        return aggregate.late(rows, self._query, before.watermark)


def ends_of(snapshot: Snapshot) -> Mapping[str, int]:
    """Partition -> the table's end offset in this snapshot; empty if another program wrote it."""
    ends: dict[str, int] = json.loads(snapshot.summary.get("sluice.end-offsets", "{}"))
    return ends
