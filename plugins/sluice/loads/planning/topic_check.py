"""Look at a topic of others before a load: whether it is the one that the table has, and can be read on.

Nothing is created, and nothing of it is changed. Describe and DescribeConfigs are all that it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Log, Missing, Refused, check_no_problems
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.topic_facts import TopicFacts

if TYPE_CHECKING:
    from sluice.config.stream import StreamSpec
    from sluice.core.tables.position import Position
    from sluice.systems import Systems


def check(systems: Systems, spec: StreamSpec, log: Log) -> TopicFacts:
    """The topic as it is. Raises Missing without it; Refused if it is not the one that the table has records
    of, if retention deleted records that were not read, and for what a stream cannot read."""
    name, kafka = spec.topic.name, systems.kafka
    described = kafka.find(name)
    if described is None:
        raise Missing(
            f"topic {name!r} does not exist on {kafka.servers}, or this user may not see it; others create "
            "it. Fix: correct [topic] name in stream.toml, or ask for Describe on it",
            ErrorCode.TOPIC_NOT_FOUND,
        )
    position = systems.lake.position(spec.table)
    if position is not None:
        check_same_topic(spec, described.id, position)
    facts = TopicFacts.of(described.partitions, kafka.config(name))
    windowed = [query for query, declared in spec.queries.items() if declared.window]
    known = position.ends if position else {}
    problems = facts.problems(known, systems.platform.kafka.max_batch_bytes, windowed)
    check_no_problems(log, ErrorCode.TOPIC_MISMATCH, problems, f"topic {name!r}")
    if position is not None:
        _check_retention(name, position, kafka.begins(name, described.partitions))
    return facts


def check_same_topic(spec: StreamSpec, topic_id: str, position: Position) -> None:
    """Raises Refused if the topic of this id is not the one that the table has records of."""
    if position.topic_id not in (None, topic_id):
        raise Refused(
            f"topic {spec.topic.name!r} was recreated: its id is {topic_id}, {spec.table} has "
            f"{position.topic_id}. Fix: give the stream a new table, or restore the topic",
            ErrorCode.HEALTH_TOPIC_RECREATED,
        )


def _check_retention(name: str, position: Position, begins: dict[int, int]) -> None:
    deleted = OffsetRanges.of(
        {p: [(end, begins[p])] for p, end in position.ends.items() if begins.get(p, end) > end}
    )
    if deleted:
        raise Refused(
            f"topic {name!r}: retention deleted {deleted.count} offsets before they were read: "
            f"{deleted.shown()}. Fix: give the stream a new table; ask its administrators for a longer "
            "retention",
            ErrorCode.HEALTH_DATA_LOST,
        )
