"""When events happen: at a pace that may change from some event on. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Turn:
    """From event `n` on, which happens at `at` (seconds since 1970), there are `pace` a second."""

    n: int
    at: float
    pace: float


def when(turns: Sequence[Turn], n: int) -> float:
    """The time of event n. Before the first turn its pace counts backwards."""
    turn = turns[0]
    if len(turns) > 1:
        turn = turns[max(0, bisect_right(turns, n, key=lambda turn: turn.n) - 1)]
    return turn.at + (n - turn.n) / turn.pace


def reached(turns: Sequence[Turn], now: float) -> int:
    """The first event that has not happened by `now`."""
    turn = turns[max(0, bisect_right(turns, now, key=lambda turn: turn.at) - 1)]
    return turn.n + max(0, int((now - turn.at) * turn.pace))


def burst(turns: Sequence[Turn], n: int, events: int, pace: float) -> tuple[Turn, ...]:
    """From event n on so many at another pace, then as it was at first. What was planned beyond n is off."""
    at = when(turns, n)
    past = [turn for turn in turns if turn.n < n] or [replace(turns[0], n=n, at=at)]
    return (*past, Turn(n, at, pace), Turn(n + events, at + events / pace, turns[0].pace))
