"""Batches of a stream with one partition, and what its writers record of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.batches import Batch
from sluice.core.tables.without_record import WithoutRecord
from sluice.ledger.batches import BatchLog
from sluice.ledger.documents import Ledger
from spark_jobs.common.consumer import batch_log
from tests.support.memory_s3 import MemoryS3

LOCATION = "s3://lake/raw/trips"
INTERVAL = 10
NOON = 1_770_000_000_000


def batch(number: int, start: int, end: int, *, writer: str = "w1_a", at: int | None = None) -> Batch:
    """A batch of the offsets ``[start, end)`` of partition 0; ``number`` is its snapshot and batch id."""
    published = NOON + number * 1000 if at is None else at
    ranges, ends = OffsetRanges.of({0: [(start, end)]}), {0: end}
    epoch = int(writer[1 : writer.index("_")])
    return Batch(number, number, writer, epoch, ranges, ends, end - start, 1, published - 500, published)


def with_marker(one: Batch, address: str = "") -> Batch:
    """The last of its offsets has no record; ``address``: of the document that says so."""
    end = one.ends[0]
    said = WithoutRecord(OffsetRanges.of({0: [(end - 1, end)]}))
    said = WithoutRecord(address=address, documented=said.count) if address else said
    return replace(one, rows=one.rows - 1, without_record=said)


def writers_log(s3: MemoryS3) -> batch_log.BatchLogWriter:
    return batch_log.BatchLogWriter(s3.as_client(), LOCATION)


def readers_log(s3: MemoryS3, on_main: list[Batch]) -> BatchLog:
    """``on_main``: the batches whose snapshots are kept, oldest first."""
    table = SimpleNamespace(metadata=SimpleNamespace(table_uuid="u"))
    log = BatchLog(table, Ledger(s3.as_client(), LOCATION, "batches"))  # type: ignore[arg-type]
    log.__dict__["on_main"] = {one.snapshot_id: one for one in reversed(on_main)}
    return log


@dataclass
class Main:
    """What a catalog holds: the batches of its line, and how many of the newest are not recorded."""

    line: list[Batch] = field(default_factory=list)
    unrecorded: int = 0

    @property
    def end(self) -> int:
        return self.line[-1].ends[0] if self.line else 0


class History:
    """Random writers, each with failovers, crashes and restored catalogs, over one bucket."""

    def __init__(self, seed: int, *, has_markers: bool = False) -> None:
        """``has_markers``: whether the last offset of each batch has no record."""
        self.has_markers = has_markers
        self.random = random.Random(seed)  # noqa: S311
        self.s3, self.now = MemoryS3(page=3), NOON
        self.main, self.backups = Main(), list[Main]()
        self.writers = self.snapshots = 0
        self.acquire()

    def reader(self) -> BatchLog:
        kept = self.main.line[-max(self.main.unrecorded, self.random.randint(0, 20), 1) :]
        return readers_log(self.s3, kept)

    def step(self) -> None:
        act = self.random.choices(
            (self.publish, self.acquire, self.crash_after_recording, self.back_up, self.restore),
            (60, 3, 2, 2, 1),
        )[0]
        act()

    def acquire(self) -> None:
        self.writers += 1
        self.now += self.random.randint(1, 2000)
        kept = self.main.line[-self.main.unrecorded - 20 :]
        writers_log(self.s3).note_restore(kept, self.now, self.writer)

    @property
    def writer(self) -> str:
        return f"w{self.writers}_a"

    def publish(self) -> None:
        self.now += self.random.randint(1, 2000)
        self.snapshots += 1
        end = self.main.end
        until = end + self.random.randint(1, 9)
        new = batch(self.snapshots, end, until, writer=self.writer, at=self.now)
        new = with_marker(new) if self.has_markers else new
        self.main = Main([*self.main.line, new], self.main.unrecorded + 1)
        if self.main.unrecorded >= INTERVAL:
            self._record()
            self.main = Main(self.main.line, 0)

    def _record(self) -> None:
        writers_log(self.s3).record(self.main.line[-self.main.unrecorded :])

    def crash_after_recording(self) -> None:
        """What is recorded is no snapshot's knowledge: the next writer records it again."""
        if self.main.unrecorded:
            self._record()
        self.acquire()

    def back_up(self) -> None:
        self.backups.append(self.main)

    def restore(self) -> None:
        if self.backups:
            self.main = self.random.choice(self.backups)
            self.acquire()
