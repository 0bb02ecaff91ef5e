"""The first offsets of a stream whose table has none: what its topic keeps, or its declared start."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from sluice.clients.kafka.consumers import group_offsets, offsets_at
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.reading.toml import ConfigError
from sluice.config.stream import StreamSpec
from sluice.core.offsets.start import Start, StartInvalid, StartKind

log = logging.getLogger(__name__)

Bounds = Mapping[int, tuple[int, int]]


def first_offsets(kafka: Kafka, spec: StreamSpec, bounds: Bounds) -> dict[int, int]:
    """Partition -> the first offset that the stream reads. ``bounds``: partition -> (first offset kept, next
    offset to be written).

    The writer's first snapshot records them, and no later writer asks again. Raises ConfigError for a start
    that the topic does not have, KafkaException if the group may not be seen.
    """
    if spec.topic.managed:
        return {partition: first for partition, (first, _) in bounds.items()}
    start, where = Start.parse(spec.topic.start), f"{spec.name}/stream.toml: topic start"
    try:
        found = start.offsets_in(bounds, _asked(kafka, spec.topic.name, start, bounds))
    except StartInvalid as error:
        raise ConfigError(f"{where} {spec.topic.start!r}: {error}") from error
    log.info("stream begins start=%r offsets=%s", spec.topic.start, found)
    return found


def _asked(kafka: Kafka, topic: str, start: Start, bounds: Bounds) -> dict[int, int]:
    if start.kind is StartKind.TIME and start.at is not None:
        found = offsets_at(kafka, topic, int(start.at.timestamp() * 1000))
        # Records that came since the bounds were asked: without one of that time it would be their end.
        return {p: min(found[p], after) for p, (_, after) in bounds.items()}
    if start.kind is StartKind.GROUP:
        return group_offsets(kafka, start.group, topic, bounds)
    return {}
