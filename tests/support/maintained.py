"""A stream that publishes, is verified and maintained, in a time of its own: a day takes no time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from sluice.config.sections.maintenance import Maintenance
from sluice.core.json_record import Document
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.batches import Batch, time_of
from sluice.ledger.batches import BatchLog
from sluice.ledger.history import History
from sluice.ledger.keys import VERIFIED_TABLE
from sluice.maintenance.batch_history import BatchHistory
from tests.support.batches import INTERVAL, LOCATION, NOON, batch, readers_log, with_marker, writers_log
from tests.support.memory_s3 import MemoryS3

TABLE = "raw.trips"
# Snapshots that a table keeps.
KEPT = 20
SHORT = Maintenance(restore_horizon_days=1, history_days=3)
DAY = timedelta(days=1)


class MaintainedStream:
    """Batches of ten offsets, the last of which has no record. In place of one role's systems, too."""

    def __init__(self, maintenance: Maintenance = SHORT, s3: MemoryS3 | None = None) -> None:
        self.maintenance, self.s3 = maintenance, s3 or MemoryS3()
        self.now = time_of(NOON)
        self.s3.clock = lambda: self.now
        self.ledger = History(self.s3.as_client(), "s3://w/ledger", "trips")
        self.line = list[Batch]()
        # The newest snapshots of the table, and by metadata file.
        self.kept, self.states = KEPT, dict[str, list[int]]()
        self.platform = SimpleNamespace(lake=SimpleNamespace(is_maintained_by_catalog=False))
        self.lake = self
        self.refuses: Exception | None = None
        self.next, self.writer = 0, "w1_a"

    def publish(self, count: int, over: timedelta = DAY, *, in_documents: bool = False) -> None:
        """So many batches at regular times, recorded by tens; ``in_documents``: each has a document of its
        offsets without a record."""
        new = []
        for _ in range(count):
            self.now += over / count
            number, self.next = self.next, self.next + 1
            at = round(self.now.timestamp() * 1000)
            address = f"{LOCATION}/without-record/{number}.json" if in_documents else ""
            made = batch(number, number * 10, number * 10 + 10, writer=self.writer, at=at)
            one = with_marker(made, address)
            if address:
                said = b'{"control":{"0":[[%d,%d]]}}' % (number * 10 + 9, number * 10 + 10)
                bucket, key = address.removeprefix("s3://").split("/", 1)
                self.s3.put_object(Bucket=bucket, Key=key, Body=said, IfNoneMatch="*")
            new.append(one)
            self.line.append(one)
            if len(new) == INTERVAL:
                writers_log(self.s3).record(new)
                new = []
        writers_log(self.s3).record(new)

    def verify(self) -> None:
        """As ``verify_table`` that passed."""
        newest = self.line[-1]
        ends = {str(partition): end for partition, end in newest.ends.items()}
        state = {"table_uuid": "u", "committed_at": newest.published_at, "ends": ends}
        self.ledger.record_run(VERIFIED_TABLE, state, self.now)

    def note(self) -> None:
        """As ``record_metadata``."""
        location = f"m{self.now.isoformat()}"
        self.states[location] = [one.snapshot_id for one in self.line[-self.kept :]]
        self.ledger.record_metadata({TABLE: location}, self.now, "run")

    def remove(self, *, fewest_days: int = 0) -> Document:
        return BatchHistory(cast("Any", self), self.spec, fewest_days).remove(self.now)

    def day(self, batches: int, *, in_documents: bool = False) -> Document:
        """A day with so many batches, at the end of which the stream is verified and maintained."""
        self.publish(batches, in_documents=in_documents)
        self.verify()
        self.note()
        return self.remove()

    def objects(self, folder: str = "") -> list[str]:
        """The keys below the table's folder."""
        prefix = f"{LOCATION.removeprefix('s3://lake/')}/{folder}"
        return sorted(key for bucket, key in self.s3.objects if bucket == "lake" and key.startswith(prefix))

    @property
    def spec(self) -> Any:
        return SimpleNamespace(name="trips", table=TABLE, maintenance=self.maintenance)

    # What maintenance asks of its clients.

    def location(self, name: str) -> str | None:
        return "there" if name == TABLE else None

    def table_at(self, name: str, location: str) -> Any:
        return self._table(self.states[location])

    def history(self, name: str) -> History:
        return self.ledger

    def batch_log(self, name: str = TABLE) -> BatchLog:
        log = readers_log(self.s3, self.line[-self.kept :])
        log.table = self._table([one.snapshot_id for one in self.line[-self.kept :]])
        return log

    def as_maintenance(self) -> Any:
        return self.s3.as_client()

    def remove_objects(self, bucket: str, keys: Iterable[str]) -> None:
        for key in keys:
            if self.refuses:
                raise self.refuses
            self.s3.objects.pop((bucket, key), None)

    def _table(self, snapshots: Iterable[int]) -> Any:
        kept = [SimpleNamespace(snapshot_id=number) for number in snapshots]
        return SimpleNamespace(
            metadata=SimpleNamespace(snapshots=kept, table_uuid="u"),
            location=lambda: LOCATION,
            properties={},
        )


def later(stream: MaintainedStream, days: float) -> datetime:
    """So many days later; nothing happens until then."""
    stream.now += days * DAY
    return stream.now


def aged(days: int = 12, batches: int = 40, *, in_documents: bool = False) -> MaintainedStream:
    """A stream of so many days, without a removal."""
    stream = MaintainedStream()
    for _ in range(days):
        stream.publish(batches, in_documents=in_documents)
        stream.verify()
        stream.note()
    return stream


def markers(until: int) -> OffsetRanges:
    """The offsets without a record of so many batches."""
    return OffsetRanges.of({0: [(number * 10 + 9, number * 10 + 10) for number in range(until)]})
