from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.verify import FileStats, VerificationStatus, needs_read, verify
from tests.support.counted import counts


def file(partition: int, lower: int, upper: int, records: int | None = None) -> FileStats:
    count = upper - lower + 1 if records is None else records
    return FileStats(f"{partition}-{lower}", partition, partition, lower, upper, count)


EXPECTED = OffsetRanges.of({0: [(0, 10)], 1: [(5, 8)]})
CASES: dict[str, tuple[list[FileStats], dict[int, Iterable[int]], str, VerificationStatus]] = {
    "one file a partition": ([file(0, 0, 9), file(1, 5, 7)], {}, "", VerificationStatus.PASSED),
    "files that join": ([file(0, 0, 4), file(0, 5, 9), file(1, 5, 7)], {}, "", VerificationStatus.PASSED),
    "a partition is missing": ([file(0, 0, 9)], {}, "3 gaps (1=[5,8))", VerificationStatus.GAPS),
    "a hole between files": (
        [file(0, 0, 3), file(0, 5, 9), file(1, 5, 7)],
        {},
        "[4,5)",
        VerificationStatus.GAPS,
    ),
    "files overlap": (
        [file(0, 0, 5), file(0, 5, 9), file(1, 5, 7)],
        {},
        "1 duplicates",
        VerificationStatus.DUPLICATES,
    ),
    "a file twice": (
        [file(0, 0, 9)] * 2 + [file(1, 5, 7)],
        {},
        "10 duplicates",
        VerificationStatus.DUPLICATES,
    ),
    "offsets beyond": ([file(0, 0, 11), file(1, 5, 7)], {}, "2 unexpected", VerificationStatus.UNEXPECTED),
    "another topic partition": (
        [file(0, 0, 9), file(1, 5, 7), file(9, 0, 0)],
        {},
        "1 unexpected",
        VerificationStatus.UNEXPECTED,
    ),
    "a file whose count is off and that was not read": (
        [file(0, 0, 9, records=9), file(1, 5, 7)],
        {},
        "10 gaps",
        VerificationStatus.GAPS,
    ),
    "that file read": (
        [file(0, 0, 9, records=9), file(1, 5, 7)],
        {0: range(10)},
        "",
        VerificationStatus.PASSED,
    ),
    "that file read, one twice": (
        [file(0, 0, 9, records=11), file(1, 5, 7)],
        {0: [*range(10), 4]},
        "1 duplicates (0=[4,5))",
        VerificationStatus.DUPLICATES,
    ),
    "nothing at all": ([], {}, "13 gaps", VerificationStatus.GAPS),
}


@pytest.mark.parametrize("case", CASES)
def test_what_the_files_verify(case: str) -> None:
    files, offsets, words, status = CASES[case]
    verification = verify(EXPECTED, files, counts(offsets))
    assert verification.status is status
    assert words in verification.message()


def test_a_quarantined_offset_is_a_hole_that_is_explained() -> None:
    files = [file(0, 0, 9, records=8), file(1, 5, 7)]
    quarantined = OffsetRanges.of({0: [(3, 5)]})
    assert needs_read(EXPECTED, files) == [files[0]]
    held = counts({0: [*range(3), *range(5, 10)]})
    assert verify(EXPECTED, files, held, quarantined=quarantined).is_ok


def test_a_lost_offset_and_one_in_both_tables_do_not_cancel_out() -> None:
    """The file has as many records as offsets between its bounds that are not quarantined."""
    expected, quarantined = OffsetRanges.of({0: [(4, 8)]}), OffsetRanges.of({0: [(6, 7)]})
    files = [file(0, 4, 7, records=3)]
    assert needs_read(expected, files) == files
    assert verify(expected, files, quarantined=quarantined).gaps.count == 3
    found = verify(expected, files, counts({0: [4, 6, 7]}), quarantined=quarantined)
    assert (str(found.gaps), str(found.duplicates)) == ("0=[5,6)", "0=[6,7)")


def test_an_offset_in_the_table_and_in_the_quarantine_is_not_exact() -> None:
    files = [file(0, 0, 9), file(1, 5, 7)]
    assert not verify(EXPECTED, files, quarantined=OffsetRanges.of({0: [(3, 4)]})).is_ok


def test_an_offset_that_is_in_the_quarantine_twice_is_not_exact() -> None:
    quarantined = OffsetRanges.of({0: [(8, 10)]})
    files = [file(0, 0, 7), file(1, 5, 7)]
    assert verify(EXPECTED, files, quarantined=quarantined).is_ok
    twice = OffsetRanges.of({0: [(9, 10)]})
    assert verify(EXPECTED, files, quarantined=quarantined, repeated=twice).duplicates == twice


def test_a_load_in_a_table_of_many_loads() -> None:
    files = [file(0, 0, 99), file(1, 0, 7), file(2, 0, 3)]
    assert verify(EXPECTED, files).status is VerificationStatus.UNEXPECTED
    assert verify(EXPECTED, files, allow_outside=True).is_ok
    twice_elsewhere = [*files, file(0, 50, 60), file(2, 0, 3)]
    assert verify(EXPECTED, twice_elsewhere, allow_outside=True).is_ok
    assert verify(EXPECTED, [*files, file(0, 5, 60)], allow_outside=True).duplicates.count == 5


def test_a_file_without_bounds_is_never_passed_over() -> None:
    blind = FileStats("x", None, None, None, None, 3)
    for expected in (EXPECTED, OffsetRanges.of({7: [(100, 101)]})):
        assert needs_read(expected, [blind]) == [blind]


@given(st.lists(st.integers(0, 15), max_size=25))
def test_read_offsets_are_judged_as_a_count_would(offsets: list[int]) -> None:
    verification = verify(OffsetRanges.of({0: [(0, 12)]}), [], counts({0: offsets}))
    assert verification.gaps.count == len(set(range(12)) - set(offsets))
    assert verification.duplicates.count == len({o for o in offsets if offsets.count(o) > 1})
    assert verification.unexpected.count == len({o for o in offsets if o >= 12})
    assert verification.is_ok == (sorted(offsets) == list(range(12)))


def test_bounds_of_many_partitions_are_compared_by_the_starts_that_there_are() -> None:
    """A partition between them that has no start begins at 0; the bounds may be of any two numbers."""

    def stats(last: int, offset: int) -> FileStats:
        return FileStats("f", 0, last, 0, offset, 2)

    assert stats(2**31 - 1, 5).may_reach({0: 9})
    assert stats(1, 5).may_reach({0: 9})
    assert not stats(1, 5).may_reach({0: 9, 1: 6})
    assert stats(1, 6).may_reach({0: 9, 1: 6, 2: 0})
