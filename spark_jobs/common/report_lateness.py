"""Which of the events that a report counts come too late. Pure; all moments in ms since 1970.

An event is judged against what was published before its batch, and never by the clock. So the same events in
the same batches give the same report, whether they are counted one batch at a time or all at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate


@dataclass(frozen=True)
class Found:
    """What one batch holds of one window: its rows' ``newest`` event, when the newest of them ``arrived`` on
    the topic (None: unknown), and how many of them are ``counted``.

    A batch of None is of rows that no kept batch claims.
    """

    batch: int | None
    window_start: int
    window_end: int
    newest: int
    arrived: int | None
    counted: int


@dataclass(frozen=True)
class Judged:
    """``late``: the (batch, window start) whose rows are late, and how many counted rows that are;
    ``windows``: the starts of those in which something is counted; ``newest``: the newest event so far."""

    late: frozenset[tuple[int, int]]
    late_rows: int
    windows: frozenset[int]
    newest: int | None


def judge(found: Collection[Found], batches: int, before: int | None, minutes: int) -> Judged:
    """``batches``: how many there are, numbered from 0 on, the oldest first; ``before``: the newest event of
    those counted earlier; ``minutes``: of the watermark.

    Rows of no batch are those whose snapshots have expired: they came before all others, and are never late.
    """
    pieces: dict[int | None, list[Found]] = {}
    for piece in found:
        pieces.setdefault(piece.batch, []).append(piece)
    start = later(before, _newest(pieces.get(None, [])))
    newest = [_newest(pieces.get(number, [])) for number in range(batches)]
    marks = watermarks(start, newest, minutes)
    late = [
        (piece.batch, piece)
        for piece in found
        if piece.counted and piece.batch is not None and is_closed(piece.window_end, marks[piece.batch])
    ]
    return Judged(
        late=frozenset((batch, piece.window_start) for batch, piece in late),
        late_rows=sum(piece.counted for _, piece in late),
        windows=frozenset(piece.window_start for piece in found if piece.counted),
        newest=reduce(later, newest, start),
    )


def _newest(pieces: Collection[Found]) -> int | None:
    event = reduce(later, (piece.newest for piece in pieces), None)
    return newest_of(event, reduce(later, (piece.arrived for piece in pieces), None))


def newest_of(event: int | None, arrival: int | None) -> int | None:
    """How far a batch moves time: its newest event, but no further than its newest arrival on the topic.

    An event that says it is of tomorrow must not make all of today late. None: there is none.
    """
    return event if event is None or arrival is None else min(event, arrival)


def watermarks(before: int | None, newest: Sequence[int | None], minutes: int) -> list[int | None]:
    """Of each batch, the oldest first: ``minutes`` before the newest event of all batches before it; None
    where there is none. ``before``: the newest event of what was counted earlier; ``newest``: of each batch.
    """
    reached = list(accumulate([before, *newest], later))[: len(newest)]
    return [None if moment is None else moment - minutes * 60_000 for moment in reached]


def is_closed(window_end: int, watermark: int | None) -> bool:
    """Whether what comes for a window that ends at ``window_end`` is late: from its end on."""
    return watermark is not None and window_end <= watermark


def later(one: int | None, other: int | None) -> int | None:
    """The later of two moments, either of which may be none."""
    return max((moment for moment in (one, other) if moment is not None), default=None)
