"""A sample of a topic: a few records near the begin, the middle and the end of some partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from sluice.clients.kafka.log.brokers import Brokers
from sluice.clients.kafka.log.fetching import OffsetsDeleted, TransactionOpen
from sluice.clients.kafka.log.range_reader import RangeReader
from sluice.core.decoding.sample import Sampled
from sluice.core.offsets.ranges import IntervalSet

# Partitions that are looked at, offsets at each place, and how long one that does not answer is waited for.
PARTITIONS, OFFSETS, SECONDS = 8, 50, 15.0


@dataclass
class TopicSample:
    """``records``: in the order of their offsets, per partition; ``sizes``: bytes of their values. Numbers of
    offsets: ``control``, ``aborted``, ``absent``, as of an account; ``open``: partitions whose end waits for
    a transaction."""

    records: list[Sampled] = field(default_factory=list)
    control: int = 0
    aborted: int = 0
    absent: int = 0
    open: list[int] = field(default_factory=list)

    @property
    def sizes(self) -> list[int]:
        return [len(one.value) for one in self.records if one.value is not None]


def sample(brokers: Brokers, topic: str, bounds: Mapping[int, tuple[int, int]]) -> TopicSample:
    """Read some records. ``bounds``: partition -> (first offset kept, next offset to be written). Raises what
    RangeRead raises, but for what retention deletes meanwhile and open transactions."""
    reader = RangeReader(brokers, topic, brokers.describe(topic).id, patience=SECONDS)
    found = TopicSample()
    filled = [partition for partition, (first, after) in sorted(bounds.items()) if after > first]
    for partition in filled[:PARTITIONS]:
        for place in places(*bounds[partition]):
            try:
                _read(reader, partition, place, found)
            except OffsetsDeleted:
                continue
            except TransactionOpen:
                found.open.append(partition)
                break
    return found


def places(first: int, after: int) -> list[IntervalSet]:
    """A few offsets at the begin, in the middle and at the end, none twice."""
    middle = (first + after - OFFSETS) // 2
    begins = sorted({first, max(middle, first), max(after - OFFSETS, first)})
    pairs = [(begin, min(begin + OFFSETS, after)) for begin in begins]
    return [IntervalSet.of([pair]) for pair in IntervalSet.of(pairs).pairs()]


def _read(reader: RangeReader, partition: int, place: IntervalSet, found: TopicSample) -> None:
    read = reader.read(partition, place)
    # It counts only if all of it was read.
    found.records += [one for piece in read for one in _records(partition, piece)]
    account = read.account
    found.control += account.control.count
    found.aborted += account.aborted.count
    found.absent += account.absent.count


def _records(partition: int, piece: pa.RecordBatch) -> Iterator[Sampled]:
    for row in piece.to_pylist():
        headers = None if row["headers"] is None else [(one["key"], one["value"]) for one in row["headers"]]
        yield Sampled(row["value"], row["key"], headers, partition, row["offset"])
