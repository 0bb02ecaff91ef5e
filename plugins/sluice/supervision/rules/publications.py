"""What a stream published since it was announced last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sluice.core.json_record import JsonRecord
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.position import Position


@dataclass(frozen=True)
class Announced(JsonRecord):
    """Up to which offsets publications are announced. ``at``: when (seconds since 1970), 0 before the first
    time; ``topic_id``: None if the table's snapshots do not say it."""

    ends: dict[int, int]
    topic_id: str | None
    at: float = 0.0

    @classmethod
    def of(cls, position: Position, at: float = 0.0) -> Announced:
        return cls(dict(position.ends), position.topic_id, at)


@dataclass(frozen=True)
class Publication:
    """``new``: the offsets since :class:`Announced`, empty if there are none. ``restored``: why the stream
    stands before what was announced; then nothing is new, and what comes next is announced from there."""

    new: OffsetRanges
    restored: str = ""


def since(announced: Announced, position: Position) -> Publication:
    """A topic that was recreated counts from its first published offset."""
    ids = {announced.topic_id, position.topic_id} - {None}
    if len(ids) == 2:
        return Publication(OffsetRanges.from_ends(position.starts, position.ends))
    back = {
        partition: (end, position.ends.get(partition, 0))
        for partition, end in announced.ends.items()
        if position.ends.get(partition, 0) < end
    }
    if back:
        return Publication(OffsetRanges(), _restored(back))
    # A partition that was added meanwhile counts from its first published offset.
    begins = {
        partition: announced.ends.get(partition, position.starts.get(partition, 0))
        for partition in position.ends
    }
    return Publication(OffsetRanges.from_ends(begins, position.ends))


def _restored(back: Mapping[int, tuple[int, int]]) -> str:
    partition, (before, now) = min(back.items())
    return (
        f"partition {partition} is published up to {now}, and was announced up to {before}"
        f"{f', as are {len(back) - 1} others' if len(back) > 1 else ''}: the catalog was restored, or the "
        "table rebuilt"
    )
