"""The writer of a stream's table: stage a batch, verify it by metadata, publish it to ``main``.

One commit carries rows and offsets, so the checkpoint is removed with every failover.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from sluice.clients.catalogs.vended import client_of, follow
from sluice.clients.kafka.consumers import topic_offsets
from sluice.config.platform import Platform
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.stream import StreamSpec
from sluice.core.error_codes import ErrorCode
from sluice.core.offsets.deduplication import LoadedRows, loaded_from, possible_duplicates
from sluice.core.offsets.quarantine import Rejections
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.verify import OffsetVerification, needs_read, verify
from sluice.core.queries import progress
from sluice.core.schema_versions.offsets import PROPERTY, SchemaOffsets
from sluice.core.tables.batches import Batch
from sluice.core.tables.summary import (
    ACQUIRED_AT,
    BATCH_ID,
    EPOCH,
    KIND,
    OFFSET_RANGES,
    STARTED_AT,
    STREAM,
    TOPIC,
)
from spark_jobs.common.consumer import state
from spark_jobs.common.consumer.batch_log import BatchLogWriter, newest_batches, record
from spark_jobs.common.consumer.direct.direct_rows import DirectRows
from spark_jobs.common.consumer.direct.task import Duplicates
from spark_jobs.common.consumer.start import first_offsets
from spark_jobs.common.consumer.state import StreamState
from spark_jobs.common.kafka.offsets import Group, Topic
from spark_jobs.common.lake import known_tables
from spark_jobs.common.lake.clock import now_ms
from spark_jobs.common.lake.followed import documents
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from spark_jobs.common.lake.loaded_rows import BatchRows, LoadedRowsStore
from spark_jobs.common.lake.quarantine import BatchQuarantine
from spark_jobs.common.lake.writer_lease import WriterLease
from spark_jobs.common.lake.written.read_offsets import OffsetReader
from spark_jobs.common.lake.written.written_batch import WrittenBatch
from spark_jobs.common.spark.checkpoint import Checkpoints
from spark_jobs.common.spark.failures import Unrecoverable
from spark_jobs.common.spark.offset_log import planned_end_offsets

log = logging.getLogger(__name__)

# Snapshots of the table that are kept; more of them for a query that has read none of them.
KEEP_SNAPSHOTS = 20
# Batches whose loaded rows are in snapshots only: fewer than are kept. A catalog that expires snapshots by
# itself may keep one: there each batch is recorded at once.
RECORD_INTERVAL = 10
# Records of a batch whose rows are written as one file, and read back, instead of as one per topic partition.
SMALL_BATCH = 25_000
# A broker that starts may not know its last records for a moment.
SECOND_LOOK_SECONDS = 5.0


class VerificationFailed(RuntimeError):
    """The batch did not pass its verification and was not published."""

    code = ErrorCode.BATCH_NOT_VERIFIED


class StreamWriter(WriterLease):
    """The writer of one stream from :meth:`acquire` on. For one thread at a time."""

    def __init__(
        self,
        spark: SparkSession,
        platform: Platform,
        spec: StreamSpec,
        rows_of: Callable[[StreamWriter], DirectRows],
        topic: Topic,
    ) -> None:
        super().__init__(spark, spec.table, spec.name)
        self.spark, self.spec, self.rows_of, self.topic = spark, spec, rows_of, topic
        self.platform = platform
        self.checkpoints = Checkpoints(spark, platform.checkpoints.root, spec.name)
        self.group = Group(platform.kafka, spec.name, spec.topic.name)
        self.quarantine = BatchQuarantine(spark, spec)
        for table in (self.table, self.quarantine.table):
            follow(platform, table.name, table.location())
        self.client = client_of(platform)
        self.offset_reader = OffsetReader(self.client)
        self.store = LoadedRowsStore(self.client, self.table.documents())
        self.batches = BatchLogWriter(self.client, self.table.documents())
        self.state = StreamState()
        # Those of published records; None if these name none.
        self.schemas: SchemaOffsets | None = None
        self.acquired_at = 0
        # The writer before this one acquired the lease, and published nothing.
        self.follows_a_failure = False
        self.checkpoint = self.checkpoints.of_writer(self.branch)

    def acquire(self) -> dict[int, int]:
        """Acquire the lease; return partition -> the next offset to read.

        Raises Unrecoverable if retention deleted the next records, or the topic was recreated.
        """
        # The id first: the first batch detects a topic that is recreated after it was read.
        topic_id, bounds = self.topic.id(), topic_offsets(self.topic.kafka, self.topic.name)
        ends: dict[int, int] = {}
        recent = list[Batch]()

        def read() -> None:
            self.state = state.of_main(self.table, self.offset_reader, self.client)
            newest = next((snapshot.summary for snapshot in self.table.snapshots(MAIN)), {})
            self.follows_a_failure = newest.get(KIND) == "epoch-start"
            recent[:] = newest_batches(self.table, len(self.state.unrecorded) + KEEP_SNAPSHOTS)
            self.store.forget()
            if self.platform.lake.is_maintained_by_catalog and self.state.unrecorded:
                # The next snapshot would say that their rows are in one before it, which may be gone soon.
                self._record(f"start-{uuid4().hex}")
            if self.spec.uses_registry:
                self.schemas = SchemaOffsets.of(self.table.properties())
            self.acquired_at = now_ms()
            self._check_topic(topic_id)
            self.state.topic_id = topic_id
            if any(end > bounds.get(p, (0, end))[1] for p, end in self.state.ends.items()):
                time.sleep(SECOND_LOOK_SECONDS)
                bounds.update(topic_offsets(self.topic.kafka, self.topic.name))
            ends.clear()
            ends.update(self._resume_from(bounds))

        self._acquire(read, lambda: self._summary("epoch-start", OffsetRanges(), ends))
        self.quarantine.settle(self.branch, self.state.rejected, self.state.ends, self.check_lease)
        self.state.rejected = self.quarantine.with_malformed(self.state.rejected)
        # A catalog that expires snapshots by its own rules may have left none of a batch.
        known = ends if self.platform.lake.is_maintained_by_catalog else None
        self.batches.note_restore(recent, self.acquired_at, self.branch, known)
        self.state.ends = ends
        self.checkpoint = self.checkpoints.create(self.branch)
        self.group.commit(ends)
        return ends

    def _check_topic(self, topic_id: str) -> None:
        # A new table has none.
        if self.state.topic_id not in (None, topic_id):
            raise Unrecoverable(
                f"topic {self.spec.topic.name!r} was recreated: its id is {topic_id}, {self.spec.table} has "
                f"{self.state.topic_id}. Fix: give the stream a new table"
            )

    def _resume_from(self, bounds: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        ends = dict(self.state.ends)
        begin = {} if self.state.epoch else first_offsets(self.platform.kafka, self.spec, bounds)
        for partition, (first, after) in bounds.items():
            # A new stream begins where it is declared to; a partition that was added later, at 0.
            start = self.state.starts.setdefault(partition, begin.get(partition, 0))
            end = ends.setdefault(partition, start)
            topic = f"{self.spec.topic.name} partition {partition}"
            if end < first:
                raise Unrecoverable(
                    f"{topic}: offsets [{end}, {first}) were deleted before they were read. Fix: give the "
                    "stream a new table, upload the files again if it has any, and raise the topic's "
                    "retention.ms"
                )
            if end > after:
                raise Unrecoverable(
                    f"{topic}: ends at {after}, but the table holds offsets up to {end}: the topic was "
                    "restored to an earlier state, or lost records. Fix: give the stream a new table, or "
                    "restore the topic"
                )
        return ends

    def _summary(
        self, kind: str, ranges: OffsetRanges, ends: Mapping[int, int], more: Mapping[str, int] | None = None
    ) -> dict[str, str]:
        return {
            KIND: kind,
            STREAM: self.spec.name,
            TOPIC: self.spec.topic.name,
            EPOCH: str(self.epoch),
            ACQUIRED_AT: str(self.acquired_at),
            OFFSET_RANGES: json.dumps({p: r.pairs()[0] for p, r in ranges.partitions.items()}),
            **self.state.summary(ends),
            **{name: str(value) for name, value in (more or {}).items()},
        }

    def batch(self, records: DataFrame, batch_id: int) -> None:
        """Write, verify and publish one micro-batch, for ``foreachBatch``, whose records are not evaluated.

        Raises Fenced, VerificationFailed, ConcurrentCommit, Unrecoverable for a recreated topic,
        CheckpointCorrupted if Spark lost the batch's plan; then ``main`` is unchanged.
        """
        began = time.time()
        planned = planned_end_offsets(self.checkpoint, batch_id, self.spec.topic.name)
        ends = self.state.ends | planned
        for partition in planned:
            self.state.starts.setdefault(partition, 0)
        # A new partition starts at 0, else Spark refuses it as data loss.
        ranges = OffsetRanges.from_ends(self.state.ends, ends)
        if not ranges:
            return
        summary = self._summary("batch", ranges, ends, {BATCH_ID: batch_id, STARTED_AT: int(began * 1000)})
        rows = self.rows_of(self)
        written, verification = self._write_and_verify(rows, ranges, summary)
        if not verification.is_ok:
            raise VerificationFailed(
                f"{self.spec.table}: batch {batch_id} of {ranges}: {verification.message()}"
            )
        # If the id is the same after the read, the records are of that topic.
        self._check_topic(self.topic.id())
        schemas = self._schemas_after(written, ranges)
        properties = {PROPERTY: schemas.text()} if schemas else None
        self._publish(KEEP_SNAPSHOTS, self._needed_from, properties)
        if rejected := written.rejected.count:
            _, after = self.rejections(rejected, summary, written.malformed)
            self.quarantine.publish(self.branch, after)
            self.state.rejected = after
        self.schemas = schemas
        self.state.ends, self.state.leader_epochs = ends, dict(rows.epochs)
        self.state.unrecorded.append(BatchRows(ranges, loaded_from(written.runs)))
        log.info(
            "batch published batch=%d records=%d files=%d verification=%r seconds=%.1f",
            batch_id,
            ranges.count,
            len(written.files),
            verification.message(),
            time.time() - began,
        )
        # One PUT per source, which no reader of the batch waits for.
        self._record_rows(f"{self.branch}-{batch_id}")
        self.group.commit(ends)

    def _schemas_after(self, written: WrittenBatch, ranges: OffsetRanges) -> SchemaOffsets | None:
        """Which schemas the records are of, once the batch is published; None if they name none."""
        if self.schemas is None:
            return None
        after = self.schemas.more(written.schemas, ranges, now_ms())
        if not after.is_long(written.schemas):
            return after
        # Before the commit that names it.
        return documents.moved(self.client, self.table.documents(), after)

    def check_while_idle(self) -> None:
        """Check the lease, and commit the group's offsets again if that is due; later if the table cannot be
        read.

        Raises Fenced (a zombie would move the group back), and ConcurrentCommit.
        """
        try:
            self.check_lease()
        except (Py4JJavaError, PySparkException) as error:
            if self.group.is_due:
                self.group.postpone(f"the table cannot be read: {str(error).splitlines()[0]}")
            return
        if self.group.is_due:
            self.group.commit(self.state.ends)

    def _write_and_verify(
        self, rows: DirectRows, ranges: OffsetRanges, summary: Mapping[str, str]
    ) -> tuple[WrittenBatch, OffsetVerification]:
        is_small = ranges.count <= SMALL_BATCH
        written = rows.write(self, ranges, summary, is_small=is_small)
        loaded = self._loaded_rows({run.source_id for run in written.runs})
        sources = possible_duplicates(loaded, written.runs)
        if sources:
            log.warning("possible duplicates sources=%s; comparing rows", ",".join(sorted(sources)))
            duplicates = Duplicates(loaded, frozenset(sources))
            written = rows.write(self, ranges, summary, duplicates, is_small=is_small)
        elsewhere = written.rejected.union(written.without_record)
        stats = [file.stats for file in written.files]
        paths = [file.path for file in needs_read(ranges, stats)]
        return written, verify(ranges, stats, written.offsets(paths), quarantined=elsewhere)

    def rejections(
        self, count: int, summary: Mapping[str, str], malformed: int
    ) -> tuple[Rejections, Rejections]:
        """The stream's, before the batch with this summary, which rejects ``count`` records, and after it."""
        before = self.state.rejected
        return before, before.more(count, f"{self.branch}/{summary[BATCH_ID]}", malformed)

    def _loaded_rows(self, sources: set[str]) -> LoadedRows:
        """The published rows of these sources."""
        recorded = self.state.recorded
        found = self.store.of(sources, self.state.ends, self.state.changes) if recorded else LoadedRows()
        return LoadedRows(
            {source: found[source].union(self.state.unrecorded_rows(source)) for source in sources}
        )

    def _needed_from(self) -> int:
        """When the oldest snapshot was committed that a query or the next writer reads (ms since 1970)."""
        of_writer = state.needed_from(self.table.snapshots(MAIN), len(self.state.unrecorded), now_ms())
        return min(of_writer, self._needed_by_queries())

    def _needed_by_queries(self) -> int:
        now, table = now_ms(), self.spec.queries_table
        if not self.spec.queries:
            return now
        if not self.spark.catalog.tableExists(f"{CATALOG}.{table}"):
            # New, or lost by the catalog: then its queries go on from where they were, once it is registered.
            is_lost = known_tables.known(self.client, self.platform.lake.ledger, self.spec.name, table)
            return state.reader_horizon(self.table.snapshots(MAIN), 0, now) if is_lost else now
        summaries = (snapshot.summary for snapshot in IcebergTable(self.spark, table).snapshots(MAIN))
        oldest = progress.oldest_source(summaries, self.spec.queries, now)
        return state.reader_horizon(self.table.snapshots(MAIN), oldest, now)

    def _record_rows(self, name: str) -> None:
        """Record the newest batches and their rows outside of what expires, if they are many."""
        interval = 1 if self.platform.lake.is_maintained_by_catalog else RECORD_INTERVAL
        if len(self.state.unrecorded) >= interval:
            self._record(name)

    def _record(self, name: str) -> None:
        record(self.table, self.store, self.batches, name, self.state.unrecorded)
        self.state.recorded += len(self.state.unrecorded)
        self.state.unrecorded = []
