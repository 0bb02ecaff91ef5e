"""The lease is acquired again if maintenance moved main: not without end."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.common.lake.writer_lease import MAX_MOVES, ConcurrentCommit, run_with_lease


class StreamWriter:
    """Publishes something, or not, before ``main`` is moved: as told, lease by lease."""

    def __init__(self, *publishes: bool) -> None:
        self.publishes = list(publishes)
        self.acquired = 0
        self.has_published = False

    def consume(self) -> None:
        self.has_published = False
        self.acquired += 1
        if self.publishes:
            self.has_published = self.publishes.pop(0)
            raise ConcurrentCommit("raw.trips: main was moved")


def test_it_ends_well_where_nothing_moves() -> None:
    writer: Any = StreamWriter()
    run_with_lease(writer, writer.consume)
    assert writer.acquired == 1


def test_five_moves_in_a_row_are_gone_along_with() -> None:
    writer: Any = StreamWriter(*[False] * MAX_MOVES)
    run_with_lease(writer, writer.consume)
    assert writer.acquired == MAX_MOVES + 1 == 6


def test_one_more_ends_it() -> None:
    writer: Any = StreamWriter(*[False] * (MAX_MOVES + 1))
    with pytest.raises(ConcurrentCommit):
        run_with_lease(writer, writer.consume)
    assert writer.acquired == MAX_MOVES + 1


def test_what_is_published_in_between_resets_the_count() -> None:
    moves = [*[False] * MAX_MOVES, True, *[False] * (MAX_MOVES - 1)]
    writer: Any = StreamWriter(*moves)
    run_with_lease(writer, writer.consume)
    assert writer.acquired == len(moves) + 1


def test_other_failures_are_passed_on() -> None:
    calls = 0

    def consume() -> None:
        nonlocal calls
        calls += 1
        raise LookupError("no topic")

    writer: Any = StreamWriter()
    with pytest.raises(LookupError):
        run_with_lease(writer, consume)
    assert calls == 1
