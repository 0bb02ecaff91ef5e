"""The life of a consumer: take over, run the query, end well."""

from __future__ import annotations

import json
import logging
import threading
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from sluice.model.spec import platform as platforms
from sluice.model.spec import stream as streams
from sluice.model.spec.stream import StreamSpec
from spark_jobs.common.consumer.writer import Decode, StreamWriter
from spark_jobs.common.kafka.avro import Schemas, decoded
from spark_jobs.common.kafka.offsets import Topic
from spark_jobs.common.lake import tables
from spark_jobs.common.lake.writer_lease import ConcurrentCommit, run_with_lease
from spark_jobs.common.spark import progress_listener, session
from spark_jobs.common.spark.functions import function
from spark_jobs.common.spark.process import Fenced, run_process

log = logging.getLogger(__name__)


def run(name: str) -> int:
    """Run the consumer of stream ``name`` until it is told to stop (SIGTERM, SIGINT); returns the exit code.

    0: stopped as asked, after the batch in flight was published. 76: a later owner has taken over.
    1: anything else; the last line of stderr says what.
    """

    def consume(stop: threading.Event) -> None:
        spec = streams.load(name)
        platform = platforms.load("consumer")
        spark = session.start(f"sluice {name} consumer", platform, spec.topic.partitions)
        record, decode = decoding(spark, spec)
        tables.ensure(spark, spec, record)
        topic = Topic(platform.kafka, spec.topic.name)
        owner = StreamWriter(spark, platform, spec, decode, topic)
        with progress_listener.attach(spark, platform, name):
            run_with_lease(
                owner, lambda positions: ConsumerRun(spark, platform, spec, owner, positions).until(stop)
            )

    return run_process(f"the consumer of {name}", consume)


def decoding(spark: SparkSession, spec: StreamSpec) -> tuple[StructType, Decode]:
    """The type of a stream's record, and what makes the columns ``record`` and ``reason`` of a batch."""
    if spec.is_avro:
        schemas = Schemas.load(spec.schema_file)
        return schemas.current.struct(spark), partial(decoded, schemas=schemas)
    schema = tables.declared(spec)
    return schema, partial(function(spec, spec.decode), schema=schema)


class ConsumerRun:
    """The streaming query of one ownership."""

    def __init__(
        self,
        spark: SparkSession,
        platform: platforms.Platform,
        spec: StreamSpec,
        owner: StreamWriter,
        positions: dict[int, int],
    ) -> None:
        self._batch_in_flight = threading.Lock()
        self._stopping = False
        self._failure: Exception | None = None
        self._owner = owner
        options = {f"kafka.{key}": value for key, value in platform.kafka.java().items()} | {
            "subscribe": spec.topic.name,
            "startingOffsets": json.dumps({spec.topic.name: {str(p): o for p, o in positions.items()}}),
            "failOnDataLoss": "true",
            "includeHeaders": "true",
            "maxOffsetsPerTrigger": str(spec.consumer.max_offsets_per_trigger),
            "kafka.isolation.level": "read_committed",
            "kafka.max.poll.records": "20000",
            "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
        }
        records = spark.readStream.format("kafka").options(**options).load()
        self.query: StreamingQuery = (
            records.writeStream.queryName(spec.name)
            .option("checkpointLocation", owner.checkpoint.uri)
            .trigger(processingTime=f"{spec.consumer.trigger_seconds} seconds")
            .foreachBatch(self._batch)
            .start()
        )

    def _batch(self, records: DataFrame, batch_id: int) -> None:
        with self._batch_in_flight:
            if self._stopping:
                return
            try:
                self._owner.batch(records, batch_id)
            except Exception as error:
                # Spark hands a failure of this function on as text; the kind of it decides the exit code.
                self._failure = error
                raise

    def until(self, stop: threading.Event) -> None:
        """Wait for ``stop`` or for the query's end. Raises what made the query end.

        ``query.stop()`` interrupts a batch wherever it is, so the one in flight is waited for; a batch that
        begins after that sees that it must not write.
        """
        while self.query.isActive and not stop.wait(0.5):
            self._renew_group()
        if self._failure is None and self.query.isActive:
            log.info("asked to stop; finishing the batch in flight")
            with self._batch_in_flight:
                self._stopping = True
            self.query.stop()
        failure = self._failure or self.query.exception()
        if failure is None or (isinstance(failure, ConcurrentCommit) and stop.is_set()):
            return
        if not isinstance(failure, Fenced | ConcurrentCommit):
            # A later owner removes its predecessor's checkpoint.
            self._owner.raise_fenced_from(failure)
        raise failure

    def _renew_group(self) -> None:
        """Once an hour, between two batches: the offsets of a group that nobody commits to expire."""
        if self._owner.group.is_due and self._batch_in_flight.acquire(blocking=False):
            try:
                self._owner.renew_group()
            finally:
                self._batch_in_flight.release()
