"""Whether a stream's quarantine holds what its published batches rejected.

Two tables cannot change in one commit: a batch's rejected records are staged on a branch of the quarantine,
the batch is published, and then they are. Both tables say how many records the batches rejected, and which
batch was the newest that rejected any: the newest snapshot of the stream of its published batches, the newest
of the quarantine of those whose records it holds. A crash between the two commits, or a restore of one table
alone, makes them differ. The count alone would not do: after restores,
other batches may have rejected as many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice

from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.summary import BATCH_ID, KIND, MALFORMED, OFFSET_RANGES, REJECTED, REJECTED_BY, WRITER
from sluice.core.tables.without_record import record_count

# Column `stage` of the quarantine: what rejected the record. A producer's has no offset.
CONSUMER_STAGE, PRODUCER_STAGE = "consumer", "producer"
# Begins the reason of a record whose row is in the table already; it counts as no row.
DUPLICATE = "duplicate:"
# Begins the reason of a good record of a load with `withhold`: a change publishes it.
WITHHELD = "withheld:"
WITHHELD_REASON = f"{WITHHELD} action replace publishes it"
# Begins of the reasons of records that are rejected on purpose. All others are malformed.
ON_PURPOSE = (DUPLICATE, WITHHELD)


@dataclass(frozen=True)
class Rejections:
    """``count`` records, rejected by batches of which ``batch`` (``<writer>/<batch id>``) is the newest.

    ``malformed``: how many records batches rejected that were not meant to be; only grows, also if a change
    publishes some. It identifies nothing: of the newest batch only the quarantine says it.
    """

    count: int = 0
    batch: str = ""
    malformed: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"{self.count} rejected records (newest batch: {self.batch or 'none'})"

    def more(self, count: int, batch: str, malformed: int = 0) -> Rejections:
        """After ``batch``, which rejects ``count``."""
        return Rejections(self.count + count, batch, self.malformed + malformed) if count else self

    def properties(self) -> dict[str, str]:
        return {REJECTED: str(self.count), REJECTED_BY: self.batch, MALFORMED: str(self.malformed)}


NO_REJECTIONS = Rejections()


class Settlement(StrEnum):
    """What makes the quarantine hold the rejected records, and no others."""

    NOTHING = "nothing"
    PUBLISH_STAGED = "publish the staged records"
    REMOVE_LATER = "remove the records of batches that are not published (any more)"
    LOST = "a user must decide: records are missing"


def settlement(rejected: Rejections, line: Sequence[Rejections], *, is_staged: bool) -> Settlement:
    """Compare the stream with ``line``: what the quarantine held, newest first, as far as that is kept (to
    NO_REJECTIONS, if all is).

    ``is_staged``: the records of the stream's newest batch that rejected any are staged on top of that.
    """
    held, *before = line or [NO_REJECTIONS]
    if held == rejected:
        return Settlement.NOTHING
    if rejected in before:
        return Settlement.REMOVE_LATER
    # Also of fewer records: a change publishes some.
    if is_staged:
        return Settlement.PUBLISH_STAGED
    is_cut = NO_REJECTIONS not in line
    return Settlement.REMOVE_LATER if is_cut and held.count > rejected.count else Settlement.LOST


def rejected_by(summary: Mapping[str, str]) -> Rejections:
    """The rejections of a stream's batches up to the snapshot with this summary.

    A batch's own are not in its summary, which is written before them: they are its records less its rows.
    How many of these are malformed, its summary does not tell.
    """
    before = held_in([summary])
    # A table from before rejections were counted has none.
    if summary.get(KIND) != "batch" or REJECTED not in summary:
        return before
    own = record_count(summary) - int(summary.get("added-records", 0))
    return before.more(own, batch_of(summary))


def batch_of(summary: Mapping[str, str]) -> str:
    """The batch with this summary, as :class:`Rejections` names it."""
    return f"{summary.get(WRITER)}/{summary.get(BATCH_ID)}"


def malformed_out(summaries: Iterable[Mapping[str, str]], out: OffsetRanges, limit: int) -> dict[str, int]:
    """MALFORMED_OUT of a change that takes the malformed records at ``out`` out of the quarantine.

    ``summaries``: of the stream's snapshots before it, newest first; of these the newest ``limit`` batches.
    """
    batches = (one for one in summaries if one.get(KIND) == "batch")
    found = {
        batch_of(one): OffsetRanges.of_batch(one[OFFSET_RANGES]).intersect(out).count
        for one in islice(batches, limit)
    }
    return {batch: count for batch, count in found.items() if count}


def held_in(summaries: Iterable[Mapping[str, str]]) -> Rejections:
    """The rejections that a quarantine holds, from its snapshots' summaries, newest first."""
    # Those of the producer and of maintenance have no count.
    newest = next((summary for summary in summaries if REJECTED in summary), {})
    counts = int(newest.get(REJECTED, 0)), int(newest.get(MALFORMED, 0))
    return Rejections(counts[0], newest.get(REJECTED_BY, ""), counts[1])
