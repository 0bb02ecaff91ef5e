"""What the topic of a query's results holds: its committed batch, else its newest record's."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from sluice.clients.kafka import consumers as kafka_io
from sluice.clients.kafka.errors import is_refused_login
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.queries import committed_batch
from sluice.core.queries.committed_batch import NO_BATCH, CommittedBatch
from sluice.core.queries.result import VERSION, tombstone_version
from spark_jobs.common.sinks.base import SinkWriteFailed, Target

log = logging.getLogger(__name__)

# Timeout of one request to Kafka, which is repeated until the stall timeout.
REQUEST_SECONDS = 3.0
# Read from the end of a partition for its newest record; ten times as many if those are control records.
NEWEST_OFFSETS = 100


class QueryTopic:
    """The topic of a query's results, and its group: what they hold, and how Kafka refuses to say it.

    Raises KafkaException, and SinkWriteFailed for what a retry does not change.
    """

    def __init__(self, label: str, target: Target, kafka: Kafka) -> None:
        self.label, self.name, self.partitions = label, target.sink.topic, target.sink.partitions
        self.group = committed_batch.group(target.stream, target.query_name)
        self._kafka = kafka
        self._login_error: KafkaError | None = None

    def check(self) -> None:
        """Check that the topic is there, with its partitions."""
        # Lists all topics: a request for one may create it (auto.create.topics.enable).
        with self.consumer() as consumer:
            topic = consumer.list_topics(timeout=REQUEST_SECONDS).topics.get(self.name)
        count = len(topic.partitions) if topic is not None else 0
        if count < self.partitions:
            missing = f"has {count} partitions, and {self.partitions} are declared"
            problem = missing if count else "does not exist"
            raise SinkWriteFailed(
                f"{self.label}: topic {self.name!r} {problem}, on {self._kafka.bootstrap_servers}. Fix: run "
                "the load's provision_sinks step"
            )

    def committed(self, isolation: str) -> CommittedBatch | None:
        """The committed batch; None if the group has none."""
        partition = TopicPartition(self.name, committed_batch.PARTITION)
        with self.consumer(isolation) as consumer:
            (found,) = kafka_io.committed(consumer, [partition], REQUEST_SECONDS)
        if found.offset < 0:
            return None
        try:
            return committed_batch.parse(found.offset, found.metadata or "")
        except ValueError as error:
            raise SinkWriteFailed(
                f"{self.label}: group {self.group}: {error}; delete the group's offsets: then the topic's "
                "records say which batch is the last"
            ) from error

    def newest_version(self) -> int:
        """The last batch of a topic without committed batch: it is new, or the group's offset expired."""
        with self.consumer() as consumer:
            found = max(self._newest_of(consumer, partition) for partition in range(self.partitions))
        if found != NO_BATCH:
            log.warning("%s: offset expired group=%s last_batch_of_records=%d", self.label, self.group, found)
        return found

    def _newest_of(self, consumer: Consumer, partition: int) -> int:
        """The batch of a partition's last record. Compaction never removes it, unless it is a tombstone: then
        results of its batch are in another partition, or there is none."""
        place, seconds, last = TopicPartition(self.name, partition), REQUEST_SECONDS, None
        begin, end = consumer.get_watermark_offsets(place, timeout=seconds)
        start, offsets = end, NEWEST_OFFSETS
        while start > begin and last is None:
            start, offsets = max(begin, end - offsets), offsets * 10
            try:
                for message in kafka_io.read_range(
                    consumer, self.name, {partition: start}, {partition: end}, seconds
                ):
                    last = message
            except TimeoutError as error:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, str(error))) from error
        return NO_BATCH if last is None else version_of(last)

    @contextmanager
    def consumer(self, isolation: str = "read_committed") -> Iterator[Consumer]:
        consumer = kafka_io.consumer(
            self._kafka,
            self.group,
            {
                "error_cb": self.on_error,
                "isolation.level": isolation,
                **kafka_io.RANGE_SETTINGS,
                # Before it reports a partition's end, where no more records are expected.
                "fetch.wait.max.ms": 10,
                "log_level": 2,
            },
        )
        try:
            yield consumer
        finally:
            consumer.close()

    def on_error(self, error: KafkaError) -> None:
        """librdkafka retries a refused login, and reports it only here."""
        if is_refused_login(error):
            self._login_error = error

    def reason(self, otherwise: str) -> str:
        """Why Kafka did not do it: a refused login since the last call, else ``otherwise``."""
        login_error, self._login_error = self._login_error, None
        return f"Kafka: {otherwise if login_error is None else login_error.str()}"


def version_of(message: Message) -> int:
    """The version of a record. Raises ValueError if it is missing."""
    value = message.value()
    try:
        version: Any = tombstone_version(message.headers()) if value is None else json.loads(value)[VERSION]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"a record {value!r:.100} has no version; is the topic the query's alone?"
        ) from error
    if not isinstance(version, int):
        raise ValueError(
            f"a record's version is {version!r}; it must be a number. Is the topic the query's alone?"
        )
    return version
