"""The share of malformed records among those that a stream's batches published.

Records that are rejected on purpose, duplicates and withheld ones, count neither as malformed nor at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sluice.model.verification.quarantine import MALFORMED, held_in, rejected_by
from sluice.model.verification.ranges import OffsetRanges, offsets_from_json

# Fewer are no alarm: one malformed record among ten is a record to look at, and no stream that rejects.
MIN_MALFORMED = 5


@dataclass(frozen=True)
class Share:
    """``malformed`` of ``records`` records."""

    malformed: int
    records: int

    @property
    def percent(self) -> float:
        return 100 * self.malformed / self.records if self.records else 0.0

    def exceeds(self, percent: int) -> bool:
        """Never 100."""
        return self.malformed >= MIN_MALFORMED and self.percent > percent

    def __str__(self) -> str:
        return f"{self.malformed} of the last {self.records} records ({self.percent:.1f} %)"


@dataclass(frozen=True)
class Counters:
    """What a stream had published at ``at`` (seconds since 1970): rows into its table, and malformed records.

    Between two of them without a change; a change takes rows from the quarantine.
    """

    at: float
    rows: int
    malformed: int

    def since(self, before: Counters) -> Share:
        malformed = max(self.malformed - before.malformed, 0)
        return Share(malformed, max(self.rows - before.rows, 0) + malformed)


def counters_of(batches: Sequence[tuple[float, Mapping[str, str]]], malformed: int) -> tuple[Counters, ...]:
    """Before and after each of ``batches``, oldest first.

    ``batches``: time and summary, newest first, without a change between them. ``malformed``: after the
    newest; after another one, and before the oldest, the next one's summary says it.
    """
    found = list[Counters]()
    for at, summary in batches:
        found.append(Counters(at, _records(summary) - rejected_by(summary).count, malformed))
        malformed = int(summary.get(MALFORMED, 0))
    if batches:
        at, summary = batches[-1]
        read = _records(summary) - OffsetRanges.of_batch(summary["sluice.offset-ranges"]).count
        found.append(Counters(at, read - held_in([summary]).count, malformed))
    return tuple(reversed(found))


def has_rejected(batches: Sequence[tuple[float, Mapping[str, str]]]) -> bool:
    """Whether one of these rejected any record."""
    return any(rejected_by(summary) != held_in([summary]) for _, summary in batches)


def _records(summary: Mapping[str, str]) -> int:
    starts = offsets_from_json(summary["sluice.start-offsets"])
    ends = offsets_from_json(summary["sluice.end-offsets"])
    return sum(end - starts.get(partition, 0) for partition, end in ends.items())
