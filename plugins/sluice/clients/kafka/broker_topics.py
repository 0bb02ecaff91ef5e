"""Topics of plain brokers: created and changed as declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from sluice.clients.kafka.admin import KafkaAdmin, TopicDescription
from sluice.config.reading.limits import BROKER_DEFAULT
from sluice.config.sections.topic import Topic
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.json_record import JsonRecord


@dataclass(frozen=True)
class TopicDiff(JsonRecord):
    """Changes of one provisioning. ``partitions`` and each of ``config`` are (before, after)."""

    topic: str
    created: bool = False
    partitions: tuple[int, int] | None = None
    config: dict[str, tuple[str | None, str]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.created or self.partitions or self.config)

    def message(self) -> str:
        if self.is_empty:
            return f"topic {self.topic!r} is as declared"
        parts = ["created"] if self.created else []
        if self.partitions:
            parts.append(f"partitions {self.partitions[0]} -> {self.partitions[1]}")
        parts += [f"{key} {old} -> {new}" for key, (old, new) in sorted(self.config.items())]
        return f"topic {self.topic!r}: {', '.join(parts)}"


class BrokerTopics:
    """Provisions topics of brokers that no operator manages."""

    def __init__(self, kafka: KafkaAdmin) -> None:
        self._kafka = kafka

    def provision(self, topic: Topic) -> TopicDiff:
        """Create or change the topic as declared. Idempotent, also for two callers at once.

        Only declared configs are compared. Raises Refused, and changes nothing, if partitions would have to
        be removed or replicas moved.
        """
        before = self._kafka.find(topic.name)
        created = before is None and self._create(topic)
        has = before or self._kafka.wait_for_partitions(topic.name, 1)
        check_not_shrinking(topic, has)
        grown = has.partitions < topic.partitions
        if grown:
            self._grow(topic)
        self._kafka.wait_for_partitions(topic.name, topic.partitions)
        return TopicDiff(
            topic=topic.name,
            created=created,
            partitions=(has.partitions, topic.partitions) if grown else None,
            config=self._configure(topic),
        )

    def _create(self, topic: Topic) -> bool:
        new = NewTopic(topic.name, topic.partitions, topic.replication_factor, config=topic.config)
        created = self._kafka.results(
            f"creating topic {topic.name!r}",
            lambda: self._kafka.admin.create_topics([new], operation_timeout=self._kafka.timeout),
            unless=KafkaError.TOPIC_ALREADY_EXISTS,
        )
        return bool(created)

    def _grow(self, topic: Topic) -> None:
        request = [NewPartitions(topic.name, topic.partitions)]
        self._kafka.results(
            f"adding partitions to topic {topic.name!r}",
            lambda: self._kafka.admin.create_partitions(request, operation_timeout=self._kafka.timeout),
            # Another run was faster; `wait_for_partitions` checks the number.
            unless=KafkaError.INVALID_PARTITIONS,
        )

    def _configure(self, topic: Topic) -> dict[str, tuple[str | None, str]]:
        changed = config_diff(topic.config, self._kafka.config(topic.name)) if topic.config else {}
        if changed:
            entries = [
                ConfigEntry(name, new, incremental_operation=AlterConfigOpType.SET)
                for name, (_, new) in changed.items()
            ]
            wanted = ConfigResource(ResourceType.TOPIC, topic.name, incremental_configs=entries)
            self._kafka.results(
                f"configs of topic {topic.name!r}",
                lambda: self._kafka.admin.incremental_alter_configs(
                    [wanted], request_timeout=self._kafka.timeout
                ),
            )
        return changed


def is_as_declared(kafka: KafkaAdmin, topic: Topic) -> bool:
    """Whether the brokers have the topic as declared, so that provisioning it, by whatever, changes nothing
    of it. Reads only; raises Refused as :func:`check_not_shrinking`."""
    has = kafka.find(topic.name)
    if has is None:
        return False
    check_not_shrinking(topic, has)
    is_grown = has.partitions == topic.partitions
    return is_grown and not (topic.config and config_diff(topic.config, kafka.config(topic.name)))


def check_not_shrinking(topic: Topic, has: TopicDescription) -> None:
    """Raise Refused if the declaration needs partitions removed or replicas moved."""
    if has.partitions > topic.partitions:
        raise Refused(
            f"topic {topic.name!r} has {has.partitions} partitions and the stream wants {topic.partitions}; "
            f"Kafka cannot remove partitions. Fix: set partitions = {has.partitions} in stream.toml, or name "
            "another topic",
            ErrorCode.TOPIC_MISMATCH,
        )
    if topic.replication_factor not in (BROKER_DEFAULT, has.replication_factor):
        raise Refused(
            f"topic {topic.name!r} has replication factor {has.replication_factor} and the stream wants "
            f"{topic.replication_factor}; replicas are not moved here. Fix: set replication_factor = "
            f"{has.replication_factor} in stream.toml, or reassign the partitions",
            ErrorCode.TOPIC_MISMATCH,
        )


def config_diff(
    declared: Mapping[str, str], present: Mapping[str, str | None]
) -> dict[str, tuple[str | None, str]]:
    """Declared configs that differ: name -> (present, declared)."""
    return {
        name: (present.get(name), value) for name, value in declared.items() if present.get(name) != value
    }
