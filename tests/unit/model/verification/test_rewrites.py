"""A rewriting of files that changed nothing, and every way of not being one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sluice.model.verification.storage import FileSetDigest, Rewrite

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


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"operation": "delete"}, "no rewriting of files and no owner's batch: its operation is delete"),
        ({"total_after": 99}, "the table had 100 rows and has 99"),
        ({"total_after": None}, "does not say how many rows"),
        ({"total_before": None}, "does not say how many rows"),
        ({"added": FileSetDigest(2, 39, 777)}, "40 rows were in the 9 files .* and 39 are in the 2 that"),
        (
            {"added": FileSetDigest(2, 40, 778)},
            "the 2 files that it brought hold other coordinates than the 9",
        ),
        ({"has_deletes": True}, "files of deleted rows"),
    ],
)
def test_what_is_not(more: dict[str, Any], words: str) -> None:
    (problem,) = Rewrite(**(GOOD | more)).problems()
    assert problem.startswith("snapshot 5")
    assert re.search(words, problem)
