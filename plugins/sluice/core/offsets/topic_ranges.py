"""Offsets of several topics, and their text: ``nyc-avro-topic: 0=[110,220) 1=[100,313),[400,410)``.

It is the one form in forms, logs, messages and commands, so what one of them prints is input to another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from sluice.core.error_codes import ErrorCode
from sluice.core.messages import quoted
from sluice.core.offsets.ranges import OffsetRanges, Pair

EXAMPLE = "nyc-avro-topic: 0=[110,220) 1=[100,313),[400,410)"
# Kafka's rule for names (org.apache.kafka.common.internals.Topic).
_TOPIC = re.compile(r"\s*([a-zA-Z0-9._-]{1,249})\s*:")
# Python refuses to read numbers of thousands of digits.
_RANGE = r"\[\s*-?\d{1,20}\s*,\s*-?\d{1,20}\s*\)"
_PARTITION = re.compile(rf"\s*(\d{{1,10}})\s*=\s*({_RANGE}(?:\s*,\s*{_RANGE})*)(?=\s|;|$)")
_NUMBER = re.compile(r"-?\d+")
LARGEST_OFFSET = 2**63 - 1
# Longest text that an error quotes.
_QUOTED = 40

Operation = Callable[[OffsetRanges, OffsetRanges], OffsetRanges]


class RangesInvalid(ValueError):
    """A text that names no offsets."""

    code = ErrorCode.INVALID_PARAMETER


@dataclass(frozen=True)
class TopicRanges:
    """Offsets per topic, without topics that have none."""

    topics: Mapping[str, OffsetRanges] = field(default_factory=dict)

    @classmethod
    def of(cls, topics: Mapping[str, OffsetRanges]) -> TopicRanges:
        return cls({topic: topics[topic] for topic in sorted(topics) if topics[topic]})

    @classmethod
    def parse(cls, text: str, topic: str = "") -> TopicRanges:
        """From its text; topics are separated by ``;`` or new lines. ``topic``: of ranges without one.

        Raises RangesInvalid for any other text, for a partition or topic that is named twice, and for ranges
        that are empty, negative, inverted or overlap.
        """
        found: dict[str, OffsetRanges] = {}
        for part in filter(str.strip, re.split(r"[;\n]", text)):
            named = _TOPIC.match(part)
            name = named[1] if named else topic
            if not name:
                raise _invalid(f"{quoted(part.strip(), _QUOTED)} names no topic")
            if name in found:
                raise _invalid(f"topic {name!r} is named twice")
            found[name] = OffsetRanges.of(dict(_partitions(part[named.end() if named else 0 :], name)))
        return cls.of(found)

    def __getitem__(self, topic: str) -> OffsetRanges:
        return self.topics.get(topic, OffsetRanges())

    def __iter__(self) -> Iterator[str]:
        return iter(self.topics)

    def __bool__(self) -> bool:
        return bool(self.topics)

    @property
    def count(self) -> int:
        return sum(ranges.count for ranges in self.topics.values())

    def union(self, other: TopicRanges) -> TopicRanges:
        return self._merge(other, OffsetRanges.union)

    def minus(self, other: TopicRanges) -> TopicRanges:
        return self._merge(other, OffsetRanges.minus)

    def intersect(self, other: TopicRanges) -> TopicRanges:
        return self._merge(other, OffsetRanges.intersect)

    def covers(self, other: TopicRanges) -> bool:
        return not other.minus(self)

    def _merge(self, other: TopicRanges, operation: Operation) -> TopicRanges:
        return TopicRanges.of(
            {topic: operation(self[topic], other[topic]) for topic in {*self.topics, *other.topics}}
        )

    def __str__(self) -> str:
        return "; ".join(f"{topic}: {ranges}" for topic, ranges in self.topics.items()) or "(empty)"


def _partitions(text: str, topic: str) -> Iterator[tuple[int, list[Pair]]]:
    """Each partition of a topic's text with its ranges."""
    named, position, length = set[int](), 0, len(text.rstrip())
    while position < length:
        match = _PARTITION.match(text, position)
        if match is None:
            raise _invalid(f"{quoted(text[position:].strip(), _QUOTED)} is no partition with ranges")
        partition, position = int(match[1]), match.end()
        if partition in named:
            raise _invalid(f"topic {topic!r}: partition {partition} is named twice")
        named.add(partition)
        yield partition, _pairs(match[2], f"topic {topic!r}, partition {partition}")
    if not named:
        raise _invalid(f"topic {topic!r} has no ranges")


def _pairs(text: str, place: str) -> list[Pair]:
    numbers = [int(number) for number in _NUMBER.findall(text)]
    pairs = sorted(zip(numbers[::2], numbers[1::2], strict=True))
    for start, until in pairs:
        if start < 0:
            raise _invalid(f"{place}: range [{start},{until}) is negative")
        if until <= start:
            raise _invalid(f"{place}: range [{start},{until}) ends before it begins, or is empty")
        if until > LARGEST_OFFSET:
            raise _invalid(f"{place}: range [{start},{until}) ends beyond Kafka's largest offset")
    for before, after in pairwise(pairs):
        if after[0] < before[1]:
            raise _invalid(f"{place}: ranges [{before[0]},{before[1]}) and [{after[0]},{after[1]}) overlap")
    return pairs


def _invalid(reason: str) -> RangesInvalid:
    return RangesInvalid(f"offset ranges: {reason}. Fix: write them as {EXAMPLE}")
