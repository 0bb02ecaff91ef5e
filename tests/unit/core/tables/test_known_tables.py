"""When a table is new, and when it is lost."""

from __future__ import annotations

import pytest

from sluice.core.error_codes import ErrorCode
from sluice.core.tables.known_tables import RECORDED_WITHIN_MS, FoundTable, TableState, compare

NOW = 1_770_000_000_000
EMPTY, PUBLISHED = FoundTable("a", is_published=False), FoundTable("a", is_published=True)
OLD = FoundTable("a", is_published=True, created_at=NOW - RECORDED_WITHIN_MS - 1)
YOUNG = FoundTable("a", is_published=True, created_at=NOW - RECORDED_WITHIN_MS)

CODES = {
    TableState.LOST: ErrorCode.TABLE_LOST,
    TableState.EMPTIED: ErrorCode.TABLE_LOST,
    TableState.REPLACED: ErrorCode.TABLE_REPLACED,
    TableState.FORGOTTEN: ErrorCode.DOCUMENT_NOT_FOUND,
}


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
    table = compare("raw.t", found, known, NOW)
    assert table.state is state
    assert (table.problem is not None) == table.is_problem == (state in CODES)
    if table.problem:
        assert table.code is CODES[state]
        assert "raw.t" in table.problem
        assert "Fix: docs/operating.md" in table.problem


def test_a_writer_is_not_stopped_by_a_ledger_that_forgot_its_table() -> None:
    assert compare("raw.t", OLD, []).state is TableState.UNRECORDED
