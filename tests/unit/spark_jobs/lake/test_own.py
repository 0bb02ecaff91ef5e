"""Taking over again where maintenance moved main: not without end."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.common.lake.writer_lease import MOST_MOVES, ConcurrentCommit, own


class StreamWriter:
    """Publishes something, or not, before ``main`` is moved: as told, ownership by ownership."""

    def __init__(self, *publishes: bool) -> None:
        self.publishes = list(publishes)
        self.taken_over = 0
        self.has_published = False

    def acquire(self) -> dict[int, int]:
        self.has_published = False
        self.taken_over += 1
        return {0: self.taken_over}

    def consume(self, positions: dict[int, int]) -> None:
        assert positions == {0: self.taken_over}
        if self.publishes:
            self.has_published = self.publishes.pop(0)
            raise ConcurrentCommit("raw.trips: main was moved")


def test_it_ends_well_where_nothing_moves() -> None:
    owner: Any = StreamWriter()
    own(owner, owner.consume)
    assert owner.taken_over == 1


def test_five_moves_in_a_row_are_gone_along_with() -> None:
    owner: Any = StreamWriter(*[False] * MOST_MOVES)
    own(owner, owner.consume)
    assert owner.taken_over == MOST_MOVES + 1 == 6


def test_one_more_ends_it() -> None:
    owner: Any = StreamWriter(*[False] * (MOST_MOVES + 1))
    with pytest.raises(ConcurrentCommit):
        own(owner, owner.consume)
    assert owner.taken_over == MOST_MOVES + 1


def test_what_is_published_in_between_begins_the_count_anew() -> None:
    moves = [*[False] * MOST_MOVES, True, *[False] * (MOST_MOVES - 1)]
    owner: Any = StreamWriter(*moves)
    own(owner, owner.consume)
    assert owner.taken_over == len(moves) + 1


def test_other_failures_are_passed_on() -> None:
    def consume(positions: dict[int, int]) -> None:
        raise LookupError("no topic")

    owner: Any = StreamWriter()
    with pytest.raises(LookupError):
        own(owner, consume)
    assert owner.taken_over == 1
