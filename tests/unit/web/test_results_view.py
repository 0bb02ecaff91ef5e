"""What a page carries of a query's results."""

from __future__ import annotations

import json

import pytest

from sluice.clients.lake.results.table import Editor, Results, Window
from sluice.web.views import EditorFilter, results_view, top
from tests.support.pages import make_results

ANN = Editor("Ann", False, 7)
BOT = Editor("Bot", True, 9)


def results(*windows: Window, watermark: float | None = 1200.0) -> Results:
    return Results(1300.0, 1299.0, watermark, 5, 3, windows)


FIRST = Window(600.0, 1200.0, (ANN, BOT))
SECOND = Window(1200.0, 1800.0, (Editor("Zoe", False, 1),))
BOTH = results(SECOND, FIRST)


def test_the_results_and_a_line_for_each_window() -> None:
    found = results_view(BOTH, None, EditorFilter.ALL)
    assert {key: found[key] for key in ("at", "source_at", "watermark", "late", "early")} == {
        "at": 1300.0,
        "source_at": 1299.0,
        "watermark": 1200.0,
        "late": 5,
        "early": 3,
    }
    assert found["windows"] == [
        {"start": 1200.0, "end": 1800.0, "people": 1, "bots": 0},
        {"start": 600.0, "end": 1200.0, "people": 7, "bots": 9},
    ]


def test_the_newest_window_unless_another_is_asked_for() -> None:
    assert results_view(BOTH, None, EditorFilter.ALL)["window"]["start"] == 1200.0
    assert results_view(BOTH, 600.0, EditorFilter.ALL)["window"]["start"] == 600.0
    assert results_view(BOTH, 601.0, EditorFilter.ALL)["window"] is None
    assert results_view(results(), None, EditorFilter.ALL)["window"] is None


@pytest.mark.parametrize(
    ("whose", "names", "edits"),
    [
        (EditorFilter.ALL, ["Bot", "Ann"], 16),
        (EditorFilter.PEOPLE, ["Ann"], 7),
        (EditorFilter.BOTS, ["Bot"], 9),
    ],
)
def test_whose_edits(whose: EditorFilter, names: list[str], edits: int) -> None:
    window = results_view(BOTH, 600.0, whose)["window"]
    assert [row["user"] for row in window["top"]] == names
    assert (window["edits"], window["editors"]) == (edits, len(names))


def test_the_ten_busiest_by_name_where_they_are_equal() -> None:
    editors = tuple(Editor(f"{n:02}", False, 1 + (n == 30)) for n in range(40, -1, -1))
    found = top(Window(0.0, 600.0, editors))
    assert [editor.user for editor in found] == ["30", *(f"{n:02}" for n in range(9))]


def test_a_window_is_open_until_the_watermark_reaches_its_end() -> None:
    def is_open(watermark: float | None) -> bool:
        return results_view(results(FIRST, watermark=watermark), None, EditorFilter.ALL)["window"]["open"]

    assert is_open(None)
    assert is_open(1199.9)
    assert not is_open(1200.0)


def test_however_many_edit_a_page_is_small() -> None:
    def size(windows: int, users: int) -> int:
        return len(json.dumps(results_view(make_results(1e9, windows, users), None, EditorFilter.ALL)))

    assert size(2, 5000) < 1.1 * size(2, 50)
    assert size(144, 50) < 16_000


def test_a_name_of_ten_thousand_letters_is_cut() -> None:
    long = Editor("x" * 10_000, False, 1)
    (row,) = results_view(results(Window(0.0, 600.0, (long,))), None, EditorFilter.ALL)["window"]["top"]
    assert row["user"] == "x" * 255 + "…"
