"""The newest snapshot with a state, in a table's properties."""

from __future__ import annotations

from typing import Any

from sluice.core.schema_versions.offsets import MAX_CHARACTERS
from spark_jobs.common.lake import state_property

SUMMARY = {"sluice.end-offsets": '{"0": 7}', "sluice.kind": "batch", "added-records": "7"}


def snapshot(**summary: str) -> dict[str, Any]:
    of_iceberg = {"operation": "append", "total-records": "9"}
    return {
        "snapshot-id": 5, "parent-snapshot-id": 4, "sequence-number": 3, "timestamp-ms": 2,
        "manifest-list": "s3://w/m", "summary": {**SUMMARY, **of_iceberg, **summary},
    }  # fmt: skip


def test_it_is_the_snapshot_without_what_iceberg_alone_needs() -> None:
    found = state_property.snapshot_in(state_property.properties_of(snapshot()))
    assert found == {
        "snapshot-id": 5, "parent-snapshot-id": 4, "sequence-number": 3, "timestamp-ms": 2,
        "summary": SUMMARY,
    }  # fmt: skip


def test_a_long_one_is_in_several_which_a_shorter_one_removes() -> None:
    long = snapshot(**{"sluice.start-offsets": "0" * 2 * MAX_CHARACTERS})
    before, removed = state_property.moved_to(long, {"team": "me"}, is_by_catalog=True)
    assert (sorted(before), removed) == (["sluice.state", "sluice.state.2", "sluice.state.3"], [])
    assert max(map(len, before.values())) == MAX_CHARACTERS
    found = state_property.snapshot_in(before)
    assert found is not None
    assert found["summary"]["sluice.start-offsets"] == "0" * 2 * MAX_CHARACTERS
    said, removed = state_property.moved_to(snapshot(), before, is_by_catalog=True)
    assert (list(said), removed) == (["sluice.state"], ["sluice.state.2", "sluice.state.3"])


def test_none_says_a_state_that_is_not_the_newest() -> None:
    before = state_property.properties_of(snapshot())
    assert state_property.moved_to(snapshot(), before, is_by_catalog=False) == ({}, ["sluice.state"])
    assert state_property.moved_to(snapshot(), {}, is_by_catalog=False) == ({}, [])


def test_a_snapshot_without_a_state_leaves_what_is_said() -> None:
    """As of a producer, in the quarantine."""
    other = {**snapshot(), "summary": {"sluice.kind": "producer"}}
    before = state_property.properties_of(snapshot())
    for declared in (True, False):
        assert state_property.moved_to(other, before, is_by_catalog=declared) == ({}, [])


def test_a_branch_that_was_set_back_does_not_have_it() -> None:
    assert state_property.is_before(snapshot(), [9, 4])
    assert not state_property.is_before(snapshot(), [9, 3])
    assert not state_property.is_before(snapshot(), [2])


def test_a_table_without_it_says_nothing() -> None:
    assert state_property.snapshot_in({"team": "me", "sluice.state.2": "7"}) is None
