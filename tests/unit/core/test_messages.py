"""How tables of a log read."""

from __future__ import annotations

from sluice.core.messages import aligned


def test_columns_align_and_numbers_stand_right() -> None:
    assert (
        aligned(["a", "n"], [["x", 1000], ["long", 2]])
        == "\na         n\n----  -----\nx     1,000\nlong      2"
    )


def test_an_empty_table_has_its_head() -> None:
    assert aligned(["a", "b"], []) == "\na  b\n-  -"
