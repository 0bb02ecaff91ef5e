"""A rewriting of files that changed nothing, and every way of not being one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sluice.core.tables.storage import FileSetDigest, Rewrite

GOOD: dict[str, Any] = {
    "snapshot_id": 5,
    "operation": "replace",
    "total_before": 100,
    "total_after": 100,
    "removed": FileSetDigest(9, 40, 777),
    "added": FileSetDigest(2, 40, 777),
}


def test_the_same_rows_in_other_files() -> None:
    assert Rewrite(**GOOD).problems() == []
    assert Rewrite(**GOOD | {"total_before": None}).problems() == [], "its parent has expired"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"operation": "delete"}, "neither a compaction nor a batch: its operation is delete"),
        ({"total_after": 99}, "the table had 100 rows and has 99"),
        ({"total_after": None}, "has no total number of rows"),
        ({"added": FileSetDigest(2, 39, 777)}, "replaced 9 files with 40 rows by 2 files with 39 rows"),
        (
            {"added": FileSetDigest(2, 40, 778)},
            "rows in its 2 new files differ from those in the 9 old",
        ),
        ({"has_deletes": True}, "files of deleted rows"),
    ],
)
def test_what_is_not(more: dict[str, Any], words: str) -> None:
    (problem,) = Rewrite(**(GOOD | more)).problems()
    assert problem.startswith("snapshot 5")
    assert re.search(words, problem)
