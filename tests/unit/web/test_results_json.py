"""What a page carries of a query's results."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.clients.lake.results.table import Group, Results, Window
from sluice.web.query_json import results_view, top
from tests.support.pages import make_results, of_zipcodes, page

ANN = Group("Ann", False, 7)
BOT = Group("Bot", True, 9)
EDITORS, ZIPCODES = page(), of_zipcodes()


def results(*windows: Window, watermark: float | None = 1200.0) -> Results:
    return Results(1300.0, 1299.0, watermark, 5, 3, windows)


def view(of: Results, start: float | None = None, kind: bool | None = None) -> dict[str, Any]:
    return results_view(of, EDITORS, start, kind)


FIRST = Window(600.0, 1200.0, (ANN, BOT))
SECOND = Window(1200.0, 1800.0, (Group("Zoe", False, 1),))
BOTH = results(SECOND, FIRST)


def test_the_results_and_a_line_for_each_window() -> None:
    found = view(BOTH)
    assert {key: found[key] for key in ("at", "source_at", "watermark", "late", "early")} == {
        "at": 1300.0,
        "source_at": 1299.0,
        "watermark": 1200.0,
        "late": 5,
        "early": 3,
    }
    assert found["windows"] == [
        {"start": 1200.0, "end": 1800.0, "values": [1, 0]},
        {"start": 600.0, "end": 1200.0, "values": [7, 9]},
    ]


def test_the_newest_window_unless_another_is_asked_for() -> None:
    assert view(BOTH)["window"]["start"] == 1200.0
    assert view(BOTH, 600.0)["window"]["start"] == 600.0
    assert view(BOTH, 601.0)["window"] is None
    assert view(results())["window"] is None


@pytest.mark.parametrize(
    ("whose", "names", "value"), [("all", ["Bot", "Ann"], 16), ("people", ["Ann"], 7), ("bots", ["Bot"], 9)]
)
def test_groups_of_a_kind(whose: str, names: list[str], value: int) -> None:
    window = view(BOTH, 600.0, EDITORS.choices[whose])["window"]
    assert [row["name"] for row in window["top"]] == names
    assert (window["value"], window["groups"]) == (value, len(names))


def test_groups_without_kinds_have_one_value_per_window() -> None:
    groups = (Group("10115", False, 3), Group("10117", False, 4))
    found = results_view(results(Window(600.0, 1200.0, groups)), ZIPCODES, None, ZIPCODES.choices["all"])
    assert found["windows"] == [{"start": 600.0, "end": 1200.0, "values": [7]}]
    assert [row["name"] for row in found["window"]["top"]] == ["10117", "10115"]
    assert (found["window"]["value"], found["window"]["groups"]) == (7, 2)
    assert ZIPCODES.choices == {"all": None}


def test_the_ten_highest_by_name_where_they_are_equal() -> None:
    found = top(Group(f"{n:02}", False, 1 + (n == 30)) for n in range(40, -1, -1))
    assert [group.name for group in found] == ["30", *(f"{n:02}" for n in range(9))]


def test_a_window_is_open_until_the_watermark_reaches_its_end() -> None:
    def is_open(watermark: float | None) -> bool:
        return view(results(FIRST, watermark=watermark))["window"]["open"]

    assert is_open(None)
    assert is_open(1199.9)
    assert not is_open(1200.0)


def test_however_many_groups_a_page_is_small() -> None:
    def size(windows: int, users: int) -> int:
        return len(json.dumps(view(make_results(1e9, windows, users))))

    assert size(2, 5000) < 1.1 * size(2, 50)
    assert size(144, 50) < 16_000


def test_a_name_of_ten_thousand_letters_is_cut() -> None:
    long = Group("x" * 10_000, False, 1)
    (row,) = view(results(Window(0.0, 600.0, (long,))))["window"]["top"]
    assert row["name"] == "x" * 255 + "…"
