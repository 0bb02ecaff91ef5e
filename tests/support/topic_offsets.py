"""Every offset of a topic, compared with table and quarantine."""

from __future__ import annotations

from local.stack.base import BaseStack
from local.stack.lake import (
    OFFSETS,
    OffsetComparison,
    compare,
    delivered_by,
    held,
    read,
    stream_starts,
    tables,
)
from sluice.clients.kafka.consumers import topic_offsets
from sluice.config.stream import StreamSpec


def compare_with_topic(stack: BaseStack, spec: StreamSpec) -> OffsetComparison:
    """Compare every offset of the topic with a record with the table and the quarantine."""
    lake, quarantine = tables(stack, spec)
    topic = topic_offsets(stack.platform("reader").kafka, spec.topic.name)
    with held(read(lake, OFFSETS), read(quarantine, OFFSETS)) as sql:
        return compare(sql, stream_starts(lake), topic, delivered_by(stack, spec))
