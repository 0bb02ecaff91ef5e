"""Offsets as a person asks for them: ranges as messages and proofs print them, or a time span."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sluice.changes.stream import refused
from sluice.core.errors import Refused
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.topic_ranges import RangesInvalid, TopicRanges

if TYPE_CHECKING:
    from sluice.changes.stream import PlannedStream


def required(params: Mapping[str, Any], name: str) -> str:
    """The value of a param. Raises Refused if it is empty."""
    value = params.get(name)
    if not value:
        raise refused(f"{name} is empty", "give it: a run id is in the list of the DAG's runs")
    return str(value)


def requested_offsets(stream: PlannedStream, params: Mapping[str, Any]) -> OffsetRanges:
    """``ranges`` (text), or ``from_time`` and ``until_time`` (ISO 8601): published ones."""
    text, begin, end = (params.get(name) for name in ("ranges", "from_time", "until_time"))
    if bool(text) == bool(begin or end):
        raise refused("give either ranges or a time span", "fill in one of both")
    if text:
        return parse_offsets(stream, str(text))
    if not (begin and end):
        raise refused("a time span needs from_time and until_time", "give both")
    return _between(stream, str(begin), str(end))


def parse_offsets(stream: PlannedStream, text: str) -> OffsetRanges:
    """Offsets as messages and proofs print them, of the stream's topic and published."""
    topic = stream.spec.topic.name
    try:
        asked = TopicRanges.parse(text, topic)
    except RangesInvalid as error:
        raise Refused(str(error), error.code) from error
    if others := [name for name in asked if name != topic]:
        raise refused(f"{others[0]!r} is not the topic of {stream.spec.name}", f"name {topic!r}")
    return stream.check_published(asked[topic])


def _between(stream: PlannedStream, begin: str, end: str) -> OffsetRanges:
    """From the first record with a timestamp at or after ``begin`` to the first at or after ``end``."""
    first, until = (_milliseconds(text) for text in (begin, end))
    if first >= until:
        raise refused(f"the time span from {begin} until {end} ends before it begins", "swap them")
    ends = stream.position.ends
    topic = stream.spec.topic.name
    starts, stops = (stream.kafka.first_after(topic, at, ends) for at in (first, until))
    for partition in starts:
        if stops[partition] < starts[partition]:
            raise refused(
                f"{topic} partition {partition}: the record at offset {stops[partition]} is dated "
                f"{end} or later, and the first of {begin} or later is behind it: out of order",
                "give ranges instead",
            )
    pairs = {p: [(starts[p], stops[p])] for p in starts}
    return OffsetRanges.of(pairs).intersect(stream.published)


def _milliseconds(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise refused(f"{text!r} is no time", "write it as 2026-11-24T10:00:00Z") from error
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
