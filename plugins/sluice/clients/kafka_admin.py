"""Topics and offsets through confluent-kafka's AdminClient, librdkafka: independent of Spark's client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from sluice.clients.errors import Missing, Refused, Unreachable
from sluice.io.kafka import MISSING_RIGHT, REFUSED_LOGIN, TIMEOUT_SECONDS, committed
from sluice.io.retry import wait_for
from sluice.model.error_codes import ErrorCode
from sluice.model.health.heartbeat import Heartbeat, parse_heartbeat
from sluice.model.spec.platform import Kafka
from sluice.model.spec.stream import BROKER_DEFAULT, Topic

T = TypeVar("T")
_DENIED = REFUSED_LOGIN | MISSING_RIGHT
# What the broker will not take however often it is asked; its words name the value.
_WRONG = frozenset(
    {KafkaError.POLICY_VIOLATION, KafkaError.INVALID_CONFIG, KafkaError.INVALID_REPLICATION_FACTOR}
)


@dataclass(frozen=True)
class TopicDiff:
    """What provisioning changed. ``partitions`` and each of ``config`` are (before, after)."""

    topic: str
    created: bool = False
    partitions: tuple[int, int] | None = None
    config: dict[str, tuple[str | None, str]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.created or self.partitions or self.config)

    def message(self) -> str:
        """One line for the log."""
        if self.is_empty:
            return f"topic {self.topic!r} is as declared"
        parts = ["created"] if self.created else []
        if self.partitions:
            parts.append(f"partitions {self.partitions[0]} -> {self.partitions[1]}")
        parts += [f"{key} {old} -> {new}" for key, (old, new) in sorted(self.config.items())]
        return f"topic {self.topic!r}: {', '.join(parts)}"

    def as_dict(self) -> dict[str, Any]:
        """The same for an XCom."""
        return {
            "topic": self.topic,
            "created": self.created,
            "partitions": list(self.partitions) if self.partitions else None,
            "config": {key: list(pair) for key, pair in sorted(self.config.items())},
        }


@dataclass(frozen=True)
class TopicDescription:
    """A topic as it is: partitions, and copies of each (the fewest of any partition)."""

    partitions: int
    replication_factor: int


@dataclass(frozen=True)
class TopicId:
    """Which topic it is: a topic that is made anew under its old name gets another id."""

    topic_id: str
    partitions: int


class KafkaAdmin:
    """One role's way in. Every request has ``timeout`` seconds; then it raises Unreachable."""

    def __init__(
        self,
        kafka: Kafka,
        timeout: float = TIMEOUT_SECONDS,
        admin: AdminClient | None = None,
        consumer: Callable[..., Consumer] = Consumer,
    ) -> None:
        """``admin``, ``consumer``: in the place of librdkafka's own."""
        self.servers = kafka.bootstrap_servers
        self.timeout = timeout
        # librdkafka prints to stderr why it cannot connect; that is what a failing task's log needs.
        # It tries a refused login again and again, and answers "transport failure" to whoever asks meanwhile;
        # only the callback says that it was the login.
        self._login_error: KafkaError | None = None
        self._settings: dict[str, Any] = {
            **kafka.librdkafka(),
            "socket.timeout.ms": int(timeout * 1000),
            "reconnect.backoff.max.ms": 5000,
        }
        # Not by its truth: an idle client has the length 0.
        self.admin = AdminClient(self._settings, error_cb=self._note) if admin is None else admin
        self._make_consumer = consumer

    def _note(self, error: KafkaError) -> None:
        if error.code() in _DENIED:
            self._login_error = error

    def provision(self, topic: Topic) -> TopicDiff:
        """Make the topic as declared; say what changed. Idempotent, and two at once do no harm.

        Only declared configs are compared. Raises Refused, having changed nothing, where partitions would
        have to go away or copies of them would have to move.
        """
        before = self.shape(topic.name)
        created = before is None and self._create(topic)
        has = before or self._await(topic.name, 1)
        check_not_shrinking(topic, has)
        grown = has.partitions < topic.partitions
        if grown:
            self._grow(topic)
        self._await(topic.name, topic.partitions)
        return TopicDiff(
            topic=topic.name,
            created=created,
            partitions=(has.partitions, topic.partitions) if grown else None,
            config=self._configure(topic),
        )

    def shape(self, topic: str) -> TopicDescription | None:
        """How the topic is, or None where there is none."""
        # Asking for all topics: asking for one by name may create it (auto.create.topics.enable).
        found = self._ask(f"topics of {self.servers}", lambda: self.admin.list_topics(timeout=self.timeout))
        metadata = found.topics.get(topic)
        if metadata is None or (metadata.error and metadata.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART):
            return None
        if metadata.error:
            raise translated(f"topic {topic!r}", KafkaException(metadata.error))
        if not metadata.partitions:
            return None
        return TopicDescription(
            len(metadata.partitions),
            min(len(partition.replicas) for partition in metadata.partitions.values()),
        )

    def identify(self, topic: str) -> TopicId:
        """The topic's id and how many partitions it has, in one request. Raises Missing where it is none."""
        what = f"topic {topic!r}"
        request = TopicCollection([topic])
        futures = self._ask(what, lambda: self.admin.describe_topics(request, request_timeout=self.timeout))
        found = self._ask(what, lambda: self._if_known(topic, futures[topic]))
        return TopicId(str(found.topic_id), len(found.partitions))

    def begins(self, topic: str, partitions: int | None = None) -> dict[int, int]:
        """Partition -> the first offset that the topic still keeps.

        Here and in ``ends``: who knows how many ``partitions`` there are saves the question.
        """
        return self._offsets(topic, OffsetSpec.earliest(), partitions)

    def ends(self, topic: str, partitions: int | None = None) -> dict[int, int]:
        """Partition -> the offset that the next record will get."""
        return self._offsets(topic, OffsetSpec.latest(), partitions)

    def first_after(self, topic: str, at_ms: int, ends: Mapping[int, int]) -> dict[int, int]:
        """Partition -> the first offset whose record is not older than ``at_ms`` (ms since 1970).

        Where all records are older it is the end, as ``ends`` says; asked for the partitions of ``ends``.
        """
        # A moment before 1970 would be a word of the protocol: -1 latest, -2 earliest.
        found = self._list(topic, dict.fromkeys(ends, OffsetSpec.for_timestamp(max(at_ms, 0))))
        return {partition: ends[partition] if offset < 0 else offset for partition, offset in found.items()}

    def retention_ms(self, topic: str) -> int | None:
        """After how many ms retention may delete a record; None where it never does because of age."""
        config = self._config(topic)
        age = int(config.get("retention.ms") or -1)
        deletes = "delete" in (config.get("cleanup.policy") or "delete").split(",")
        return age if deletes and age >= 0 else None

    def heartbeat(self, stream: str, component: str, topic: str) -> Heartbeat | None:
        """The newest heartbeat of a stream's part, from the offsets of its group; None before the first.

        Raises Missing where there is no such topic, and Unreachable where something else than a heartbeat
        stands there: somebody set the group's offsets by hand, say; the part's next beat mends that.
        """
        group = f"sluice-{stream}-{component}"
        what = f"heartbeat of group {group!r}"
        shape = self.shape(topic)
        if shape is None:
            raise self._missing(topic)
        # By name: of all that the group has, the broker leaves out silently what the role may not see.
        wanted = [TopicPartition(topic, partition) for partition in range(shape.partitions)]
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

    def _committed(self, group: str, wanted: list[TopicPartition]) -> list[TopicPartition]:
        with closing(self._consumer(group)) as consumer:
            return committed(consumer, wanted, self.timeout)

    def _consumer(self, group: str) -> Consumer:
        settings = {"group.id": group, "enable.auto.commit": False}
        return self._make_consumer({**self._settings, **settings}, error_cb=self._note)

    def _offsets(self, topic: str, which: OffsetSpec, partitions: int | None) -> dict[int, int]:
        if partitions is None:
            shape = self.shape(topic)
            if shape is None:
                raise self._missing(topic)
            partitions = shape.partitions
        return self._list(topic, dict.fromkeys(range(partitions), which))

    def _list(self, topic: str, which: Mapping[int, OffsetSpec]) -> dict[int, int]:
        request = {TopicPartition(topic, partition): spec for partition, spec in which.items()}
        what = f"offsets of topic {topic!r}"
        futures = self._ask(what, lambda: self.admin.list_offsets(request, request_timeout=self.timeout))
        return {
            partition.partition: self._result(what, future).offset for partition, future in futures.items()
        }

    def _if_known(self, topic: str, future: Future[T]) -> T:
        try:
            return future.result(timeout=self.timeout)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise self._missing(topic) from error
            raise

    def _missing(self, topic: str) -> Missing:
        return Missing(
            f"topic {topic!r} does not exist on {self.servers}; run the load's provision_topic step",
            ErrorCode.TOPIC_NOT_FOUND,
        )

    def _create(self, topic: Topic) -> bool:
        new = NewTopic(topic.name, topic.partitions, topic.replication_factor, config=topic.config)
        what = f"creating topic {topic.name!r}"
        futures = self._ask(what, lambda: self.admin.create_topics([new], operation_timeout=self.timeout))
        return self._unless(KafkaError.TOPIC_ALREADY_EXISTS, what, futures[topic.name])

    def _grow(self, topic: Topic) -> None:
        what = f"adding partitions to topic {topic.name!r}"
        request = [NewPartitions(topic.name, topic.partitions)]
        futures = self._ask(
            what, lambda: self.admin.create_partitions(request, operation_timeout=self.timeout)
        )
        # INVALID_PARTITIONS: another run was faster; _await sees whether the number is right now.
        self._unless(KafkaError.INVALID_PARTITIONS, what, futures[topic.name])

    def _configure(self, topic: Topic) -> dict[str, tuple[str | None, str]]:
        if not topic.config:
            return {}
        what = f"configs of topic {topic.name!r}"
        changed = config_diff(topic.config, self._config(topic.name))
        if changed:
            entries = [
                ConfigEntry(name, new, incremental_operation=AlterConfigOpType.SET)
                for name, (_, new) in changed.items()
            ]
            wanted = ConfigResource(ResourceType.TOPIC, topic.name, incremental_configs=entries)
            altered = self._ask(
                what, lambda: self.admin.incremental_alter_configs([wanted], request_timeout=self.timeout)
            )
            (future,) = altered.values()
            self._result(what, future)
        return changed

    def _config(self, topic: str) -> dict[str, str | None]:
        """Every config of the topic, the broker's defaults with it."""
        what = f"configs of topic {topic!r}"
        resource = ConfigResource(ResourceType.TOPIC, topic)
        described = self._ask(
            what, lambda: self.admin.describe_configs([resource], request_timeout=self.timeout)
        )
        (future,) = described.values()
        return {name: entry.value for name, entry in self._result(what, future).items()}

    def _await(self, topic: str, partitions: int) -> TopicDescription:
        """Wait until brokers tell of at least that many partitions: metadata travels after the answer."""
        shape = wait_for(
            lambda: self.shape(topic),
            self.timeout,
            is_done=lambda shape: shape is not None and shape.partitions >= partitions,
        )
        if shape is None or shape.partitions < partitions:
            has = shape.partitions if shape else 0
            raise Unreachable(
                f"topic {topic!r} has {has} partitions, {self.timeout:g} s after {partitions} were wanted",
                ErrorCode.KAFKA_UNREACHABLE,
            )
        return shape

    def _unless(self, expected: int, what: str, future: Future[Any]) -> bool:
        """Whether it was done; False where the broker answered with the ``expected`` code."""
        try:
            future.result(timeout=self.timeout)
        except KafkaException as error:
            if error.args[0].code() == expected:
                return False
            raise translated(what, error) from error
        except FutureTimeout as error:
            raise Unreachable(
                f"{what}: no answer from {self.servers} in {self.timeout:g} s", ErrorCode.KAFKA_UNREACHABLE
            ) from error
        return True

    def _result(self, what: str, future: Future[T]) -> T:
        return self._ask(what, lambda: future.result(timeout=self.timeout))

    def _ask(self, what: str, question: Callable[[], T]) -> T:
        try:
            return question()
        except KafkaException as error:
            self.admin.poll(0)
            cause = error if self._login_error is None else KafkaException(self._login_error)
            raise translated(what, cause) from error
        except FutureTimeout as error:
            raise Unreachable(
                f"{what}: no answer from {self.servers} in {self.timeout:g} s", ErrorCode.KAFKA_UNREACHABLE
            ) from error


def check_not_shrinking(topic: Topic, has: TopicDescription) -> None:
    """Raise Refused where the declaration cannot be reached without moving or losing records."""
    if has.partitions > topic.partitions:
        raise Refused(
            f"topic {topic.name!r} has {has.partitions} partitions and the stream wants {topic.partitions}: "
            f"Kafka cannot take partitions away; set partitions = {has.partitions} in stream.toml, "
            "or name another topic",
            ErrorCode.TOPIC_MISMATCH,
        )
    if topic.replication_factor not in (BROKER_DEFAULT, has.replication_factor):
        raise Refused(
            f"topic {topic.name!r} has replication factor {has.replication_factor} and the stream wants "
            f"{topic.replication_factor}: that moves data between brokers and is not done here; set "
            f"replication_factor = {has.replication_factor} in stream.toml, or reassign the partitions",
            ErrorCode.TOPIC_MISMATCH,
        )


def config_diff(
    declared: Mapping[str, str], present: Mapping[str, str | None]
) -> dict[str, tuple[str | None, str]]:
    """Declared configs that are not so: name -> (present, declared)."""
    return {
        name: (present.get(name), value) for name, value in declared.items() if present.get(name) != value
    }


def translated(what: str, error: KafkaException) -> Refused | Unreachable:
    """An error of Kafka's in Sluice's words, beginning with ``what``."""
    cause: KafkaError = error.args[0]
    message = f"{what}: {cause.str()} ({cause.name()})"
    if cause.code() in _DENIED:
        return Refused(
            f"{message}; check [kafka] in the role's platform file and the user's rights",
            ErrorCode.KAFKA_PERMISSION,
        )
    if cause.code() in _WRONG:
        return Refused(f"{message}; correct stream.toml", ErrorCode.TOPIC_MISMATCH)
    return Unreachable(message, ErrorCode.KAFKA_UNREACHABLE)
