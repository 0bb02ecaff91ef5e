"""Offsets without a record, from a batch's account to its summary and back."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.summary import OFFSET_RANGES, WITHOUT_RECORD
from sluice.core.tables.without_record import WithoutRecord, records_of

CONTROL = OffsetRanges.of({0: [(3, 4)], 1: [(10, 11)]})
ABORTED = OffsetRanges.of({0: [(0, 3)]})
ABSENT = OffsetRanges.of({2: [(5, 7), (8, 9)]})
SUMMARY = {OFFSET_RANGES: '{"0":[0,10],"1":[10,12],"2":[5,9]}'}

PAIRS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), max_size=4)
RANGES = st.dictionaries(st.integers(0, 12), PAIRS, max_size=3).map(
    lambda found: OffsetRanges.of({p: [(a, a + n) for a, n in pairs] for p, pairs in found.items()})
)


@given(RANGES, RANGES, RANGES, st.text(max_size=9))
def test_a_summary_gives_back_what_was_written(
    control: OffsetRanges, aborted: OffsetRanges, absent: OffsetRanges, evidence: str
) -> None:
    said = WithoutRecord(control, aborted, absent, evidence)
    summary = said.properties()
    if said.offsets:
        assert WithoutRecord.of(summary) == said
        assert json.loads(summary[WITHOUT_RECORD]).keys() <= {"control", "aborted", "absent", "evidence"}
    else:
        assert summary == {}, "a batch whose offsets all have a record says nothing"
        assert WithoutRecord.of(summary) == WithoutRecord()


def test_the_summary_names_what_there_is() -> None:
    said = WithoutRecord(CONTROL, absent=ABSENT, evidence="compacted")
    assert said.properties() == {
        WITHOUT_RECORD: '{"control":{"0":[[3,4]],"1":[[10,11]]},"absent":{"2":[[5,7],[8,9]]},'
        '"evidence":"compacted"}'
    }
    assert said.offsets == OffsetRanges.of({0: [(3, 4)], 1: [(10, 11)], 2: [(5, 7), (8, 9)]})


def test_records_are_what_was_read_without_these() -> None:
    every = OffsetRanges.of({0: [(0, 10)], 1: [(10, 12)], 2: [(5, 9)]})
    assert records_of(SUMMARY) == every
    said = WithoutRecord(CONTROL, ABORTED, ABSENT).properties()
    assert records_of(SUMMARY | said) == OffsetRanges.of({0: [(4, 10)], 1: [(11, 12)], 2: [(7, 8)]})
    all_control = WithoutRecord(every).properties()
    assert not records_of(SUMMARY | all_control)
