"""The topic of a load: as declared, with bounds of its records' times, and never made a second time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sluice.config.sections.topic import POSITIONS_TOPIC, PROGRESS_TOPIC, Topic
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused

if TYPE_CHECKING:
    from sluice.clients.kafka.broker_topics import TopicDiff
    from sluice.config.stream import StreamSpec
    from sluice.systems import Systems

# The broker rejects other records: Spark's source overflows on a timestamp of nanoseconds, at each start
# again. After: Kafka 4's default, an hour. Before: 100 years, so replayed history is within.
TIMESTAMP_BOUNDS = {
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "3153600000000",
}


def with_timestamp_bounds(topic: Topic) -> Topic:
    """The topic with TIMESTAMP_BOUNDS, unless it declares others. With LogAppendTime they have no effect."""
    return replace(topic, config=TIMESTAMP_BOUNDS | topic.config)


def provision(systems: Systems, spec: StreamSpec) -> list[TopicDiff]:
    """Create or adjust the stream's topic, the one of queries' progress, and of a feed the one of positions;
    what changed of each.

    Raises Refused instead of shrinking a topic, of creating one again whose records the table has, and if a
    feed's producer would send events that the topic does not take.
    """
    _check_not_lost(systems, spec)
    own = [PROGRESS_TOPIC] if spec.feed is None else [PROGRESS_TOPIC, POSITIONS_TOPIC]
    changed = [systems.topics.provision(one) for one in (with_timestamp_bounds(spec.topic), *own)]
    if spec.feed is not None:
        _check_limit(spec, systems.kafka.max_message_bytes(spec.topic.name))
    return changed


def _check_limit(spec: StreamSpec, taken: int) -> None:
    """The feed's producer knows the declaration alone: one larger event would end it at each start."""
    declared = spec.topic.max_message_bytes
    if taken < declared:
        raise Refused(
            f"topic {spec.topic.name!r} takes messages of at most {taken} bytes, the producer of "
            f'{spec.name!r} sends up to {declared}. Fix: declare "max.message.bytes" = {taken} in '
            "[topic.config] of stream.toml",
            ErrorCode.TOPIC_MISMATCH,
        )


def _check_not_lost(systems: Systems, spec: StreamSpec) -> None:
    position = systems.lake.position(spec.table)
    if position is None or not any(position.ends.values()):
        return
    try:
        systems.kafka.describe(spec.topic.name)
    except Missing as error:
        raise Refused(
            f"topic {spec.topic.name!r} was deleted: {spec.table} has its records up to "
            f"{position.ends}. A new one would have other records at these offsets. Fix: restore the "
            "topic, or give the stream a new table and a new topic (docs/operating.md, Topic was "
            "recreated)",
            ErrorCode.TOPIC_NOT_FOUND,
        ) from error
