"""One query of one ownership: its streaming query, and how a batch of it comes to its sinks."""

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
    """A batch reads a part of a snapshot, so nobody could say up to where is counted."""

    code = ErrorCode.PARTIAL_SNAPSHOT_READ


class StreamingQueryRun(GuardedQuery):
    """The streaming query ``name`` of ``spec``, from :meth:`start` on.

    ``waiting`` is what its sinks wait with. ``doing`` says what is being done.
    """

    def __init__(
        self,
        spark: SparkSession,
        spec: StreamSpec,
        name: str,
        owner: QueryStateWriter,
        checkpoint: Checkpoint,
        sinks: Sequence[Sink],
        waiting: CountingEvent,
    ) -> None:
        super().__init__(self._batch)
        self.name = name
        # What Spark calls it; two of one name cannot run in one session.
        self.label = f"{spec.name}.{name}"
        self._spark, self._spec, self._owner, self._checkpoint = spark, spec, owner, checkpoint
        self._query: Query = spec.queries[name]
        self._sinks, self._waiting = sinks, waiting
        self.doing = f"{name} begins"
        self._steps = 0
        self._source = IcebergTable(spark, spec.table)

    @property
    def is_resting(self) -> bool:
        """Whether it waits for its next trigger, or has not begun."""
        return self.streaming is None or not self.streaming.status["isTriggerActive"]

    def activity(self) -> object:
        """Something that changes as a batch gets on: steps of ours, tasks of Spark's, waiting for a sink."""
        tasks = session.tasks(self._spark, str(self.streaming.runId)) if self.streaming is not None else []
        return self._steps, self._waiting.waits, tasks

    def _do(self, what: str) -> None:
        self.doing = what
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
        began = time.monotonic()
        self._do(f"{self.name}: reading for batch {batch}")
        before, plan = self._plan(batch - 1), self._plan(batch)
        state = self._owner.states[self.name]
        # The query is run once: what keeps state would write its version with every look.
        found = rows.persist()
        try:
            count = found.count()
            if self._query.aggregates:
                self._checkpoint.verify(batch)
            if plan.source == before.source:
                # Time alone has passed: groups became final, and none has changed.
                return
            snapshot = self._read(plan)
            after = self._after(state, batch, plan, snapshot)
            if batch <= state.batch:
                log.info("%s: batch %d is in all sinks already", self.name, after.number)
                return
            written = self._write(found, after.number, count)
        finally:
            found.unpersist()
        late = self._late(before, plan)
        tardy = 0 if late is None else late.count()
        self._owner.publish(
            self.name, replace(after, late_rows=state.late_rows + tardy), late if tardy else None
        )
        log.info(
            "%s: batch %d: %d results to %s, %d late, in %.1f s",
            self.name, after.number, count, ", ".join(written) or "no sink anew", tardy,
            time.monotonic() - began,
        )  # fmt: skip
        self._do(f"{self.name} is at batch {after.number}")

    def _plan(self, batch: int) -> Plan:
        """What Spark planned; before the first batch, nothing."""
        if batch < 0:
            return Plan(None, 0, 0)
        return plans.parse(self._checkpoint.plan(batch), f"{self._checkpoint.uri}/offsets/{batch}")

    def _read(self, plan: Plan) -> Snapshot:
        """The newest snapshot that the batch reads. Raises PartialSnapshotRead where it does not read all of
        it."""
        self._source.refresh()
        snapshot = next((s for s in self._source.snapshots(MAIN) if s.id == plan.source), None)
        if snapshot is None:
            raise PartialSnapshotRead(
                f"{self.name}: snapshot {plan.source} of {self._spec.table} is gone; restart it"
            )
        files = int(snapshot.summary.get("added-data-files", "0"))
        if plan.files < files:
            raise PartialSnapshotRead(
                f"{self.name}: the batch reads {plan.files} of the {files} files of snapshot {plan.source}; "
                "batches of this stream must hold whole snapshots, so set no limit of files or rows"
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

    def _write(self, found: DataFrame, number: int, count: int) -> list[str]:
        """Each sink takes the batch once; one that fails is asked again when the batch runs again, and the
        others have it already. Returns those that took it now."""
        written = []
        for sink in self._sinks:
            self._do(f"{self.name}: {count} results of batch {number} to {sink.name}")
            if sink.write(number, found):
                written.append(sink.name)
        return written

    def _late(self, before: Plan, plan: Plan) -> DataFrame | None:
        """The rows of the batch that were left out; judged, as Spark does, by the watermark of the batch
        before it. None where there can be none."""
        if self._query.window is None or before.watermark <= 0 or before.source is None:
            return None
        reader = self._spark.read.option("start-snapshot-id", before.source)
        rows = reader.option("end-snapshot-id", str(plan.source)).table(f"{CATALOG}.{self._spec.table}")
        return aggregate.late(rows, self._query, before.watermark)


def ends_of(snapshot: Snapshot) -> Mapping[str, int]:
    """Partition -> the offset behind the last that is in the table with this snapshot; empty for a snapshot
    that is not the stream's."""
    told: dict[str, int] = json.loads(snapshot.summary.get("sluice.end-offsets", "{}"))
    return told
