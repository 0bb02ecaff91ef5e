"""`sluice new-stream --topic`: what a topic of others is like, for a stream's folder and for a person."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sluice.cli.base import UsageError
from sluice.cli.topics.columns import of_ddl
from sluice.config.sections.supervision import Supervision
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.offsets.topic_facts import TopicFacts
from sluice.core.registry.errors import RegistryRefused, RegistryUnreachable

if TYPE_CHECKING:
    from sluice.clients.kafka.log.sample import TopicSample
    from sluice.core.decoding.sample import Guess
    from sluice.systems import Systems

# The role that looks at topics before a load: it sees configurations too.
ROLE = "airflow"
# Objects of a batch beside a file for each partition.
MORE_VERSIONS = 10
# Names of headers in a line.
_NAMED = 5


@dataclass(frozen=True)
class FoundTopic:
    """A topic as it was looked at."""

    name: str
    """As `shop.orders`."""
    partitions: int
    """Their number."""
    guess: Guess
    """What the records of the sample seem to be."""
    seen: list[str]
    """Lines for a person: what is known."""
    doubts: list[str]
    """Lines for a person: what is to be looked at, those of the guess too."""

    @property
    def versions_per_batch(self) -> int:
        return self.partitions + MORE_VERSIONS


def look(systems: Systems, topic: str, allow_reading: Callable[[str], bool] | None = None) -> FoundTopic:
    """Look at a topic, and read a few of its records; nothing of it is changed.

    ``allow_reading``: gives the role the rights on a topic that it lacks, and says whether. Raises UsageError
    without the topic or without rights, and clients' errors.
    """
    try:
        return _look(systems, topic)
    except Refused as error:
        if error.code is not ErrorCode.KAFKA_PERMISSION:
            raise
        if allow_reading is None or not allow_reading(topic):
            user = systems.platform.kafka.username or "without a login"
            raise UsageError(
                f"user {user} (role {ROLE}) may not read topic {topic!r}, or there is none: {error}. Fix: "
                "let the administrator of that Kafka grant Describe, DescribeConfigs and Read on it; the "
                "other roles' rights are in docs/topics-of-others.md, Rights"
            ) from error
    return _look(systems, topic)


def _look(systems: Systems, topic: str) -> FoundTopic:
    # With NumPy and Arrow.
    from sluice.clients.kafka.log.brokers import Brokers
    from sluice.clients.kafka.log.sample import PARTITIONS, sample
    from sluice.core.decoding.sample import guess

    kafka = systems.kafka
    described = kafka.find(topic)
    if described is None:
        raise UsageError(
            f"topic {topic!r} does not exist on {kafka.servers}, or user of role {ROLE} may not see it. Fix: "
            "correct its name, or grant the rights of docs/topics-of-others.md"
        )
    begins, ends = kafka.begins(topic, described.partitions), kafka.ends(topic, described.partitions)
    seen, doubts = [f"{described.partitions} partitions, {_records(begins, ends)} offsets kept"], list[str]()
    try:
        facts = TopicFacts.of(described.partitions, kafka.config(topic))
    except Refused as error:
        doubts.append(f"its configuration is not known: {error}")
    else:
        retention = (
            "without end" if facts.retention_ms is None else f"{facts.retention_ms / 3_600_000:g} hours"
        )
        seen.append(
            f"cleanup.policy {facts.cleanup_policy}, kept {retention}, times {facts.timestamp_type}, batches "
            f"of at most {facts.max_message_bytes} bytes"
        )
        doubts += facts.problems((), systems.platform.kafka.max_batch_bytes)
        doubts += facts.remarks(Supervision().retention_margin_seconds)
    bounds = {partition: (first, ends[partition]) for partition, first in begins.items()}
    with Brokers(systems.platform.kafka) as brokers:
        records = sample(brokers, topic, bounds)
    if records.sizes:
        sizes = sorted(records.sizes)
        seen.append(
            f"{len(records.records)} records looked at, of begin, middle and end of up to {PARTITIONS} "
            f"partitions; values of {sizes[0]} to {sizes[-1]} bytes, {sizes[len(sizes) // 2]} in the middle"
        )
    if records.control or records.aborted:
        seen.append(f"transactions: {records.control} markers, {records.aborted} records of aborted ones")
    if records.absent:
        seen.append(f"{records.absent} offsets were compacted away")
    if records.open:
        doubts.append(f"partitions {records.open} wait for an open transaction")
    found = guess(records.records)
    seen += _headers(records)
    if systems.platform.registry is not None:
        found = _by_registry(systems, topic, records, found, seen)
    if not found.schema:
        columns, left_out = of_ddl(found.columns)
        found = replace(found, columns=columns, doubts=[*found.doubts, *left_out])
    return FoundTopic(topic, described.partitions, found, seen, [*doubts, *found.doubts])


def _by_registry(systems: Systems, topic: str, records: TopicSample, by: Guess, seen: list[str]) -> Guess:
    """The guess with what the registry says; ``seen`` gets its lines."""
    from sluice.cli.topics import registered

    try:
        found = registered.look(systems.registry, topic, records.records, by)
    except (RegistryUnreachable, RegistryRefused) as error:
        return replace(by, doubts=[*by.doubts, f"the schema registry was not asked: {error}"])
    seen += found.seen
    return found.guess


def _headers(records: TopicSample) -> list[str]:
    having = [one.headers for one in records.records if one.headers]
    names = sorted({repr(key.decode(errors="replace")) for headers in having for key, _ in headers})
    named = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    return [f"{len(having)} of {len(records.records)} records have headers: {named}"] if having else []


def _records(begins: dict[int, int], ends: dict[int, int]) -> int:
    return sum(max(end - begins.get(partition, 0), 0) for partition, end in ends.items())
