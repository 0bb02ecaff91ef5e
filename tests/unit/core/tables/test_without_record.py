"""Offsets without a record, from a batch's account to its summary and back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.summary import OFFSET_RANGES, WITHOUT_RECORD
from sluice.core.tables.without_record import MAX_CHARACTERS, WithoutRecord, record_count

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
    assert record_count(SUMMARY) == 16
    said = WithoutRecord(CONTROL, ABORTED, ABSENT).properties()
    assert record_count(SUMMARY | said) == 16 - 2 - 3 - 3
    assert record_count(SUMMARY | WithoutRecord(documented=15, address="s3://b/k").properties()) == 1


def test_of_a_document_only_the_number_is_known_until_it_is_read() -> None:
    whole = WithoutRecord(CONTROL, ABORTED, ABSENT, "compacted")
    named = WithoutRecord.of(WithoutRecord(address="s3://b/k", documented=whole.count).properties())
    assert named.count == whole.count
    with pytest.raises(ValueError, match="s3://b/k has the offsets"):
        named.offsets  # noqa: B018
    assert named.read({"s3://b/k": whole.to_document()}.__getitem__) == whole
    assert whole.read(lambda address: {}) == whole


def test_a_summary_has_only_so_many_characters() -> None:
    def said(count: int) -> WithoutRecord:
        return WithoutRecord(OffsetRanges.of({0: [(n, n + 1) for n in range(1000, 1000 + 2 * count, 2)]}))

    (text,) = said(300).properties().values()
    assert not said(300).is_long
    assert len(text) <= MAX_CHARACTERS < 2 * len(text)
    assert said(600).is_long
    assert not WithoutRecord().is_long


@given(RANGES, RANGES, RANGES, RANGES)
def test_parts_are_joined_by_their_reasons(
    control: OffsetRanges, aborted: OffsetRanges, absent: OffsetRanges, wanted: OffsetRanges
) -> None:
    one, other = WithoutRecord(control), WithoutRecord(absent=absent, evidence="compacted")
    both = WithoutRecord.joined([one, other, WithoutRecord(aborted=aborted), one, other])
    assert (both.control, both.aborted, both.absent, both.evidence) == (control, aborted, absent, "compacted")
    within = both.within(wanted)
    assert within.offsets == both.offsets.intersect(wanted)
    assert within.absent == absent.intersect(wanted)
    assert bool(within.evidence) == bool(within.absent)
