"""When a table is new, and when it is lost."""

from __future__ import annotations

import pytest

from sluice.model.error_codes import ErrorCode
from sluice.model.verification.known_tables import (
    PROBLEMS,
    RECORDED_WITHIN_MS,
    FoundTable,
    TableState,
    code_of_state,
    problem_of_state,
    table_state,
)

NOW = 1_770_000_000_000
EMPTY, PUBLISHED = FoundTable("a", is_published=False), FoundTable("a", is_published=True)
OLD = FoundTable("a", is_published=True, created_at=NOW - RECORDED_WITHIN_MS - 1)
YOUNG = FoundTable("a", is_published=True, created_at=NOW - RECORDED_WITHIN_MS)


@pytest.mark.parametrize(
    ("found", "known", "state"),
    [
        (None, [], TableState.NEW),
        (EMPTY, [], TableState.NEW),
        (PUBLISHED, [], TableState.UNRECORDED),
        (YOUNG, [], TableState.UNRECORDED),
        (OLD, [], TableState.FORGOTTEN),
        (OLD, ["a"], TableState.KNOWN),
        (None, ["a"], TableState.LOST),
        (EMPTY, ["a"], TableState.EMPTIED),
        (EMPTY, ["b"], TableState.REPLACED),
        (PUBLISHED, ["b"], TableState.REPLACED),
        (PUBLISHED, ["b", "a"], TableState.KNOWN),
    ],
)
def test_a_table_is_new_only_if_nothing_is_known_of_it(
    found: FoundTable | None, known: list[str], state: TableState
) -> None:
    assert table_state(found, known, NOW) is state
    problem = problem_of_state("raw.t", state, found, known)
    assert (problem is not None) == (state in PROBLEMS)
    if problem:
        assert "raw.t" in problem
        assert "Fix: docs/operating.md" in problem


def test_each_has_a_code_of_its_own() -> None:
    codes = {state: code_of_state(state) for state in PROBLEMS}
    assert codes[TableState.REPLACED] is ErrorCode.TABLE_REPLACED
    assert codes[TableState.LOST] is codes[TableState.EMPTIED] is ErrorCode.TABLE_LOST
    assert codes[TableState.FORGOTTEN] is ErrorCode.DOCUMENT_NOT_FOUND
