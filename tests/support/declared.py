"""A stream over a topic that others fill, from a folder of its own: its decoder, its table, its loads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.error import KafkaError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from local.runtime.registry_access import registry_section
from local.services import kafka as broker
from sluice.config import streams
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.platform_sections.registry import Registry
from sluice.config.stream import StreamSpec
from sluice.core.json_record import Document
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.without_record import WithoutRecord
from sluice.ledger.documents import Ledger
from sluice.loads.planning import topic_check
from sluice.loads.planning.topic import TopicPlanner
from sluice.loads.verification.verify import LoadVerification
from sluice.maintenance.reconciliation.table_contents import TableContents
from sluice.maintenance.reconciliation.verified_table import Verified
from spark_jobs.common.consumer.decoded_rows import Decode
from spark_jobs.common.consumer.direct.direct_rows import DirectSource
from spark_jobs.common.consumer.followed import followed_by
from spark_jobs.common.consumer.run import decoding, follower_of, record_type, registry_of
from tests.support.lakehouse import Stream
from tests.support.memory_s3 import MemoryS3
from tests.support.services import Services
from tests.support.task_systems import task_systems

Place = tuple[int, int]
# Until the next record, or the end of a partition.
SECONDS = 30.0


@dataclass(frozen=True)
class Declaration:
    """The topic's name, `[records]` as text, and the folder's files beside ``stream.toml``: name -> text; the
    first is the schema."""

    topic: str
    records: str
    files: Mapping[str, str] = field(default_factory=dict)

    def write(self, root: Path, name: str) -> None:
        folder = root / name
        folder.mkdir(parents=True, exist_ok=True)
        schema = "".join(f'schema = "{file}"\n' for file in list(self.files)[:1])
        (folder / "stream.toml").write_text(
            f'name = "{name}"\ntable = "raw.{name}"\n{schema}'
            f'[topic]\nname = "{self.topic}"\nmanaged = false\n'
            f"[budget]\nversions_per_batch = 20\n[records]\n{self.records}\n"
        )
        for file, text in self.files.items():
            (folder / file).write_text(text)


class DeclaredStream(Stream):
    """``root``: the folder of its checkpoint, and of its declaration's folder, which SLUICE_STREAMS names."""

    def __init__(
        self, spark: SparkSession, services: Services, name: str, root: Path, declaration: Declaration
    ) -> None:
        declaration.write(root, name)
        super().__init__(spark, services, name, str(root))
        if self.spec.records and self.spec.records.registry:
            services.registry  # noqa: B018 - started
            network, secrets = services.stack.context.network, services.stack.secrets
            registry = Registry(**registry_section("consumer", network, secrets))
            self.platform = replace(self.platform, registry=registry)
        self.name = declaration.topic
        self.ledger = Ledger(MemoryS3().as_client(), "s3://w/ledger", name)

    def spec_of(self, name: str, by: tuple[str, ...]) -> StreamSpec:
        spec = streams.load(name)
        return replace(spec, consumer=replace(spec.consumer, trigger_seconds=0))

    def make_topic(self) -> None:
        """It is there; the roles get the rights that they need."""
        broker.provision(self.services.stack.context, [], [], {self.spec.topic.name: ""})

    def record(self) -> StructType:
        return record_type(self.spark, self.spec, self._followed())

    def rows_of(self, decode: Decode | None = None) -> DirectSource:
        registry, followed = registry_of(self.spec, self.platform), self._followed()
        decoder = decode or decoding(self.spec, registry, followed)
        follower = None if decode else follower_of(self.spec, registry)
        return DirectSource(self.spark, self.platform, self.spec, decoder, follower)

    def _followed(self) -> str:
        return followed_by(self.spark, self.platform, self.spec)

    def rows(self) -> dict[Place, dict[str, Any]]:
        """The table's rows by their place, without what Sluice adds. Fails for two of one place."""
        table = self.spark.table(f"{CATALOG}.{self.spec.table}")
        found = [row.asDict(recursive=True) for row in table.collect()]
        places = {(row["_kafka_partition"], row["_kafka_offset"]): row for row in found}
        assert len(places) == len(found)
        own = ("_kafka_", "_source_")
        return {
            place: {name: value for name, value in row.items() if not name.startswith(own)}
            for place, row in places.items()
        }

    def without_record(self) -> WithoutRecord:
        """All that the batches' accounts say."""
        with self.systems() as systems:
            return systems.batch_log(self.spec.table).without_record(self.all_offsets())

    def all_offsets(self) -> OffsetRanges:
        """From 0 to the topic's ends."""
        with self.systems() as systems:
            return OffsetRanges.from_ends({}, systems.kafka.ends(self.name))

    @contextmanager
    def systems(self) -> Iterator[Any]:
        """A task's, with the rights of role ``airflow`` in Kafka and the consumer's in the lake."""
        platform = replace(self.platform, kafka=self.services.stack.platform("airflow").kafka)
        with task_systems(platform) as found:
            yield found

    def plan(self, run: str) -> None:
        """Check the topic, and pin a load's offsets."""
        with self.systems() as systems:
            topic_check.check(systems, self.spec, SimpleNamespace(error=print))
            TopicPlanner(systems, self.spec, self.ledger, {"until_time": None}).pin(run, {})

    def verify(self, run: str) -> Document:
        """The proof of a load that was planned. Fails if it is not verified."""
        with self.systems() as systems:
            verification = LoadVerification.of(systems, self.spec, self.ledger, run)
            load = verification.verify(5.0)
            assert load.problems == [], load.problems
            return verification.write_proof(load, lambda _: None)[1]

    def reconcile(self, before: Verified | None = None) -> Verified:
        """What the tables have; ``before``: of an earlier reconciliation. Fails if anything is found."""
        with self.systems() as systems:
            spec = self.spec
            contents = TableContents(
                systems.lake, spec.table, spec.quarantine_table, self.ledger, systems.batch_log
            )
            findings, verified = contents.verify(before, before)
            assert findings == [], findings
            assert verified is not None
            return verified


def offsets(places: Iterable[Place]) -> OffsetRanges:
    found: dict[int, list[int]] = {}
    for partition, offset in places:
        found.setdefault(partition, []).append(offset)
    return OffsetRanges.of_values(found)


def read(kafka: Mapping[str, Any], topic: str, isolation: str = "read_committed") -> dict[Place, Message]:
    """What a consumer of Confluent's reads from the topic's first offsets to its ends."""
    consumer = Consumer(
        {
            **kafka,
            "group.id": "a-plain-consumer",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # The end of a partition is told after that.
            "fetch.wait.max.ms": 10,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    found: dict[Place, Message] = {}
    try:
        left = set(consumer.list_topics(topic, timeout=SECONDS).topics[topic].partitions)
        begins = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), SECONDS)[0] for p in left}
        consumer.assign([TopicPartition(topic, p, begin) for p, begin in begins.items()])
        while left:
            message = consumer.poll(SECONDS)
            assert message is not None, f"no record and no end of {topic}"
            error = message.error()
            partition, offset = message.partition(), message.offset()
            if error is None and partition is not None and offset is not None:
                found[partition, offset] = message
            elif error is not None and error.code() == KafkaError._PARTITION_EOF and partition is not None:
                left.discard(partition)
            else:
                raise KafkaException(error)
    finally:
        consumer.close()
    return found
