"""The ISP stream in real services: its declared topic, a table of a name of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from sluice.clients.kafka.consumers import topic_offsets
from sluice.clients.kafka.login.properties import librdkafka
from sluice.config import streams
from sluice.config.platform_sections.checkpoints import Checkpoints
from spark_jobs.common.consumer.run import ConsumerRun
from spark_jobs.common.consumer.writer import StreamWriter
from spark_jobs.common.kafka.offsets import Topic
from spark_jobs.common.lake import tables
from spark_jobs.common.spark.session import catalog_options
from spark_jobs.isp_hits.transforms import hits
from tests.support.lakehouse import Stream
from tests.support.services import Services

DECLARED = streams.load("isp_hits")


class Hits(Stream):
    """The declared stream, with a table ``raw.<name>``, and its topic, recreated."""

    def __init__(self, spark: SparkSession, services: Services, name: str, root: str) -> None:
        self.spark, self.services = spark, services
        self.spec = replace(
            DECLARED, name=name, table=f"raw.{name}", consumer=replace(DECLARED.consumer, trigger_seconds=0)
        )
        consumer = services.stack.platform("consumer")
        self.platform = replace(consumer, checkpoints=Checkpoints(root))
        self.struct = tables.declared(DECLARED)
        services.make_topic(self.spec.topic.name, self.spec.topic.partitions)
        for key, value in catalog_options(consumer).items():
            spark.conf.set(key, value)
        tables.ensure(spark, self.spec, self.struct)
        self.started: list[ConsumerRun] = []
        self._admin = AdminClient({**services.kafka, "log_level": 0})

    def writer(self, kind: Callable[..., StreamWriter] = StreamWriter) -> StreamWriter:
        topic = Topic(self.platform.kafka, self.spec.topic.name)
        topic.admin = AdminClient({**librdkafka(self.platform.kafka), "log_level": 0})
        decode = lambda rows: hits(rows, self.struct)  # noqa: E731
        return kind(self.spark, self.platform, self.spec, self.rows_of(decode), topic)

    def records(self) -> int:
        """How many the topic holds."""
        bounds = topic_offsets(self.platform.kafka, self.spec.topic.name)
        return sum(after - first for first, after in bounds.values())
