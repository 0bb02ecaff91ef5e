"""What a page says of the catalog."""

from __future__ import annotations

import pytest

from sluice.catalog_check.promises import RACES, STEPS, VERSION
from sluice.catalog_check.status import Kept, status

AT = 1_795_802_400.0
ALL = len(STEPS) + len(RACES)


@pytest.mark.parametrize(
    ("kind", "found", "words", "is_broken"),
    [
        ("sql", None, "sql: Iceberg compares a table's whole metadata", False),
        ("rest", None, "rest: not tried yet (version", False),
        ("rest", Kept(VERSION, AT), f"rest: keeps all {ALL} promises, tried 2026-11-27T18:00:00", False),
        ("rest", Kept(VERSION, AT, "untouched-ref"), "rest: breaks promise untouched-ref, tried 2026", True),
        (
            "rest",
            Kept(VERSION, AT, "untouched-ref"),
            "no consumer starts on it; stop those that run since before; each that starts tries it again",
            True,
        ),
        ("rest", Kept(VERSION, AT, "commit-meanwhile"), "only sluice catalog-check tries it again", True),
    ],
)
def test_it_is_one_sentence(kind: str, found: Kept | None, words: str, is_broken: bool) -> None:
    made = status(kind, found)
    assert words in made.text
    assert made.is_broken is is_broken
