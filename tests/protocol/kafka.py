"""The model's topic, with retention and re-creation, and the consumer group, which nothing reads.

Kinds of records: ``good``; ``bad``, which every schema rejects; ``new``, which the newer one accepts; ``v1``,
``v2`` and so on, of versions of the schema with further fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.protocol.catalog import Record

KINDS = ("good", "bad", "new")


def version_of(kind: str) -> int:
    """The version of the schema that a record has, 0 for the declared one."""
    return int(kind[1:]) if kind.startswith("v") else 0


@dataclass
class Partition:
    """``begin``: the first offset that retention has left."""

    records: list[Record] = field(default_factory=list)
    begin: int = 0


class Topic:
    """The topic as it is in Kafka."""

    def __init__(self, partitions: int) -> None:
        self.generation = 0
        # So many versions of the schema have records.
        self.versions = 0
        self.partitions = [Partition() for _ in range(partitions)]

    @property
    def id(self) -> str:
        return f"topic-{self.generation}"

    def produce(self, partition: int, kind: str) -> Record:
        records = self.partitions[partition].records
        records.append(Record(self.id, partition, len(records), kind))
        return records[-1]

    def recreate(self) -> None:
        self.generation += 1
        self.partitions = [Partition() for _ in self.partitions]

    def widen(self) -> None:
        self.partitions.append(Partition())

    def bounds(self) -> dict[int, tuple[int, int]]:
        return {
            number: (partition.begin, len(partition.records))
            for number, partition in enumerate(self.partitions)
        }

    def read(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> list[Record]:
        """Raises LookupError if some of the offsets are gone, as Spark with failOnDataLoss."""
        bounds = self.bounds()
        for partition, end in ends.items():
            first, after = bounds.get(partition, (0, 0))
            if starts[partition] < end and not first <= starts[partition] <= end <= after:
                raise LookupError(f"partition {partition}: [{starts[partition]}, {end}) is not there")
        return [r for p, end in ends.items() for r in self.partitions[p].records[starts[p] : end]]


class TopicClient:
    """In place of :class:`spark_jobs.common.kafka.offsets.Topic`."""

    name = "topic"

    def __init__(self, world: Any) -> None:
        self.kafka = world

    def id(self) -> str:
        self.kafka.point("topic id")
        found: str = self.kafka.topic.id
        return found


def topic_offsets(kafka: Any, _: str) -> dict[int, tuple[int, int]]:
    """In place of :func:`sluice.clients.kafka.consumers.topic_offsets`."""
    kafka.point("topic offsets")
    found: dict[int, tuple[int, int]] = kafka.topic.bounds()
    return found


class Group:
    """In place of :class:`spark_jobs.common.kafka.offsets.Group`."""

    is_due = False

    def __init__(self, *_: object) -> None:
        pass

    def commit(self, ends: Mapping[int, int]) -> bool:
        return True
