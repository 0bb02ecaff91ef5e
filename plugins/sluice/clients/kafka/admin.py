"""Topics and offsets through confluent-kafka's AdminClient, librdkafka: independent of Spark's client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ListOffsetsResultInfo,
    OffsetSpec,
    ResourceType,
)

from sluice.clients.kafka.consumers import (
    TIMEOUT_SECONDS,
    committed,
    consumer,
    while_moving,
)
from sluice.clients.kafka.login.certificates import Renewed
from sluice.clients.kafka.login.noted import Answer, Noted
from sluice.clients.kafka.login.properties import librdkafka
from sluice.clients.polling import wait_for
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.sections.topic import MAX_MESSAGE_BYTES
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Unreachable
from sluice.core.processes.heartbeat import Heartbeat, parse_heartbeat

T = TypeVar("T")


@dataclass(frozen=True)
class TopicDescription:
    """``id`` changes when the topic is recreated under its name; ``partitions``: their number;
    ``replication_factor``: the fewest replicas of any partition."""

    id: str
    partitions: int
    replication_factor: int = 1


@dataclass(frozen=True)
class _Listed:
    """The answer for a partition's offset. Of one whose leader is gone librdkafka 2.11 may have no error, and
    an offset that is none: then it is asked again, as if the error were there."""

    future: Future[ListOffsetsResultInfo]

    def result(self, timeout: float) -> ListOffsetsResultInfo:
        found = self.future.result(timeout=timeout)
        if found.offset <= OFFSET_INVALID:
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        return found


class KafkaAdmin:
    """One role's access to topics and groups. Raises Unreachable without an answer in ``timeout`` seconds."""

    def __init__(self, kafka: Kafka, timeout: float = TIMEOUT_SECONDS) -> None:
        self.servers = kafka.bootstrap_servers
        self.timeout = timeout
        self._kafka = kafka
        self._noted = Noted(kafka)
        self._settings: dict[str, Any] = {
            "socket.timeout.ms": int(timeout * 1000),
            "error_cb": self._noted,
        }
        self._renewed: Renewed[AdminClient] | None = None

    @property
    def admin(self) -> AdminClient:
        """The client, made when it is first asked. Raises LoginRefused, and Unreachable for its token."""
        if self._renewed is None:
            self._renewed = Renewed(
                self._kafka, lambda: AdminClient({**librdkafka(self._kafka), **self._settings})
            )
        return self._renewed.current()

    def find(self, topic: str) -> TopicDescription | None:
        """The topic's description; None if it does not exist."""
        # Not list_topics() with a name: that may create it (auto.create.topics.enable).
        request = TopicCollection([topic])
        found = self.results(
            f"topic {topic!r}",
            lambda: self.admin.describe_topics(request, request_timeout=self.timeout),
            unless=KafkaError.UNKNOWN_TOPIC_OR_PART,
        )
        if not found or not found[topic].partitions:
            return None
        partitions = found[topic].partitions
        replicas = min(len(partition.replicas) for partition in partitions)
        return TopicDescription(str(found[topic].topic_id), len(partitions), replicas)

    def describe(self, topic: str) -> TopicDescription:
        """As :meth:`find`. Raises Missing."""
        found = self.find(topic)
        if found is None:
            raise Missing(
                f"topic {topic!r} does not exist on {self.servers}. Fix: run the load's provision_topic "
                "step; of a topic of others correct its name",
                ErrorCode.TOPIC_NOT_FOUND,
            )
        return found

    def begins(self, topic: str, partitions: int | None = None) -> dict[int, int]:
        """Partition -> the first offset that the topic still keeps.

        Here and in ``ends``: a known number of ``partitions`` saves a request.
        """
        return self._offsets(topic, OffsetSpec.earliest(), partitions)

    def ends(self, topic: str, partitions: int | None = None) -> dict[int, int]:
        """Partition -> the offset that the next record will get."""
        return self._offsets(topic, OffsetSpec.latest(), partitions)

    def last_stable(self, topic: str, partitions: int | None = None) -> dict[int, int]:
        """Partition -> the first offset of an open transaction; without one as :meth:`ends`."""
        if partitions is None:
            partitions = self.describe(topic).partitions
        wanted = dict.fromkeys(range(partitions), OffsetSpec.latest())
        return self._list(topic, wanted, IsolationLevel.READ_COMMITTED)

    def open_transactions(self, topic: str, partitions: Iterable[int]) -> dict[int, str]:
        """Partition -> which producer's transaction is open there, in words. Over connections of its own."""
        from sluice.clients.kafka.log.brokers import Brokers
        from sluice.clients.kafka.log.open_transactions import open_transactions

        with Brokers(self._kafka, self.timeout, self.timeout) as brokers:
            found = open_transactions(brokers, topic, partitions)
        return {partition: one.message() for partition, one in found.items()}

    def first_after(self, topic: str, at_ms: int, ends: Mapping[int, int]) -> dict[int, int]:
        """Partition -> the first offset at or after ``at_ms`` (ms since 1970), else its end."""
        found = self.first_records(topic, at_ms, ends)
        return {
            partition: found[partition][0] if partition in found else end for partition, end in ends.items()
        }

    def first_records(self, topic: str, at_ms: int, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Partition -> offset and time (ms since 1970) of the first record that is kept with the time
        ``at_ms`` or a later one; without partitions that have none."""
        # A moment before 1970 would be the protocol's constant: -1 latest, -2 earliest.
        found = self._results(topic, dict.fromkeys(partitions, OffsetSpec.for_timestamp(max(at_ms, 0))))
        return {
            place.partition: (result.offset, result.timestamp)
            for place, result in found.items()
            if result.offset >= 0
        }

    def retention_ms(self, topic: str) -> int | None:
        """The age in ms at which retention may delete a record; None if age deletes none."""
        config = self.config(topic)
        age = int(config.get("retention.ms") or -1)
        deletes = "delete" in (config.get("cleanup.policy") or "delete").split(",")
        return age if deletes and age >= 0 else None

    def max_message_bytes(self, topic: str) -> int:
        """The largest batch of records that the topic takes."""
        return int(self.config(topic).get("max.message.bytes") or MAX_MESSAGE_BYTES)

    def heartbeat(self, stream: str, component: str, topic: str) -> Heartbeat | None:
        """The newest heartbeat of a stream's component, from its group's offsets; None before the first.

        Raises Missing without the topic, and Unreachable for offsets that are no heartbeat (set by hand,
        say); the component's next heartbeat corrects them.
        """
        group = f"sluice-{stream}-{component}"
        what = f"heartbeat of group {group!r}"
        # By name: from a listing of the group the broker silently omits what the role may not see.
        wanted = [TopicPartition(topic, partition) for partition in range(self.describe(topic).partitions)]
        found = self._ask(what, lambda: self._committed(group, wanted))
        kept = sorted((place for place in found if place.offset >= 0), key=lambda place: place.partition)
        if not kept:
            return None
        try:
            return parse_heartbeat(kept[0].metadata or "", {place.partition: place.offset for place in kept})
        except ValueError as error:
            raise Unreachable(f"{what} cannot be read: {error}") from error

    def committed(self, group: str, topic: str, partition: int) -> tuple[int, str] | None:
        """A group's offset and its metadata, or None. Waits for a transaction that is to set it."""
        what = f"offset of group {group!r}"
        wanted = [TopicPartition(topic, partition)]
        (found,) = self._ask(what, lambda: self._committed(group, wanted))
        return None if found.offset < 0 else (found.offset, found.metadata or "")

    def group_offsets(self, group: str, topic: str, partitions: int) -> dict[int, int]:
        """Partition -> a group's offset; without partitions that have none."""
        wanted = [TopicPartition(topic, partition) for partition in range(partitions)]
        found = self._ask(f"offsets of group {group!r}", lambda: self._committed(group, wanted))
        return {place.partition: place.offset for place in found if place.offset >= 0}

    def _committed(self, group: str, wanted: list[TopicPartition]) -> list[TopicPartition]:
        with closing(consumer(self._kafka, group, self._settings)) as reader:
            return committed(reader, wanted, self.timeout)

    def _offsets(self, topic: str, which: OffsetSpec, partitions: int | None) -> dict[int, int]:
        if partitions is None:
            partitions = self.describe(topic).partitions
        return self._list(topic, dict.fromkeys(range(partitions), which))

    def _list(
        self,
        topic: str,
        which: Mapping[int, OffsetSpec],
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[int, int]:
        found = self._results(topic, which, isolation)
        return {place.partition: result.offset for place, result in found.items()}

    def _results(
        self,
        topic: str,
        which: Mapping[int, OffsetSpec],
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, ListOffsetsResultInfo]:
        request = {TopicPartition(topic, partition): spec for partition, spec in which.items()}

        def ask() -> dict[TopicPartition, _Listed]:
            found = self.admin.list_offsets(request, isolation_level=isolation, request_timeout=self.timeout)
            return {place: _Listed(future) for place, future in found.items()}

        return self.results(f"offsets of topic {topic!r}", ask)

    def config(self, topic: str) -> dict[str, str | None]:
        """The topic's configs, the broker's defaults among them."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        found = self.results(
            f"configs of topic {topic!r}",
            lambda: self.admin.describe_configs([resource], request_timeout=self.timeout),
        )
        return {name: entry.value for config in found.values() for name, entry in config.items()}

    def wait_for_partitions(self, topic: str, partitions: int) -> TopicDescription:
        """Wait until brokers report at least ``partitions``: metadata propagates after the answer."""
        found = wait_for(
            lambda: self.find(topic),
            self.timeout,
            is_done=lambda found: found is not None and found.partitions >= partitions,
        )
        if found is None or found.partitions < partitions:
            raise Unreachable(
                f"topic {topic!r} has {found.partitions if found else 0} partitions {self.timeout:g} s after "
                f"{partitions} were requested",
                ErrorCode.KAFKA_UNREACHABLE,
            )
        return found

    def results(
        self, what: str, request: Callable[[], Mapping[Any, Answer[Any]]], unless: int | None = None
    ) -> dict[Any, Any]:
        def ask() -> dict[Any, Any]:
            return {
                key: self._noted.result(future, self.timeout, self._poll) for key, future in request().items()
            }

        def wait() -> dict[Any, Any]:
            try:
                return while_moving(self.timeout)(ask)
            except KafkaException as error:
                if error.args[0].code() == unless:
                    return {}
                raise

        return self._ask(what, wait)

    def _ask(self, what: str, request: Callable[[], T]) -> T:
        try:
            found = request()
            self._noted.answered()
            return found
        except KafkaException as error:
            self._poll(0)
            raise self._noted.translated(what, error) from error
        except FutureTimeout as error:
            self._poll(0)
            late = KafkaError(KafkaError._TIMED_OUT, f"no answer from {self.servers} in {self.timeout:g} s")
            raise self._noted.translated(what, KafkaException(late)) from error

    def _poll(self, seconds: float) -> None:
        # The client that was asked: there may be another one for the next request.
        if self._renewed is not None:
            self._renewed.client.poll(seconds)
