"""What a page carries of a report."""

from __future__ import annotations

import json

import pytest

from sluice.model.report import Editor, Report, Window
from sluice.ui.shown import Whose, shown
from tests.support.pages import make_report

ANN = Editor("Ann", False, 7, 0)
BOT = Editor("Bot", True, 9, 2)
LATE = Editor("Late", False, 0, 3)


def report(*windows: Window, watermark: float | None = 1200.0) -> Report:
    return Report(1300.0, 1299.0, 1298.0, watermark, 19, 5, 1.5, windows)


FIRST = Window(600.0, 1200.0, (ANN, BOT, LATE))
SECOND = Window(1200.0, 1800.0, (Editor("Zoe", False, 1, 0),))
BOTH = report(SECOND, FIRST)


def test_the_report_and_a_line_for_each_window() -> None:
    found = shown(BOTH, None, Whose.ALL)
    assert {key: found[key] for key in ("at", "newest", "watermark", "records", "late", "pace")} == {
        "at": 1300.0,
        "newest": 1298.0,
        "watermark": 1200.0,
        "records": 19,
        "late": 5,
        "pace": 1.5,
    }
    assert found["windows"] == [
        {"start": 1200.0, "end": 1800.0, "people": 1, "bots": 0, "late": 0},
        {"start": 600.0, "end": 1200.0, "people": 7, "bots": 9, "late": 5},
    ]


def test_the_newest_window_unless_another_is_asked_for() -> None:
    assert shown(BOTH, None, Whose.ALL)["window"]["start"] == 1200.0
    assert shown(BOTH, 600.0, Whose.ALL)["window"]["start"] == 600.0
    assert shown(BOTH, 601.0, Whose.ALL)["window"] is None
    assert shown(report(), None, Whose.ALL)["window"] is None


@pytest.mark.parametrize(
    ("whose", "names", "edits", "late"),
    [(Whose.ALL, ["Bot", "Ann"], 16, 5), (Whose.PEOPLE, ["Ann"], 7, 3), (Whose.BOTS, ["Bot"], 9, 2)],
)
def test_whose_edits(whose: Whose, names: list[str], edits: int, late: int) -> None:
    window = shown(BOTH, 600.0, whose)["window"]
    assert [row["user"] for row in window["top"]] == names
    # Who came too late only, did not edit as far as this window goes.
    assert (window["edits"], window["late"], window["editors"]) == (edits, late, len(names))


def test_a_window_is_open_until_the_watermark_reaches_its_end() -> None:
    def is_open(watermark: float | None) -> bool:
        return shown(report(FIRST, watermark=watermark), None, Whose.ALL)["window"]["open"]

    assert is_open(None)
    assert is_open(1199.9)
    assert not is_open(1200.0)


def test_however_many_edit_a_page_is_small() -> None:
    def size(windows: int, users: int) -> int:
        return len(json.dumps(shown(make_report(1e9, windows, users), None, Whose.ALL)))

    assert size(2, 5000) < 1.1 * size(2, 50)
    assert size(144, 50) < 16_000


def test_a_name_of_ten_thousand_letters_is_cut() -> None:
    long = Editor("x" * 10_000, False, 1, 0)
    (row,) = shown(report(Window(0.0, 600.0, (long,))), None, Whose.ALL)["window"]["top"]
    assert row["user"] == "x" * 255 + "…"
