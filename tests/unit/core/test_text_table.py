"""How tables of a log read."""

from __future__ import annotations

from sluice.core.text_table import text_table


def test_columns_align_and_numbers_stand_right() -> None:
    assert (
        text_table(["a", "n"], [["x", 1000], ["long", 2]])
        == "\na         n\n----  -----\nx     1,000\nlong      2"
    )


def test_an_empty_table_has_its_head() -> None:
    assert text_table(["a", "b"], []) == "\na  b\n-  -"
