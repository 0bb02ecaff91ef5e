"""The share of malformed records among those that a stream's batches published.

Records that are rejected on purpose, duplicates and withheld ones, count neither as malformed nor at all.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sluice.core.offsets.quarantine import batch_of, held_in, rejected_by
from sluice.core.tables.summary import KIND, MALFORMED, MALFORMED_OUT, StreamPart
from sluice.core.tables.without_record import record_count

# So many of a stream's newest count.
BATCHES = 20
# Fewer raise no alert: one malformed record among ten is a record to look at, and no stream that rejects.
MIN_MALFORMED = 5


@dataclass(frozen=True)
class Share:
    """``malformed`` of ``records`` records."""

    malformed: int
    records: int

    @classmethod
    def beside(cls, rows: int, malformed: int) -> Share:
        """Return the share of ``malformed`` records beside ``rows`` good ones; a negative number, of a
        counter that went back, counts as none."""
        malformed = max(malformed, 0)
        return cls(malformed, max(rows, 0) + malformed)

    @property
    def percent(self) -> float:
        return 100 * self.malformed / self.records if self.records else 0.0

    def capped(self, malformed: int) -> Share:
        """With no more malformed ones than these."""
        return replace(self, malformed=min(self.malformed, malformed))

    def exceeds(self, percent: int) -> bool:
        """Never 100."""
        return self.malformed >= MIN_MALFORMED and self.percent > percent

    def __str__(self) -> str:
        return f"{self.malformed} of the last {self.records} records ({self.percent:.1f} %)"


@dataclass(frozen=True)
class Counters:
    """What a stream had published at ``at`` (seconds since 1970): rows of its table, malformed records."""

    at: float
    rows: int
    malformed: int

    def since(self, before: Counters) -> Share:
        return Share.beside(self.rows - before.rows, self.malformed - before.malformed)


Said = Sequence[tuple[float, Mapping[str, str]]]


def counters_of(snapshots: Said, malformed: int) -> tuple[Counters, ...]:
    """Before and after each batch among ``snapshots``, oldest first. Malformed records that a change among
    them took out of the quarantine count as if their batch had not had them.

    ``snapshots``: time and summary, newest first. ``malformed``: after the newest; after an earlier batch the
    next one's summary says it.
    """
    found, taken = list[Counters](), Counter[str]()
    for at, summary in snapshots:
        taken.update(json.loads(summary.get(MALFORMED_OUT, "{}")))
        if summary.get(KIND) != "batch":
            continue
        rejected, before = rejected_by(summary), int(summary.get(MALFORMED, 0))
        after = found[-1] if found else Counters(at, _records(summary) - rejected.count, malformed)
        rejected_own = rejected.count - held_in([summary]).count
        rows = record_count(summary) - rejected_own
        own = max(malformed - before - taken[batch_of(summary)], 0)
        # Its time belongs to what was after it, too.
        found[-1:] = [replace(after, at=at), Counters(at, after.rows - rows, after.malformed - own)]
        malformed = before
    return tuple(reversed(found))


def has_rejected(snapshots: Said) -> bool:
    """Whether a batch among these rejected any record."""
    return any(rejected_by(summary) != held_in([summary]) for _, summary in snapshots)


def _records(summary: Mapping[str, str]) -> int:
    part = StreamPart.of(summary)
    return sum(end - part.starts.get(partition, 0) for partition, end in part.ends.items())
