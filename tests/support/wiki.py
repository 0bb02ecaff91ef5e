"""The wiki stream in real services, under a name of its own, and events for it."""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from sluice.clients.kafka.consumers import topic_offsets
from sluice.clients.kafka.login.properties import librdkafka
from sluice.config import streams
from sluice.config.platform_sections.checkpoints import Checkpoints
from sluice.config.platform_sections.lake import CATALOG
from spark_jobs.common.consumer.decoded_rows import Decode
from spark_jobs.common.consumer.run import ConsumerRun
from spark_jobs.common.consumer.writer import StreamWriter
from spark_jobs.common.kafka.offsets import Topic
from spark_jobs.common.lake import tables
from spark_jobs.common.spark.session import catalog_options
from spark_jobs.wiki_changes.transforms import changes
from tests.support.lakehouse import Stream
from tests.support.services import Services

DECLARED = streams.load("wiki_changes")
SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "wiki_changes" / "recentchange.jsonl"
DAY = 86_400


class Wiki(Stream):
    """The declared stream, with a topic and a table ``raw.<name>``."""

    def __init__(self, spark: SparkSession, services: Services, name: str, root: str) -> None:
        self.spark, self.services = spark, services
        self.spec = replace(
            DECLARED,
            name=name,
            table=f"raw.{name}",
            topic=replace(DECLARED.topic, name=name),
            consumer=replace(DECLARED.consumer, trigger_seconds=0),
        )
        consumer = services.stack.platform("consumer")
        self.platform = replace(consumer, checkpoints=Checkpoints(root))
        self.struct = tables.declared(DECLARED)
        services.make_topic(name, self.spec.topic.partitions)
        for key, value in catalog_options(consumer).items():
            spark.conf.set(key, value)
        tables.ensure(spark, self.spec, self.struct)
        self.started: list[ConsumerRun] = []
        self._admin = AdminClient({**services.kafka, "log_level": 0})

    def writer(
        self, kind: Callable[..., StreamWriter] = StreamWriter, decode: Decode | None = None
    ) -> StreamWriter:
        """``decode``, ``kind``: in place of the stream's own."""
        topic = Topic(self.platform.kafka, self.spec.topic.name)
        topic.admin = AdminClient({**librdkafka(self.platform.kafka), "log_level": 0})
        usual: Decode = lambda rows: changes(rows, self.struct)  # noqa: E731
        return kind(self.spark, self.platform, self.spec, self.rows_of(decode or usual), topic)

    def put(self, bodies: list[tuple[str, bytes]]) -> None:
        """Records with the wiki as their key, as the stream's producer sends them."""
        producer = Producer({**self.services.kafka, "partitioner": "murmur2_random", "log_level": 0})
        for wiki, body in bodies:
            producer.produce(self.spec.topic.name, body, key=wiki.encode())
        assert producer.flush(60) == 0

    def assert_all_of_it(self, records: int) -> None:
        """So many record offsets are in the table or in quarantine, each once, from 0 on without a hole."""
        quarantined = self.spark.table(f"{CATALOG}.{self.spec.quarantine_table}")
        found = [tuple(r) for r in quarantined.select("_kafka_partition", "_kafka_offset").collect()]
        each = Counter([*self.record_offsets(), *found])
        ends = self.ends()
        expected = {(p, offset) for p, end in ends.items() for offset in range(end)}
        assert set(each) == expected
        assert set(each.values()) <= {1}
        assert sum(ends.values()) == records

    def ends(self) -> dict[int, int]:
        offsets = topic_offsets(self.platform.kafka, self.spec.topic.name)
        return {partition: end for partition, (_, end) in offsets.items()}

    def reasons(self) -> Counter[str]:
        rows = self.spark.table(f"{CATALOG}.{self.spec.quarantine_table}").select("reason").collect()
        return Counter(row[0] for row in rows)


def events(count: int, servers: int = 60, dates: int = 1, **given: Any) -> Iterator[tuple[str, bytes]]:
    """Recorded events with new ids, spread over so many servers, as (wiki, body).

    Their times are now; with two ``dates`` every second one is a day older. ``given``: values of all.
    """
    recorded = [json.loads(line) for line in SAMPLE.read_text().splitlines()]
    now = int(time.time())
    for number in range(count):
        # Servers and dates go through all their combinations.
        server = f"w{number // dates % servers}.wikipedia.org"
        event = {**recorded[number % len(recorded)], "server_name": server, "wiki": server.split(".")[0]}
        event["meta"] = {**event["meta"], "id": str(uuid.uuid4()), "domain": server}
        event["timestamp"] = now - DAY * (number % dates)
        event |= given
        yield str(event["wiki"]), json.dumps(event, ensure_ascii=False).encode()
