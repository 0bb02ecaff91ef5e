"""What a stream's snapshots say of its changes."""

from __future__ import annotations

from dataclasses import replace

from sluice.core.changes.published import KEEP_IDS, NO_CHANGES, changes_in
from sluice.core.tables.rewrites import Rewrites, id_of_change


def test_changes_of_the_quarantine_alone_moved_no_row_of_the_table() -> None:
    first = NO_CHANGES.more("c1", "", moves_rows=True)
    second = first.more("c2", "s3://x.json", moves_rows=False)
    assert (second.count, second.of_rows, second.newest) == (2, 1, ("c1", "c2"))
    assert changes_in(second.properties()) == second
    assert changes_in({}) == NO_CHANGES


def test_a_change_is_published_as_long_as_it_is_named_in_its_place() -> None:
    changes = NO_CHANGES.more("c1", "")
    assert changes.has("c1", 0)
    assert changes.has("c2", 0) is False
    assert changes.has("c2", 1) is False
    for number in range(KEEP_IDS):
        changes = changes.more(f"later-{number}", "")
    assert changes.has("c1", 0) is None
    # The table names more rewrites than changes.
    rewrites = Rewrites().more(id_of_change("c1", "key")).more("compaction")
    assert replace(changes, rewrites=rewrites).has("c1", 0)
    assert replace(changes, rewrites=rewrites).has("c2", 0) is None
    assert [replace(changes, rewrites=rewrites).names(name) for name in ("c1", "c2", "later-7")] == [
        True,
        False,
        True,
    ]


def test_a_change_that_is_named_is_published_whatever_it_was_planned_after() -> None:
    """The ledger was restored to before its plan, and a new plan of the same run counts the change itself:
    it was made twice."""
    changes = NO_CHANGES.more("c0", "").more("c1", "")
    assert changes.has("c1", 2)
