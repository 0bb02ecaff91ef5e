"""The consumer of a stream: acquire the lease, run the query, stop after a batch."""

from __future__ import annotations

import json
import logging
import threading
from functools import partial
from time import monotonic
from typing import cast

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructType

from sluice.clients.catalogs.vended import client_of
from sluice.clients.kafka.consumers import topic_offsets
from sluice.clients.kafka.login.properties import check_token
from sluice.clients.registry.schemas import RegistrySchemas
from sluice.clients.s3.login.credentials import check_login
from sluice.config import platform as platforms
from sluice.config import streams
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.stream import StreamSpec
from sluice.core.decoding.decoder import RecordDecoder
from sluice.core.processes import java
from sluice.core.registry.schemas import Schemas
from sluice.core.tables.storage import documents_place
from spark_jobs.common.consumer.decoded_rows import Decode
from spark_jobs.common.consumer.decoders import decoder_of
from spark_jobs.common.consumer.direct.direct_rows import DirectSource
from spark_jobs.common.consumer.direct.follower import Follower
from spark_jobs.common.consumer.followed import ending_of, followed_by, table_message, table_schema
from spark_jobs.common.consumer.writer import StreamWriter
from spark_jobs.common.kafka.avro import AvroSchema
from spark_jobs.common.kafka.avro import Schemas as OwnSchemas
from spark_jobs.common.kafka.fingerprints import FingerprintSchemas
from spark_jobs.common.kafka.login import explained
from spark_jobs.common.kafka.offsets import Topic
from spark_jobs.common.lake import known_tables, login, tables
from spark_jobs.common.lake.followed import documents
from spark_jobs.common.lake.followed.declared_columns import newest_document
from spark_jobs.common.lake.iceberg import IcebergTable
from spark_jobs.common.lake.writer_lease import ConcurrentCommit, run_with_lease
from spark_jobs.common.spark import progress_listener, session
from spark_jobs.common.spark.failures import LakeFileMissing
from spark_jobs.common.spark.functions import function
from spark_jobs.common.spark.guarded_query import GuardedQuery
from spark_jobs.common.spark.login import s3 as s3_login
from spark_jobs.common.spark.pandas import leave_out_pandas
from spark_jobs.common.spark.process import run_process

log = logging.getLogger(__name__)

# Between two checks of an idle consumer's lease: one row of the catalog's database each.
CHECK_SECONDS = 10.0
SETTINGS = {
    "spark.python.daemon.module": "spark_jobs.common.consumer.direct.daemon",
    # Rows to a stream's own function: by default 10,000, which may be more than 2 GB.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
}
# The same with a decoder: the JVM plans and commits, and Python's processes run no code of the stream's own.
WITH_DECODER = {
    "spark.python.daemon.module": "spark_jobs.common.consumer.direct.decoder_daemon",
    **java.PLANNING,
    **session.ARROW_MEMORY,
}


def run(name: str) -> int:
    """Run the consumer of stream ``name`` until SIGTERM or SIGINT; return the exit code of run_process."""

    def consume(stop: threading.Event) -> None:
        spec, platform = streams.load(name), platforms.load("consumer")
        with explained(platform.kafka), login.explained(platform), s3_login.explained(platform):
            _consume(spec, platform, stop)

    return run_process(f"the consumer of {name}", consume)


def _consume(spec: StreamSpec, platform: platforms.Platform, stop: threading.Event) -> None:
    name, settings = spec.name, SETTINGS
    if not spec.decode:
        settings = settings | WITH_DECODER
        leave_out_pandas()
    # A topic of others has as many as it has.
    partitions = spec.topic.partitions or len(topic_offsets(platform.kafka, spec.topic.name))
    spark = session.start(f"sluice {name} consumer", platform, partitions, settings)
    registry = registry_of(spec, platform)
    known_tables.check(spark, platform, name, spec.table, spec.quarantine_table)
    followed = ensure_table(spark, platform, spec)
    decoder, follower = decoding(spec, registry, followed), follower_of(spec, registry)
    rows_of = DirectSource(spark, platform, spec, decoder, follower)
    topic = Topic(platform.kafka, spec.topic.name)
    writer = StreamWriter(spark, platform, spec, rows_of, topic)
    with progress_listener.attach(spark, platform, name):

        def work() -> None:
            # At each failover: the catalog may have been restored, or have another table by now.
            known_tables.check(spark, platform, name, spec.table, spec.quarantine_table)
            ConsumerRun(spark, platform, spec, writer, writer.acquire()).until(stop)

        run_with_lease(writer, work)


def ensure_table(spark: SparkSession, platform: platforms.Platform, spec: StreamSpec) -> str:
    """As ``tables.ensure`` does; what the table follows, as :func:`followed_by` has it. A predecessor that
    still runs may make it follow more between the two: the columns are then more than those that were read,
    and it is looked at again."""
    followed = followed_by(spark, platform, spec)
    while True:
        try:
            tables.ensure(spark, spec, record_type(spark, spec, followed))
        except tables.IncompatibleSchema as error:
            read, followed = followed, followed_by(spark, platform, spec)
            if followed == read:
                if isinstance(error, tables.WiderTable):
                    raise without_document(spark, platform, spec, error) from error
                raise
        else:
            return followed


def without_document(
    spark: SparkSession, platform: platforms.Platform, spec: StreamSpec, error: tables.WiderTable
) -> tables.WiderTable:
    """The ``error`` with what a person does: the property that says what the table follows is lost, or was
    edited, since columns and property change in one commit."""
    table, client, ending = tables.load(spark, spec.table), client_of(platform), ending_of(spec)
    place = documents_place(str(table.location()), table.properties())

    def is_of(digest: str) -> bool:
        try:
            text = documents.read(client, place, digest, ending)
            tables.check_columns(spark, spec, record_type(spark, spec, text))
        except (tables.IncompatibleSchema, LakeFileMissing):
            return False
        return True

    found = newest_document(client, place, ending, is_of)
    said = documents.followed_digest(table.properties())
    what = (
        f"{error.what}; the table is wider than what its property {documents.SCHEMA} says "
        f"({said or 'it is missing'})"
    )
    fix = (
        f"set the property again, in any client of Iceberg: ALTER TABLE {CATALOG}.{spec.table} SET "
        f"TBLPROPERTIES ('{documents.SCHEMA}' = '{found}'), the newest document that has these columns"
    )
    return tables.WiderTable(what, error.schema, fix if found else "")


def record_type(spark: SparkSession, spec: StreamSpec, followed: str = "") -> StructType:
    """The type of a record, as Spark has it: all columns of the table that are made of it. ``followed``: as
    ``decoders.decoder_of`` has it."""
    if spec.is_protobuf:
        values = cast("StructType", from_arrow_type(table_message(spec, followed).type.arrow))
    elif followed:
        values = AvroSchema(table_schema(spec, followed)).struct(spark)
    elif spec.is_avro:
        values = OwnSchemas.load(spec).current.struct(spark)
    else:
        values = tables.declared(spec)
    if not spec.records or not spec.records.added_columns:
        return values
    return StructType([*values.fields, *tables.struct(spec.records.added_columns).fields])


def decoding(spec: StreamSpec, registry: Schemas | None = None, followed: str = "") -> Decode | RecordDecoder:
    """How a stream's records are decoded: by its own function, or by its decoder. ``registry``: as
    :func:`registry_of` has it; ``followed``: as :func:`followed_by`. Raises ConfigError."""
    return decoder_of(spec, registry, followed) or own_decode_of(spec)


def decoding_of_change(
    spark: SparkSession, spec: StreamSpec, registry: Schemas | None, followed: str
) -> Decode | RecordDecoder:
    """As :func:`decoding`, of a change to the stream's table: what the consumer refuses for the names or the
    earlier columns of the table is refused here too."""
    follower = follower_of(spec, registry)
    if follower is None:
        return decoding(spec, registry, followed)
    return follower.decoder_of(followed, IcebergTable(spark, spec.table))


def follower_of(spec: StreamSpec, registry: Schemas | None) -> Follower | None:
    """What follows the schemas of records that name them: of others in Avro or Protobuf, or by fingerprints;
    None of any other stream."""
    if registry is None or not (spec.is_avro or spec.is_protobuf):
        return None
    if not (spec.records or spec.follows_fingerprints):
        return None
    return Follower(spec, registry)


def registry_of(spec: StreamSpec, platform: platforms.Platform) -> Schemas | None:
    """The schemas that a stream's records name, and that move; None if there are none. Raises ConfigError if
    the platform file has no registry, and the stream needs one."""
    if spec.follows_fingerprints:
        return FingerprintSchemas.of(spec, platform)
    return RegistrySchemas.of(platform) if spec.uses_registry else None


def own_decode_of(spec: StreamSpec) -> Decode:
    """The function that a stream declares."""
    return partial(function(spec, spec.decode), schema=tables.declared(spec))


class ConsumerRun(GuardedQuery):
    """The streaming query of one writer epoch."""

    def __init__(
        self,
        spark: SparkSession,
        platform: platforms.Platform,
        spec: StreamSpec,
        writer: StreamWriter,
        positions: dict[int, int],
    ) -> None:
        super().__init__(writer.batch)
        self._writer = writer
        self._next_check = self._next_login_check = monotonic() + CHECK_SECONDS
        self._platform = platform
        options = session.kafka_source_options(platform.kafka) | {
            "subscribe": spec.topic.name,
            "startingOffsets": json.dumps({spec.topic.name: positions}),
            "maxOffsetsPerTrigger": str(spec.consumer.max_offsets_per_trigger),
        }
        records = spark.readStream.format("kafka").options(**options).load()
        self.query = self._start(
            records.writeStream.queryName(spec.name)
            .option("checkpointLocation", writer.checkpoint.uri)
            .trigger(processingTime=f"{spec.consumer.trigger_seconds} seconds")
        )

    def until(self, stop: threading.Event) -> None:
        """Wait for ``stop`` or the end of the query.

        Raises the error that ended the query; Fenced and ConcurrentCommit also while it is idle.
        """
        try:
            while self.is_active and not stop.wait(0.5):
                self._check_login()
                self._check_while_idle()
        except ConcurrentCommit:
            self.stop()
            raise
        if self.failure is None and self.is_active:
            log.info("stop requested; finishing the batch in flight")
            self.stop()
        error = self.error()
        self._writer.raise_failure([error] if error else [], stopping=stop.is_set())

    def _check_login(self) -> None:
        # Java's clients wait for a token, and for credentials, for minutes, and say nothing.
        if monotonic() >= self._next_login_check:
            self._next_login_check = monotonic() + CHECK_SECONDS
            check_token(self._platform.kafka)
            check_login(self._platform.s3)

    def _check_while_idle(self) -> None:
        # A catalog that was restored, or a group whose offsets expired, would wait for the next records.
        if monotonic() >= self._next_check and self._batch_in_flight.acquire(blocking=False):
            self._next_check = monotonic() + CHECK_SECONDS
            try:
                self._writer.check_while_idle()
            finally:
                self._batch_in_flight.release()
