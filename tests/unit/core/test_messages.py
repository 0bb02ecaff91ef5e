"""How tables of a log, and ages, read."""

from __future__ import annotations

import pytest

from sluice.core.messages import age, aligned


def test_columns_align_and_numbers_stand_right() -> None:
    assert (
        aligned(["a", "n"], [["x", 1000], ["long", 2]])
        == "\na         n\n----  -----\nx     1,000\nlong      2"
    )


def test_an_empty_table_has_its_head() -> None:
    assert aligned(["a", "b"], []) == "\na  b\n-  -"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (-3, "0 s"),
        (0.4, "0 s"),
        (59.6, "1 min"),
        (185, "3 min 5 s"),
        (7800, "2 h 10 min"),
        (273_600, "3 d 4 h"),
        (86_400, "1 d"),
    ],
)
def test_ages(seconds: float | None, text: str) -> None:
    assert age(seconds) == text
