"""What is known of the loads of a topic of others: up to where one was verified, the bounds of intervals, and
since which snapshots the files of later records were written.

Documents of one incarnation, the newest first: however many there are, each question costs a LIST and a few
GETs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from sluice.core.json_record import Document
from sluice.core.tables.continuity import covers
from sluice.ledger.keys import (
    began_key,
    heads_key,
    heads_prefix,
    now,
    time_key,
    verified_until_key,
    verified_until_prefix,
)

if TYPE_CHECKING:
    from sluice.ledger.documents import Ledger

# How many of the newest are looked through: behind them is a table that was restored far back, or a load of
# old records, which reads the manifests of the whole table.
NEWEST = 20
# Time of a load without any snapshots before it.
EPOCH = datetime(1970, 1, 1, tzinfo=UTC).isoformat()


@dataclass(frozen=True)
class TopicLoads:
    """``incarnation``: of the table, its topic and the stream's first offsets."""

    ledger: Ledger
    incarnation: str

    def began(self, starts: Mapping[int, int]) -> Document:
        """Where the stream begins, and when a load first knew it: recorded once."""
        return self.ledger.pin(
            began_key(self.incarnation), lambda: {"start_offsets": as_json(starts), "at": now()}
        )

    def verified_until(self, ends: Mapping[int, int]) -> dict[int, int] | None:
        """The end offsets of the last verified load that the table, which ends at ``ends``, still has; None
        without any."""
        for key in self._newest(verified_until_prefix(self.incarnation)):
            found = offsets_of((self.ledger.get(key) or {}).get("end_offsets", {}))
            if found and covers(ends, found):
                return found
        return None

    def record_verified(self, ends: Mapping[int, int], run_id: str) -> None:
        """A load that begins where the one before it ended was verified up to ``ends``."""
        document = {"run_id": run_id, "end_offsets": as_json(ends), "at": now()}
        self.ledger.put(verified_until_key(self.incarnation, sum(ends.values())), document)

    def bound(self, at: datetime, first_after: Callable[[], Mapping[int, int]]) -> dict[int, int]:
        """The first offsets whose records have the time ``at`` or a later one, as they were found first: two
        intervals that meet there share them, whatever came to the topic in between."""
        document = self.ledger.pin(
            time_key(self.incarnation, at),
            lambda: {"offsets": as_json(first_after()), "time": at.isoformat(), "at": now()},
        )
        return offsets_of(document["offsets"])

    def note_heads(self, heads: Document, ends: Mapping[int, int], at: datetime) -> None:
        """Record the tables' newest snapshots (``heads``: entries of a baseline) and what the table ended at
        after they were read: files of later records are newer."""
        document = {**heads, "ends": as_json(ends), "at": at.isoformat(timespec="seconds")}
        self.ledger.put(heads_key(self.incarnation, at), document)

    def heads_before(self, starts: Mapping[int, int]) -> Document:
        """The newest snapshots that no file with an offset at or after ``starts`` was written before, and
        ``at``, their time. Without any that is known: no snapshot."""
        for key in self._newest(heads_prefix(self.incarnation)):
            found = self.ledger.get(key)
            if found and covers(starts, offsets_of(found["ends"])):
                return {"main": found["main"], "at": found["at"]}
        return {"main": {}, "at": EPOCH}

    def _newest(self, prefix: str) -> list[str]:
        return list(islice(self.ledger.keys(prefix, limit=NEWEST), NEWEST))


def as_json(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def offsets_of(document: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in document.items()}
