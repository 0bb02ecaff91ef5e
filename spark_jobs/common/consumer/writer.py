"""The writer of a stream's table: append a batch to a branch, verify it by metadata, publish it to ``main``.

One commit carries rows and offsets, so the checkpoint is removed with every failover.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.model.error_codes import ErrorCode, coded
from sluice.model.spec.platform import CATALOG, Platform
from sluice.model.spec.stream import StreamSpec
from sluice.model.verification.deduplication import LoadedRows, Run, loaded_from, possible_duplicates
from sluice.model.verification.offsets import OffsetVerification, needs_read, verify
from sluice.model.verification.ranges import OffsetRanges, offsets_from_json
from spark_jobs.common.kafka.keys import with_identity
from spark_jobs.common.kafka.offsets import Group, Topic
from spark_jobs.common.lake import deduplicate
from spark_jobs.common.lake.iceberg import MAIN, AddedFile
from spark_jobs.common.lake.quarantine import quarantine_records
from spark_jobs.common.lake.read_offsets import OffsetReader
from spark_jobs.common.lake.writer_lease import LeasedWriter
from spark_jobs.common.spark.checkpoint import Checkpoints
from spark_jobs.common.spark.offset_log import planned_end_offsets
from spark_jobs.common.spark.process import Unrecoverable

log = logging.getLogger(__name__)

# Kafka's columns (`_kafka_…`, `key`, `value`, `headers`) -> the same with the decoded `record`, and with the
# `reason` why it is malformed (or null).
Decode = Callable[[DataFrame], DataFrame]


class VerificationFailed(RuntimeError):
    """The batch did not pass its verification and was not published."""

    code = ErrorCode.BATCH_NOT_VERIFIED


@dataclass
class StreamState:
    """The stream's state on ``main``: the newest epoch, published offsets [starts, ends), loaded rows."""

    epoch: int = 0
    topic_id: str | None = None
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    loaded_rows: LoadedRows = field(default_factory=LoadedRows)
    # Of the newest batch: known after its commit only, so the next batch's summary carries them.
    latest: LoadedRows = field(default_factory=LoadedRows)


class StreamWriter(LeasedWriter[dict[int, int]]):
    """The writer of one stream from :meth:`acquire` on. For one thread at a time."""

    def __init__(
        self,
        spark: SparkSession,
        platform: Platform,
        spec: StreamSpec,
        decode: Decode,
        topic: Topic,
    ) -> None:
        super().__init__(spark, spec.table, spec.name)
        self.spark, self.spec, self.decode, self.topic = spark, spec, decode, topic
        self.checkpoints = Checkpoints(spark, platform.checkpoints.root, spec.name)
        self.group = Group(platform.kafka, spec.name, spec.topic.name)
        self.offset_reader = OffsetReader(platform.s3)
        self.state = StreamState()
        self.checkpoint = self.checkpoints.of_writer(self.branch)

    def acquire(self) -> dict[int, int]:
        """Acquire the lease; return partition -> the next offset to read.

        Raises LookupError if retention deleted the next records, or the topic was recreated.
        """
        # The id first: the first batch detects a topic that is recreated after it was read.
        topic_id, bounds = self.topic.id(), self.topic.begin_and_end_offsets()
        ends: dict[int, int] = {}

        def read() -> None:
            self.state = self._read_state()
            self._check_topic(topic_id)
            self.state.topic_id = topic_id
            ends.clear()
            ends.update(self._resume_from(bounds))

        self._acquire(read, lambda: self._summary("epoch-start", OffsetRanges(), ends))
        self.state.ends = ends
        self.checkpoint = self.checkpoints.create(self.branch)
        self.group.commit(ends)
        return ends

    def _check_topic(self, topic_id: str) -> None:
        # A table from before topic ids were stored has none.
        if self.state.topic_id not in (None, topic_id):
            raise Unrecoverable(
                f"topic {self.spec.topic.name!r} was recreated: its id is {topic_id}, {self.spec.table} has "
                f"{self.state.topic_id}. Fix: give the stream a new table"
            )

    def _resume_from(self, bounds: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        ends = dict(self.state.ends)
        is_new = not self.state.epoch
        for partition, (first, after) in bounds.items():
            # A new stream begins with what the topic keeps; a partition that was added to it, at 0.
            start = self.state.starts.setdefault(partition, first if is_new else 0)
            end = ends.setdefault(partition, start)
            topic = f"{self.spec.topic.name} partition {partition}"
            if end < first:
                raise Unrecoverable(
                    f"{topic}: offsets [{end}, {first}) were deleted before they were read. Fix: give the "
                    f"stream a new table, upload the files again, and raise the topic's retention.ms"
                )
            if end > after:
                raise coded(
                    ErrorCode.UNRECOVERABLE,
                    LookupError(
                        f"{topic}: ends at {after}, but the table holds offsets up to {end}: the topic was "
                        f"recreated. Fix: give the stream a new table, or restore the topic"
                    ),
                )
        return ends

    def _read_state(self) -> StreamState:
        # From the newest snapshot back; those of maintenance have no properties of Sluice.
        state, newest_batch = StreamState(), None
        for snapshot_id, summary in self.table.ancestors(MAIN):
            if "sluice.kind" not in summary:
                continue
            if not state.epoch:
                state.epoch = int(summary["sluice.epoch"])
                state.starts = offsets_from_json(summary["sluice.start-offsets"])
                state.ends = offsets_from_json(summary["sluice.end-offsets"])
                newest_batch = snapshot_id if summary["sluice.kind"] == "batch" else None
            state.topic_id = state.topic_id or summary.get("sluice.topic-id")
            state.loaded_rows = state.loaded_rows.union(
                LoadedRows.from_json(summary.get("sluice.loaded-rows", "{}"))
            )
        if newest_batch is not None:
            rows = self.spark.read.option("snapshot-id", newest_batch).table(f"{CATALOG}.{self.spec.table}")
            files = self.table.added_files(newest_batch)
            paths = [file.stats.path for file in files]
            state.latest = loaded_from(self._runs(files, lambda: rows.where(F.col("_file").isin(paths))))
            state.loaded_rows = state.loaded_rows.union(state.latest)
        return state

    def _summary(
        self, kind: str, ranges: OffsetRanges, ends: Mapping[int, int], more: Mapping[str, int] | None = None
    ) -> dict[str, str]:
        return {
            "sluice.kind": kind,
            "sluice.stream": self.spec.name,
            "sluice.topic": self.spec.topic.name,
            "sluice.topic-id": str(self.state.topic_id),
            "sluice.epoch": str(self.epoch),
            "sluice.offset-ranges": json.dumps(
                {str(p): list(r.pairs()[0]) for p, r in ranges.partitions.items()}
            ),
            "sluice.start-offsets": json.dumps(
                {str(p): offset for p, offset in sorted(self.state.starts.items())}
            ),
            "sluice.end-offsets": json.dumps({str(p): offset for p, offset in sorted(ends.items())}),
            "sluice.loaded-rows": self.state.latest.to_json(),
            **{f"sluice.{name}": str(value) for name, value in (more or {}).items()},
        }

    def batch(self, records: DataFrame, batch_id: int) -> None:
        """Write, verify and publish one micro-batch, for ``foreachBatch``.

        Raises Fenced, VerificationFailed, ConcurrentCommit, LookupError for a recreated topic,
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
        summary = self._summary(
            "batch", ranges, ends, {"batch-id": batch_id, "started-at": int(began * 1000)}
        )
        files, verification = self._append_and_verify(self._decoded(records), ranges, summary)
        if not verification.is_ok:
            raise VerificationFailed(
                f"{self.spec.table}: batch {batch_id} of {ranges}: {verification.message()}"
            )
        # If the id is the same after the read, the records are of that topic.
        self._check_topic(self.topic.id())
        self._publish()
        self.state.ends = ends
        log.info(
            "batch published batch=%d records=%d files=%d verification=%r seconds=%.1f",
            batch_id,
            ranges.count,
            len(files),
            verification.message(),
            time.time() - began,
        )
        self.group.commit(ends)

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
            self.group.renew()

    def _decoded(self, records: DataFrame) -> DataFrame:
        identified = with_identity(
            records.select(
                F.col("topic").alias("_kafka_topic"),
                F.col("partition").alias("_kafka_partition"),
                F.col("offset").alias("_kafka_offset"),
                F.col("timestamp").alias("_kafka_timestamp"),
                F.col("timestampType").alias("_kafka_timestamp_type"),
                "key",
                "value",
                "headers",
            )
        )
        return self.decode(identified).drop("_kafka_topic", "_kafka_timestamp_type", "headers")

    def _append_and_verify(
        self, rows: DataFrame, ranges: OffsetRanges, summary: Mapping[str, str]
    ) -> tuple[list[AddedFile], OffsetVerification]:
        good = F.col("reason").isNull()
        files = self._append(rows.where(good), summary)
        # Of all rows: without the malformed ones, each would be a gap, and loaded rows would grow by it.
        runs = self._runs(files, lambda: rows)
        sources = possible_duplicates(self.state.loaded_rows, runs)
        if sources:
            log.warning("possible duplicates sources=%s; comparing rows", ",".join(sorted(sources)))
            rows = deduplicate.flag_duplicates(rows, self.state.loaded_rows, sources)
            files = self._append(rows.where(good), summary)
            runs = self._runs(files, lambda: rows)
        quarantined = OffsetRanges()
        if sum(file.stats.records for file in files) != ranges.count:
            quarantined = quarantine_records(self.spark, self.spec, rows.where(~good), ranges)
        self.state.latest = loaded_from(runs)
        stats = [file.stats for file in files]
        paths = [file.path for file in needs_read(ranges, stats, quarantined)]
        offsets = self.offset_reader.read(paths) if paths else {}
        return files, verify(ranges, stats, offsets, quarantined=quarantined)

    def _append(self, rows: DataFrame, summary: Mapping[str, str]) -> list[AddedFile]:
        offsets = ["_kafka_partition", "_kafka_offset", "_kafka_timestamp"]
        source = ["_source_id", "_source_row", "_source_base_offset"]
        self.write_branch(rows.select("record.*", *offsets, *source), summary)
        return self.table.added_files(self.head)

    @staticmethod
    def _runs(files: list[AddedFile], rows: Callable[[], DataFrame]) -> list[Run]:
        """From the files' bounds, or from ``rows`` if these are not conclusive."""
        runs = [file.run() for file in files if not file.is_external]
        conclusive = [run for run in runs if run is not None]
        return conclusive if len(conclusive) == len(runs) else deduplicate.runs(rows())

    def _publish(self) -> None:
        super()._publish()
        self.state.loaded_rows = self.state.loaded_rows.union(self.state.latest)
