"""Who is on top of a window, and the pace."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from sluice.model.report import PACE_SECONDS, Editor, Progress, Window, pace, top
from tests.support.raising import raising


def window(*editors: Editor) -> Window:
    return Window(0.0, 600.0, editors)


ANN, BOB, CID = Editor("Ann", False, 3, 0), Editor("Bob", True, 5, 1), Editor("Cid", False, 3, 0)
LATE = Editor("Dan", False, 0, 9)


def test_the_busiest_first_and_by_name_where_they_are_equal() -> None:
    assert top(window(CID, LATE, ANN, BOB)) == [BOB, ANN, CID]
    assert top(window(CID, ANN, BOB), 2) == [BOB, ANN]
    assert top(window()) == []


def test_people_and_bots_apart() -> None:
    both = Editor("Bob", False, 1, 0)
    assert top(window(ANN, BOB, both), whose="people") == [ANN, both]
    assert top(window(ANN, BOB, both), whose="bots") == [BOB]
    assert top(window(ANN, BOB, both), whose="all") == [BOB, ANN, both]


def test_somebody_else_is_refused() -> None:
    with raising(ValueError, "'cats'", "all, people, bots"):
        top(window(ANN), whose="cats")


editors = st.lists(
    st.builds(Editor, st.text(max_size=3), st.booleans(), st.integers(0, 5), st.integers(0, 2)),
    unique_by=lambda editor: (editor.user, editor.bot),
)


@given(editors, st.integers(0, 12), st.randoms())
def test_the_order_in_the_table_does_not_matter(
    made: list[Editor], count: int, chance: random.Random
) -> None:
    shuffled = list(made)
    chance.shuffle(shuffled)
    assert top(window(*made), count) == top(window(*shuffled), count)
    assert top(window(*made), count) == top(window(*made), len(made))[:count]


def test_the_pace_of_the_last_five_minutes() -> None:
    steps = [Progress(1000.0, 900), Progress(980.0, 700), Progress(700.0, 100), Progress(699.0, 0)]
    assert pace(steps, 1005.0) == (900 - 100) / 300
    assert pace(steps[:2], 1005.0) == 10.0


def test_there_is_no_pace_without_two_moments() -> None:
    assert pace([], 0.0) is None
    assert pace([Progress(1000.0, 5)], 1001.0) is None
    # A take-over says the same again.
    assert pace([Progress(1000.0, 5), Progress(1000.0, 5)], 1001.0) is None
    assert pace([Progress(1000.0, 5), Progress(600.0, 1)], 1001.0) is None


def test_where_nothing_came_for_five_minutes_it_is_zero() -> None:
    steps = [Progress(1000.0, 900), Progress(980.0, 700)]
    assert pace(steps, 1000.0 + PACE_SECONDS) == 10.0
    assert pace(steps, 1000.1 + PACE_SECONDS) == 0.0


def test_rows_that_were_taken_away_are_no_backward_pace() -> None:
    steps = [Progress(1000.0, 50), Progress(990.0, 40), Progress(980.0, 700)]
    assert pace(steps, 1000.0) == 1.0
