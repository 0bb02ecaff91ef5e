"""A stream's report: who did how much in which window, and how far it is. Values only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nsmallest

WHOSE = ("all", "people", "bots")
# Over how long a stream's pace is taken.
PACE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Editor:
    """One user in one window. ``late``: what came after the window was closed, and is not in ``edits``.

    ``user`` is what the source says, hostile or not; empty where the source hides it.
    """

    user: str
    bot: bool
    edits: int
    late: int


@dataclass(frozen=True)
class Window:
    """[start, end), in seconds since 1970, UTC. ``editors``: everyone, in no order."""

    start: float
    end: float
    editors: tuple[Editor, ...]


@dataclass(frozen=True)
class Report:
    """A report as it was published ``at``; moments in seconds since 1970, None before there is one.

    ``source_at``: when what it counts was published in the stream's table; ``newest``: the newest event of
    that; ``watermark``: a window that ended until then is closed. ``records`` are in the stream's table,
    ``late`` are those that came too late, both since its beginning. ``pace``: records per second that came
    into the table over the last PACE_SECONDS, None where that is not known. ``windows``: the newest first.
    """

    at: float | None
    source_at: float | None
    newest: float | None
    watermark: float | None
    records: int
    late: int
    pace: float | None
    windows: tuple[Window, ...]


@dataclass(frozen=True)
class Progress:
    """One step of the report: so many records were in the stream's table at ``source_at`` (seconds)."""

    source_at: float
    records: int


def top(window: Window, count: int = 10, whose: str = "all") -> list[Editor]:
    """The ``count`` users with the most edits, the first first, and by name where they are equal; those
    without any are left out. ``whose``: one of WHOSE. Raises ValueError for another."""
    if whose not in WHOSE:
        raise ValueError(f"whose is {whose!r}: one of {', '.join(WHOSE)}")
    chosen = (
        editor
        for editor in window.editors
        if editor.edits and (whose == "all" or editor.bot == (whose == "bots"))
    )
    return nsmallest(count, chosen, key=lambda editor: (-editor.edits, editor.user, editor.bot))


def pace(progress: Iterable[Progress], now: float) -> float | None:
    """Records per second over the last PACE_SECONDS before the newest step; 0 where that is longer ago.

    ``progress``: the newest first, as far as it is kept; it is read to where the number of records grew
    backwards, as after rows were taken away. None where there are no two moments to compare.
    """
    steps = iter(progress)
    newest = next(steps, None)
    if newest is None:
        return None
    if now - newest.source_at > PACE_SECONDS:
        return 0.0
    first = newest
    for step in steps:
        if step.records > first.records or newest.source_at - step.source_at > PACE_SECONDS:
            break
        first = step
    seconds = newest.source_at - first.source_at
    return (newest.records - first.records) / seconds if seconds > 0 else None
