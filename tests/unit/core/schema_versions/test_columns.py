"""When a table's columns came, and with which schemas."""

from __future__ import annotations

import pytest

from sluice.core.schema_versions import columns
from sluice.core.schema_versions.columns import Came, came_with, with_fields


def test_each_field_has_the_commit_that_added_it() -> None:
    text = with_fields("", range(10, 12), Came(1_000, (7, 8)))
    text = with_fields(text, range(15, 16), Came(2_000))
    assert came_with(text, [9, 10, 11, 12, 15]) == {
        10: Came(1_000, (7, 8)), 11: Came(1_000, (7, 8)), 15: Came(2_000)
    }  # fmt: skip
    # Those of the declared schema have none.
    assert came_with(None, [1]) == {}


def test_a_commit_that_widens_adds_none() -> None:
    text = with_fields("", range(10, 12), Came(1_000))
    assert with_fields(text, range(12, 12), Came(2_000)) == text


def test_the_newest_commits_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "MAX_COMMITS", 2)
    text = ""
    for field in range(3):
        text = with_fields(text, range(field, field + 1), Came(field))
    assert [*came_with(text, range(3))] == [1, 2]
