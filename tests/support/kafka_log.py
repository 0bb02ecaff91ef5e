"""A broker with one partition, made by hand, and readers of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from sluice.clients.kafka.log.brokers import OUT_OF_RANGE, Brokers
from sluice.clients.kafka.log.range_reader import Epochs, RangeRead, RangeReader
from sluice.clients.kafka.log.responses import Fetched, TopicLeaders
from sluice.core.offsets.ranges import IntervalSet
from tests.support.record_batches import Made, Record, joined

ID = "topic-id"
EPOCH = 3


def made(*offsets: int, producer: int = -1) -> Made:
    """A batch of these records; of a transaction with a ``producer``."""
    found = tuple(Record(n, value=b"%d" % n) for n in offsets)
    return Made(found, producer_id=producer, is_transactional=producer >= 0)


@dataclass
class Log:
    """A broker with one partition of these batches, ``size`` of them in a response. ``fetches``: the offset
    and epoch of each request, ``sizes``: its bytes; ``waited``: seconds."""

    batches: list[Made]
    begin: int = 0
    size: int = 2
    policy: str = "delete"
    aborted: tuple[tuple[int, int], ...] = ()
    last_stable: int | None = None
    max_batch_bytes: int = 1 << 20
    ids: list[str] = field(default_factory=lambda: [ID])
    # Before a fetch is answered: an error's number, or one that is raised.
    errors: list[int | Exception] = field(default_factory=list)
    fetches: list[tuple[int, int]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    damage: Callable[[bytes], bytes] = bytes
    waited: float = 0

    @property
    def end(self) -> int:
        last = self.batches[-1]
        return (last.last_offset if last.last_offset is not None else last.records[-1].offset) + 1

    def describe(self, topic: str, node: int | None = None) -> TopicLeaders:
        return TopicLeaders(self.ids.pop(0) if len(self.ids) > 1 else self.ids[0], {0: (1, EPOCH)})

    def cleanup_policy(self, topic: str) -> str:
        return self.policy

    def bound(self, topic: str, partition: int, leader: tuple[int, int], which: int) -> int:
        return self.begin if which == -2 else self.end

    check = staticmethod(Brokers.check)

    def wait(self, seconds: float) -> None:
        self.waited += seconds

    def fetch(
        self, topic: str, partition: int, leader: tuple[int, int], offset: int, size: int, last_epoch: int
    ) -> Callable[[], Fetched]:
        self.fetches.append((offset, last_epoch))
        self.sizes.append(size)

        def answer() -> Fetched:
            error = self.errors.pop(0) if self.errors else 0
            if isinstance(error, Exception):
                raise error
            if not self.begin <= offset <= self.end:
                error = OUT_OF_RANGE
            stable = self.end if self.last_stable is None else self.last_stable
            sent = [b for b in self.batches if self._last(b) >= offset and self._last(b) < stable]
            data = b"" if error else self.damage(joined(sent[: self.size]))
            return Fetched(error, data, self.end, stable, self.aborted, None)

        return answer

    @staticmethod
    def _last(batch: Made) -> int:
        return batch.last_offset if batch.last_offset is not None else batch.records[-1].offset


def reading(log: Log, begin: int, end: int, last_epoch: int = -1) -> RangeRead:
    reader = RangeReader(cast("Brokers", log), "t", ID, patience=0.02)
    return reader.read(0, IntervalSet.of([(begin, end)]), Epochs(last_epoch))


def offsets(read: RangeRead) -> list[int]:
    found = [row for piece in read for row in piece.select(["offset", "value"]).to_pylist()]
    assert all(row["value"] == b"%d" % row["offset"] for row in found)
    return [row["offset"] for row in found]
