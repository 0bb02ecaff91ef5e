"""What came onto a topic against what became of it: each event published once, or in quarantine."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

NAMED = 5


def spans(moments: Sequence[int], most: int) -> list[tuple[int, int]]:
    """At most ``most`` half-open ranges that hold all ``moments``, which are sorted: parted where they are
    farthest from each other. Of moments that follow each other by 1, one."""
    gaps = sorted(((after - before, before) for before, after in pairwise(moments)), reverse=True)
    ends = sorted(before for gap, before in gaps[: most - 1] if gap > 1)
    begins = [moments[0], *(_next_after(moments, end) for end in ends)] if moments else []
    return [(begin, end + 1) for begin, end in zip(begins, [*ends, *moments[-1:]], strict=True)]


def _next_after(moments: Sequence[int], moment: int) -> int:
    """The first of the sorted ``moments`` that is later. Raises IndexError where none is."""
    return moments[bisect_right(moments, moment)]


@dataclass(frozen=True)
class EventProof:
    """The events of one load. ``source_rows``: the offsets that it means; ``published``: rows of the table
    with one of these offsets, ``nameless`` of them without an event id; ``quarantined``: offsets there.

    ``twice``: event id -> how many rows of the whole table have it, where that is more than one.
    """

    source_rows: int
    published: int
    quarantined: int
    nameless: int = 0
    twice: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_exact(self) -> bool:
        return not (self.lacking or self.surplus or self.nameless or self.twice)

    @property
    def lacking(self) -> int:
        """How many offsets are neither published nor in quarantine."""
        return max(self.source_rows - self.published - self.quarantined, 0)

    @property
    def surplus(self) -> int:
        """How many rows there are beyond the offsets."""
        return max(self.published + self.quarantined - self.source_rows, 0)

    @property
    def repeated(self) -> int:
        """How many event ids are in the table more than once."""
        return len(self.twice)

    def sentence(self) -> str:
        """One line for a task state."""
        if self.is_exact:
            kept = f"{self.published} published + {self.quarantined} quarantined"
            return f"exact: {self.source_rows} events = {kept}, each event id once"
        shown = ", ".join(f"{name} {count} times" for name, count in sorted(self.twice.items())[:NAMED])
        parts = [
            text
            for number, text in (
                (self.lacking, f"{self.lacking} missing"),
                (self.surplus, f"{self.surplus} rows more than offsets"),
                (self.nameless, f"{self.nameless} rows without an event id"),
                (self.repeated, f"{self.repeated} event ids more than once ({shown})"),
            )
            if number
        ]
        return f"not exact: {', '.join(parts)} of {self.source_rows} events"
