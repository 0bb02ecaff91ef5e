"""Keys and documents of the batch log, in the table's folder: ``<location>/batches/``.

::

    published/<countdown of the oldest>-<countdown of the newest>-<time of the oldest>-<writer>.json
    restored/<countdown>-<writer>.json

A published document has ten batches or more of one writer, oldest first. While one writer publishes, no other
does, so documents of two writers do not overlap in time, and two of one writer overlap only if one begins
with the other: where a crash, or a restored catalog, made a successor record batches again. So in the order
of the keys both the oldest and the newest batch of each document fall.

A restored document says that ``main`` was set back: batches that were published before and reach beyond its
end offsets are lost, and their records were read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sluice.model.spec.ledger import countdown, counted_down, moment
from sluice.model.trace.batches import Batch, time_of
from sluice.model.verification.ranges import OffsetRanges

FOLDER = "batches"
PUBLISHED, RESTORED = "published/", "restored/"
_KEY = re.compile(rf"{PUBLISHED}(\d{{17}})-(\d{{17}})-[^/]+\.json$")


@dataclass(frozen=True)
class Span:
    """Times of the oldest and of the newest batch of a published document."""

    oldest: datetime
    newest: datetime


@dataclass(frozen=True)
class Restore:
    """A writer found that ``main`` had been set back to ``ends`` (partition -> end offset). ``at``: ms."""

    at: int
    ends: Mapping[int, int]

    def to_json(self) -> dict[str, Any]:
        return {"at": self.at, "end_offsets": {str(p): end for p, end in sorted(self.ends.items())}}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Restore:
        return cls(document["at"], {int(p): end for p, end in document["end_offsets"].items()})


def published_key(batches: Sequence[Batch]) -> str:
    """The key of a document of these batches of one writer, oldest first."""
    oldest, newest = batches[0], batches[-1]
    begin = oldest.published
    return f"{PUBLISHED}{countdown(begin)}-{countdown(newest.published)}-{moment(begin)}-{oldest.writer}.json"


def published_until(at: datetime) -> str:
    """The keys behind it are those of documents that begin at this time or earlier."""
    return f"{PUBLISHED}{countdown(at)}"


def span_of(key: str) -> Span | None:
    """The times of a published document by its key; None for another key."""
    found = _KEY.search(key)
    return Span(counted_down(found[1]), counted_down(found[2])) if found else None


def document_of(batches: Iterable[Batch]) -> dict[str, Any]:
    return {"batches": [batch.to_json() for batch in batches]}


def batches_in(document: Mapping[str, Any]) -> list[Batch]:
    """Oldest first."""
    return [Batch.from_json(batch) for batch in document["batches"]]


def restored_key(restore: Restore, writer: str) -> str:
    return f"{RESTORED}{countdown(time_of(restore.at))}-{writer}.json"


def restore_found(
    recorded: Sequence[Batch], ends: Mapping[int, int], known: Iterable[Restore], now: int
) -> Restore | None:
    """The restore that a writer finds when it acquires the lease at ``now`` (ms); None if there was none, or
    none but ``known`` ones.

    ``recorded``: the newest recorded batches; ``ends``: of ``main``.
    """
    lost = [batch for batch in recorded if is_beyond(batch, ends) and not is_lost(batch, None, known)]
    # Later than what it makes lost, also if this machine's clock is behind the earlier writer's.
    return Restore(max(now, *(batch.published_at + 1 for batch in lost)), dict(ends)) if lost else None


def is_lost(batch: Batch, ends: Mapping[int, int] | None, restores: Iterable[Restore]) -> bool:
    """Whether ``main``, which is at ``ends`` (None: unknown), lost a recorded batch."""
    return (ends is not None and is_beyond(batch, ends)) or any(
        batch.published_at < restore.at and is_beyond(batch, restore.ends) for restore in restores
    )


def is_beyond(batch: Batch, ends: Mapping[int, int]) -> bool:
    return not OffsetRanges.from_ends({}, ends).covers(batch.ranges)
