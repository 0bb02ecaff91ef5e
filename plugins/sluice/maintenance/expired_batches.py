"""Which documents of batches may go: no proof, reconciliation, writer or restored catalog needs them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sluice.core.tables.batches import Batch
from sluice.core.tables.continuity import covers
from sluice.core.tables.file_removal import path_of
from sluice.ledger.batch_log import Line, Span

# Why a document stays.
NEWEST, UNKNOWN_KEY, UNREADABLE = "the newest before the horizon", "another key", "not readable"
YOUNG, RESTORABLE = "younger than the horizon", "a state that may be restored has a snapshot of it"
UNVERIFIED = "not verified by a reconciliation"
ELSEWHERE = "its offsets without a record are not beside the table"
LOST = "lost to a restored catalog, and no removed batch of the table has all its offsets"


@dataclass(frozen=True)
class Limits:
    """What batches must be to go."""

    before: datetime
    """They were published earlier, by their writer's clock: before the horizon, and before the newest state
    that a reconciliation verified."""
    written_before: datetime
    """Their document was written earlier, by S3's clock."""
    ends: Mapping[int, int]
    """The end offsets of the newest state that a reconciliation verified."""
    restorable: Collection[int]
    """Snapshots that a state has to which the catalog may be restored."""
    line: Line
    """Which batches ``main`` has."""
    folder: str
    """``bucket/prefix/`` of documents of offsets without a record."""

    def is_behind(self, span: Span) -> bool:
        """Whether a document with these batches is before the horizon, and ``main`` has them."""
        return span.newest <= self.before and self.line.has(span.newest, span.writer)


def why_kept(written: datetime, batches: Sequence[Batch] | None, limits: Limits) -> str:
    """Why a document stays; empty if it may go. ``written``: by S3's clock; ``batches``: None of one that is
    not as a writer writes it."""
    if not batches:
        return UNREADABLE
    if written >= limits.written_before or any(one.published > limits.before for one in batches):
        return YOUNG
    if any(one.snapshot_id in limits.restorable for one in batches):
        return RESTORABLE
    # Lost ones are not in the table: what came for their offsets is verified.
    of_main = [one for one in batches if one in limits.line]
    if any(not covers(limits.ends, one.ends) for one in of_main):
        return UNVERIFIED
    addresses = [one.without_record.address for one in batches if one.without_record.address]
    if any(not path_of(one).startswith(limits.folder) for one in addresses):
        return ELSEWHERE
    return ""
