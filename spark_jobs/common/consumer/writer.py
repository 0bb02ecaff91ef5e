"""The owner of a stream: the one writer whose batches can become visible.

A batch is appended to the owner's branch, proved from the table's metadata, and published by moving ``main``
forward. Taking over puts a snapshot with a higher epoch on ``main``: from then on no earlier owner's branch
descends from it, so whatever an earlier owner still writes, it cannot publish. One commit carries rows and
offsets, so there is no second truth: the checkpoint is thrown away with every take-over.
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

from sluice.model.error_codes import ErrorCode
from sluice.model.spec.platform import CATALOG, Platform
from sluice.model.spec.stream import StreamSpec
from sluice.model.verification.deduplication import LoadedRows, Run, loaded_from, possible_duplicates
from sluice.model.verification.offsets import Proof, needs_read, prove
from sluice.model.verification.ranges import OffsetRanges
from spark_jobs.common.kafka.keys import with_identity
from spark_jobs.common.kafka.offsets import Group, Topic
from spark_jobs.common.lake import deduplicate
from spark_jobs.common.lake.iceberg import MAIN, AddedFile
from spark_jobs.common.lake.quarantine import quarantine_records
from spark_jobs.common.lake.read_offsets import OffsetReader
from spark_jobs.common.lake.writer_lease import WriterLease
from spark_jobs.common.spark.checkpoint import Checkpoints
from spark_jobs.common.spark.offset_log import batch_ranges, planned_end_offsets
from spark_jobs.common.spark.process import Unrecoverable

log = logging.getLogger(__name__)

# Rows with all that Kafka says of a record (its coordinates, `_kafka_topic`, `_kafka_timestamp_type`, `key`,
# `value`, `headers`) -> the same with its decoded `record`, and the `reason` why it is none (null: it is
# one).
Decode = Callable[[DataFrame], DataFrame]


class VerificationFailed(RuntimeError):
    """The batch's own audit did not come out exact; nothing of it was published."""

    code = ErrorCode.BATCH_NOT_VERIFIED


@dataclass
class State:
    """Where the stream stands on ``main``: what is published is [starts, ends).

    ``epoch`` is its newest owner's.
    """

    epoch: int = 0
    topic_id: str | None = None
    starts: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    loaded_rows: LoadedRows = field(default_factory=LoadedRows)
    # The newest batch's claims are known only after its commit, so its successor's summary carries them.
    latest: LoadedRows = field(default_factory=LoadedRows)


class StreamWriter(WriterLease):
    """Owns one stream from :meth:`acquire` on. Not for several threads at once."""

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
        self.readback = OffsetReader(platform.s3)
        self.state = State()
        self.checkpoint = self.checkpoints.of(0)

    def acquire(self) -> dict[int, int]:
        """Become the owner, also once more after ConcurrentCommit. Returns partition -> the offset to go on
        from.

        Raises LookupError when the topic no longer holds what comes next (retention deleted it), or when it
        is another than the table's (it was made anew).
        """
        # The id first: a topic that is made anew after it is noticed by the first batch.
        topic_id, watermarks = self.topic.id(), self.topic.begin_and_end_offsets()
        ends: dict[int, int] = {}

        def read() -> None:
            self.state = self._read_state()
            self._refuse_another_topic(topic_id)
            self.state.topic_id = topic_id
            ends.clear()
            ends.update(self._resume_from(watermarks))

        self._acquire(read, lambda kind: self._summary(kind, OffsetRanges(), ends))
        self.state.ends = ends
        self.checkpoint = self.checkpoints.create(self.epoch)
        self.group.commit(ends)
        return ends

    def _refuse_another_topic(self, topic_id: str) -> None:
        """``topic_id`` is the topic's now; a table of before ids were kept accepts any."""
        if self.state.topic_id not in (None, topic_id):
            raise Unrecoverable(
                f"topic {self.spec.topic.name!r} has the id {topic_id}, and {self.spec.table} was read from "
                f"{self.state.topic_id}: the topic was made anew; give the stream a new table"
            )

    def _resume_from(self, watermarks: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        ends = dict(self.state.ends)
        for partition, (first, after) in watermarks.items():
            end = ends.setdefault(partition, first)
            self.state.starts.setdefault(partition, first)
            topic = f"{self.spec.topic.name} partition {partition}"
            if end < first:
                raise Unrecoverable(
                    f"{topic}: offsets [{end}, {first}) were deleted before they were read; give the "
                    f"stream a new table, put the files again, and raise the topic's retention.ms"
                )
            if end > after:
                raise LookupError(
                    f"{topic}: ends at {after}, but the table holds offsets up to {end}: the topic was made "
                    f"anew; give the stream a new table, or restore the topic"
                )
        return ends

    def _read_state(self) -> State:
        """From the snapshots of ``main``, newest first; those of maintenance say nothing of the stream."""
        state, newest_batch = State(), None
        for snapshot_id, summary in self.table.ancestors(MAIN):
            if "sluice.kind" not in summary:
                continue
            if not state.epoch:
                state.epoch = int(summary["sluice.epoch"])
                state.starts = _offsets(summary["sluice.start-offsets"])
                state.ends = _offsets(summary["sluice.end-offsets"])
                newest_batch = snapshot_id if summary["sluice.kind"] == "batch" else None
            state.topic_id = state.topic_id or summary.get("sluice.topic-id")
            state.loaded_rows = state.loaded_rows.union(
                LoadedRows.from_json(summary.get("sluice.loaded-rows", "{}"))
            )
        if newest_batch is not None:
            # Its rows are in the table, so they are read from there.
            rows = self.spark.read.option("snapshot-id", newest_batch).table(f"{CATALOG}.{self.spec.table}")
            files = self.table.added_files(newest_batch)
            paths = [file.fact.path for file in files]
            state.latest = loaded_from(self._runs(files, lambda: rows.where(F.col("_file").isin(paths))))
            state.loaded_rows = state.loaded_rows.union(state.latest)
        return state

    def _summary(
        self, kind: str, ranges: OffsetRanges, ends: Mapping[int, int], more: Mapping[str, int] | None = None
    ) -> dict[str, str]:
        """What every snapshot of this owner says, and ``more``; the words are in docs/architecture.md."""
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
        """Write, audit and publish one micro-batch (the function for ``foreachBatch``).

        Raises Fenced when a later owner has taken over, VerificationFailed when the batch's audit is not
        exact, ConcurrentCommit when maintenance moved ``main``, LookupError when the topic is another one
        now, CheckpointCorrupted when Spark lost the batch's plan. Either way ``main`` is where it was.
        """
        began = time.time()
        planned = planned_end_offsets(self.checkpoint, batch_id, self.spec.topic.name)
        ends = self.state.ends | planned
        for partition in planned:
            self.state.starts.setdefault(partition, 0)
        ranges = batch_ranges(self.state.ends, ends)
        if not ranges:
            return
        summary = self._summary(
            "batch", ranges, ends, {"batch-id": batch_id, "started-at": int(began * 1000)}
        )
        files, proof = self._append_and_prove(self._decoded(records), ranges, summary)
        if not proof.is_ok:
            raise VerificationFailed(f"{self.spec.table}: batch {batch_id} of {ranges}: {proof.message()}")
        # What was read before the topic still had its id was read from that topic.
        self._refuse_another_topic(self.topic.id())
        self._publish()
        self.state.ends = ends
        log.info(
            "published batch %d: %d records, %d files, %s, in %.1f s",
            batch_id,
            ranges.count,
            len(files),
            proof.message(),
            time.time() - began,
        )
        self.group.commit(ends)

    def renew_group(self) -> None:
        """Commit the group's offsets again, as long as this is still the owner; for a stream that is idle.

        Raises Fenced when a later owner has taken over: a zombie would put the group back. Where the
        table cannot be looked at, it is tried again later.
        """
        try:
            self.raise_if_fenced()
        except (Py4JJavaError, PySparkException) as error:
            self.group.postpone(f"the table could not be looked at: {str(error).splitlines()[0]}")
            return
        self.group.renew()

    def _decoded(self, records: DataFrame) -> DataFrame:
        """Coordinates, identity, raw bytes, the decoded ``record``, and the ``reason`` why it is none.

        ``decode`` sees all that Kafka says of a record; what of that it does not put into ``record`` is in no
        table.
        """
        placed = with_identity(
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
        return self.decode(placed).drop("_kafka_topic", "_kafka_timestamp_type", "headers")

    def _append_and_prove(
        self, rows: DataFrame, ranges: OffsetRanges, summary: Mapping[str, str]
    ) -> tuple[list[AddedFile], Proof]:
        base = self.head
        good = F.col("reason").isNull()
        files = self._append(rows.where(good), summary)
        # With the bad rows: without, each would be a gap, and the claims as long as there are bad ones.
        runs = self._runs(files, lambda: rows)
        suspected = possible_duplicates(self.state.loaded_rows, runs)
        if suspected:
            log.warning("sources %s may have sent rows again; looking closer", ", ".join(sorted(suspected)))
            rows = deduplicate.named(rows, self.state.loaded_rows, suspected)
            self.table.reset_branch(self.branch, base)
            files = self._append(rows.where(good), summary)
            runs = self._runs(files, lambda: rows)
        explained = OffsetRanges()
        if sum(file.fact.records for file in files) != ranges.count:
            explained = quarantine_records(self.spark, self.spec, rows.where(~good), ranges)
        self.state.latest = loaded_from(runs)
        facts = [file.fact for file in files]
        unsettled = [fact.path for fact in needs_read(ranges, facts, explained)]
        offsets = self.readback.coordinates(unsettled) if unsettled else {}
        return files, prove(ranges, facts, offsets, explained=explained)

    def _append(self, rows: DataFrame, summary: Mapping[str, str]) -> list[AddedFile]:
        coordinates = ["_kafka_partition", "_kafka_offset", "_kafka_timestamp"]
        identity = ["_source_id", "_source_row", "_source_base_offset"]
        writer = rows.select("record.*", *coordinates, *identity).writeTo(
            f"{CATALOG}.{self.spec.table}.branch_{self.branch}"
        )
        for key, value in summary.items():
            writer = writer.option(f"snapshot-property.{key}", value)
        writer.append()
        self.table.refresh()
        self.head = self._branch_head()
        return self.table.added_files(self.head)

    @staticmethod
    def _runs(files: list[AddedFile], rows: Callable[[], DataFrame]) -> list[Run]:
        """From the files' bounds; where those do not settle it, from the ``rows`` themselves."""
        runs = [file.run() for file in files if not file.is_foreign]
        settled = [run for run in runs if run is not None]
        return settled if len(settled) == len(runs) else deduplicate.runs(rows())

    def _publish(self) -> None:
        super()._publish()
        self.state.loaded_rows = self.state.loaded_rows.union(self.state.latest)


def _offsets(text: str) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in json.loads(text).items()}
