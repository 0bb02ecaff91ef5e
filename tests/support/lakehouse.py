"""A stream for tests, with a topic and a table of its own in real services; a record is a text."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from sluice.clients.catalogs.glue import BoundedGlue
from sluice.clients.kafka.login.properties import librdkafka
from sluice.clients.lake.catalog import Lake
from sluice.config import streams
from sluice.config.platform import Platform
from sluice.config.platform_sections.catalog import GLUE, REST, SQL
from sluice.config.platform_sections.checkpoints import Checkpoints
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.stream import StreamSpec
from sluice.core.decoding.decoder import Decoded, OwnRecords, RawHeaders, RecordDecoder
from spark_jobs.common.consumer.decoded_rows import Decode
from spark_jobs.common.consumer.direct.direct_rows import DirectSource
from spark_jobs.common.consumer.run import ConsumerRun
from spark_jobs.common.consumer.writer import StreamWriter
from spark_jobs.common.kafka.offsets import Topic
from spark_jobs.common.lake import tables
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from spark_jobs.common.spark.login import s3 as s3_login
from spark_jobs.common.spark.session import catalog_options, log_in_to_glue
from tests.support import glue_server
from tests.support.catalogs import SIGNED
from tests.support.lake import restore_catalog
from tests.support.services import Services

PARTITIONS = 2


def activate(spark: SparkSession) -> None:
    """Iceberg's and Spark's Java code takes its configuration from this session, in every thread."""
    sessions = cast("Any", spark._jvm).org.apache.spark.sql.classic.SparkSession
    sessions.setActiveSession(spark._jsparkSession)
    sessions.setDefaultSession(spark._jsparkSession)


class Stream:
    """A stream by its name, and what is to be known of it."""

    # Whether it is decoded by a function in PySpark, though there is a decoder.
    is_own = False
    # The session that is active when the stream ends; None for one that makes no other active.
    _first: SparkSession | None = None

    def __init__(
        self,
        spark: SparkSession,
        services: Services,
        name: str,
        root: str,
        by: tuple[str, ...] = (),
        catalog: str = SQL,
        changed: Callable[[Platform], Platform] = lambda platform: platform,
    ) -> None:
        """``changed``: the consumer's platform, as the stream has it."""
        # A session keeps the catalog that it has opened.
        self._first, self.spark = spark, spark if catalog == SQL else spark.newSession()
        activate(self.spark)
        self.services = services
        self.spec = self.spec_of(name, by)
        self.catalog = catalog
        consumer = changed(services.on(catalog, "consumer"))
        self.platform: Platform = replace(consumer, checkpoints=Checkpoints(root))
        self.make_topic()
        for key, value in catalog_options(consumer).items():
            self.spark.conf.set(key, value)
        log_in_to_glue(self.spark, consumer)
        s3_login.log_in(self.spark, consumer)
        tables.ensure(self.spark, self.spec, self.record())
        self.started: list[ConsumerRun] = []
        # Kept: one without a reference is gone before it has answered.
        self._admin = AdminClient({**services.kafka, "log_level": 0})

    def spec_of(self, name: str, by: tuple[str, ...]) -> StreamSpec:
        """Its declaration; ``by``: the table's partitions."""
        spec = streams.load("nyc_taxi")
        return replace(
            spec,
            name=name,
            table=f"raw.{name}",
            partition_by=list(by),
            topic=replace(spec.topic, name=name, partitions=PARTITIONS),
            consumer=replace(spec.consumer, trigger_seconds=0),
        )

    def make_topic(self) -> None:
        self.services.make_topic(self.spec.topic.name, PARTITIONS)

    def record(self) -> StructType:
        return StructType([StructField("text", StringType())])

    def writer(self, kind: Callable[..., StreamWriter] = StreamWriter) -> StreamWriter:
        topic = Topic(self.platform.kafka, self.spec.topic.name)
        # Silent: it outlives brokers that tests end.
        topic.admin = AdminClient({**librdkafka(self.platform.kafka), "log_level": 0})
        return kind(self.spark, self.platform, self.spec, self.rows_of(), topic)

    def rows_of(self, decode: Decode | None = None) -> DirectSource:
        """For a writer; ``decode``: in place of one that accepts every text."""
        decoding: RecordDecoder | Decode = decode or (accepting if self.is_own else OwnRecords(TextDecoder()))
        return DirectSource(self.spark, self.platform, self.spec, decoding)

    def consume(self, writer: StreamWriter, positions: dict[int, int]) -> ConsumerRun:
        """The query of a writer; :meth:`stop` ends it where the test does not."""
        # Two of one name cannot run in one session.
        spec = replace(self.spec, name=f"{self.spec.name}_{len(self.started)}")
        self.started.append(ConsumerRun(self.spark, self.platform, spec, writer, positions))
        return self.started[-1]

    def run(self, writer: StreamWriter) -> ConsumerRun:
        """Acquire the lease, publish all that is there, and stay ready for more."""
        consumption = self.consume(writer, writer.acquire())
        consumption.query.processAllAvailable()
        return consumption

    @staticmethod
    def await_end(consumption: ConsumerRun, seconds: float = 60) -> None:
        """Wait until the query ends by itself, and raise what ended it; stop it when that takes too long."""
        stop = threading.Event()
        patience = threading.Timer(seconds, stop.set)
        patience.start()
        try:
            consumption.until(stop)
        finally:
            patience.cancel()

    def metadata_location(self, name: str = "") -> str:
        """Return the metadata location of the stream's table, or of the one with this name."""
        with closing(Lake.open(self.platform)) as lake:
            location = lake.location(name or self.spec.table)
        assert location is not None
        return location

    def restore_catalog(self, location: str, name: str = "") -> None:
        """The row of the stream's table in the catalog (or of the one with this name) as in a restored backup
        of its database."""
        # A REST catalog has the stack's database behind it.
        database = SQL if self.catalog in (REST, SIGNED) else self.catalog
        with closing(Lake.open(self.services.on(database, "consumer"))) as opened:
            if self.catalog == GLUE:
                glue_server.restore(cast("BoundedGlue", opened.catalog), {name or self.spec.table: location})
                return
            restore_catalog(opened, {name or self.spec.table: location})

    def stop(self) -> None:
        for consumption in self.started:
            consumption.query.stop()
        if self._first is not None:
            activate(self._first)

    def send(self, each: int, partitions: int = PARTITIONS) -> None:
        """So many records into each partition."""
        self.services.send(self.spec.topic.name, {p: [b"text"] * each for p in range(partitions)})

    def send_transactions(self) -> None:
        """Three of three records each to partition 0, of which the second is aborted; then as :meth:`send`,
        two."""
        topic = self.spec.topic.name
        for text, is_committed in (("a", True), ("b", False), ("c", True)):
            producer = Producer(
                {**self.services.kafka, "transactional.id": f"{topic}-{text}", "log_level": 0}
            )
            producer.init_transactions(30)
            producer.begin_transaction()
            for _ in range(3):
                producer.produce(topic, text.encode(), partition=0)
            producer.flush(30)
            (producer.commit_transaction if is_committed else producer.abort_transaction)(30)
        self.send(2)

    def recreate_the_topic(self) -> None:
        self.services.make_topic(self.spec.topic.name, PARTITIONS)

    def record_offsets(self) -> list[tuple[int, int]]:
        found = self.spark.table(f"{CATALOG}.{self.spec.table}").select("_kafka_partition", "_kafka_offset")
        return sorted((row[0], row[1]) for row in found.collect())

    def assert_exact(self, each: int) -> None:
        """The offsets from 0 to ``each`` of every partition, each once."""
        expected = [(partition, offset) for partition in range(PARTITIONS) for offset in range(each)]
        assert Counter(self.record_offsets()) == Counter(expected)

    def summaries(self) -> list[dict[str, str]]:
        """What the snapshots of ``main`` say of the stream, the newest first, without the prefix."""
        snapshots = IcebergTable(self.spark, self.spec.table).snapshots(MAIN)
        return [
            {
                key.removeprefix("sluice."): value
                for key, value in snapshot.summary.items()
                if key.startswith("sluice.")
            }
            for snapshot in snapshots
            if "sluice.kind" in snapshot.summary
        ]

    def group(self) -> dict[int, int]:
        """The committed offsets of the stream's consumer group."""
        request = [ConsumerGroupTopicPartitions(f"sluice-{self.spec.name}")]
        (future,) = self._admin.list_consumer_group_offsets(request).values()
        found: Any = future.result(20).topic_partitions
        return {entry.partition: entry.offset for entry in found}

    def forget_the_group(self) -> None:
        """As when its offsets expire."""
        (future,) = self._admin.delete_consumer_groups([f"sluice-{self.spec.name}"]).values()
        future.result(20)


class TextDecoder:
    """As :func:`accepting`."""

    schema = pa.schema([("text", pa.string())])

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        columns = pa.RecordBatch.from_arrays([values.cast(pa.string())], schema=self.schema)
        return Decoded(columns, pa.nulls(len(values), pa.string()))

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        return {"text": None if value is None else value.decode()}


def accepting(rows: DataFrame) -> DataFrame:
    """A decoding of the stream's own, that accepts every text."""
    record = F.struct(F.col("value").cast("string").alias("text"))
    return rows.select("*", record.alias("record"), F.lit(None).cast("string").alias("reason"))


def commit(table: IcebergTable, properties: dict[str, str], branch: str = MAIN) -> None:
    """A snapshot without rows on top of the head of ``main``, as another program commits it."""
    table.refresh()
    head = table.head(branch)
    table.change_refs({branch: head}, {branch: table.stage(properties)})
