"""Positions that disagree, and that a stream which works meanwhile is never a finding."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.findings import GROUP_SECONDS, Earlier, FindingName, Observed, Proof, findings

AGREED = Observed(
    group={0: 90},
    broker_begins={0: 10},
    ends={0: 100},
    table_topic_id="a",
    topic_id="a",
    broker_ends={0: 120},
    earlier=(Earlier(3600, {0: 95}), Earlier(GROUP_SECONDS, {0: 90})),
)


@pytest.mark.parametrize(
    ("change", "name", "text"),
    [
        ({"broker_ends": {0: 99}}, FindingName.TOPIC_BEHIND_TABLE, "partition 0: the table ends at 100"),
        ({"broker_ends": {}}, FindingName.TOPIC_BEHIND_TABLE, "the topic ends at 0"),
        ({"broker_begins": {0: 101}}, FindingName.RECORDS_DELETED_UNREAD, "the topic begins at 101"),
        ({"group": {0: 101}}, FindingName.GROUP_AHEAD, "the group is at 101, the table ends at 100"),
        ({"group": {0: 89}}, FindingName.GROUP_BEHIND, "2.0 hours ago at 90, the group is at 89"),
        ({"group": {}}, FindingName.GROUP_BEHIND, "the group is at 0"),
        ({"ends": {0: 94}}, FindingName.TABLE_RESTORED, "saw 95, the table ends now at 94"),
        ({"proof": Proof("r1", {0: 101})}, FindingName.TABLE_BEHIND_PROOF, "load r1 was verified to 101"),
        ({"topic_id": "b"}, FindingName.TOPIC_RECREATED, "from topic id a, it is b"),
    ],
)
def test_each_disagreement_has_a_name(change: dict[str, object], name: FindingName, text: str) -> None:
    (found,) = findings(replace(AGREED, **change))  # type: ignore[arg-type]
    assert found.name is name
    assert text in str(found)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"group": {0: 100}},
        {"proof": Proof("r1", {0: 100})},
        {"broker_begins": {0: 100}},
        {"broker_ends": {0: 100}},
        {"table_topic_id": None},
        # A partition that was added, and that no batch has read.
        {"broker_ends": {0: 120, 1: 7}, "broker_begins": {0: 10, 1: 3}},
        {"group": {}, "is_suspended": True},
        {"group": {}, "earlier": (Earlier(GROUP_SECONDS - 1, {0: 90}),)},
    ],
)
def test_normal_differences_are_no_findings(change: dict[str, object]) -> None:
    assert findings(replace(AGREED, **change)) == []  # type: ignore[arg-type]


@given(st.lists(st.integers(0, 4), min_size=4, max_size=4), st.data())
def test_a_stream_that_works_between_the_reads_is_no_finding(moments: list[int], data: st.DataObject) -> None:
    """Any history of (begin, group, main, end) that keeps their order, read at moments in the order of
    ObserveOffsetsOperator."""
    states = [(0, 0, 0, 0)]
    for _ in range(4):
        begin, group, main, end = states[-1]
        end = data.draw(st.integers(end, end + 50))
        main = data.draw(st.integers(main, end))
        states.append((data.draw(st.integers(begin, main)), data.draw(st.integers(group, main)), main, end))
    at = sorted(moments)
    assert all(a <= b for a, b in pairwise(at))
    observed = Observed(
        group={0: states[at[0]][1]},
        broker_begins={0: states[at[1]][0]},
        ends={0: states[at[2]][2]},
        table_topic_id="a",
        topic_id="a",
        broker_ends={0: states[at[3]][3]},
        earlier=(Earlier(3600, {0: states[at[0]][2]}),),
    )
    assert findings(observed) == []
