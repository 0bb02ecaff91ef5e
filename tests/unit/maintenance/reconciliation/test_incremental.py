"""Verification from an earlier run and the files since finds what counting every row finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.findings import FindingName
from sluice.core.offsets.counts import Counts, add_offsets
from sluice.core.offsets.offset_set import OffsetSet
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.verify import FileStats
from sluice.maintenance.reconciliation.incremental import (
    BatchFile,
    Contents,
    Expected,
    advance,
    content_findings,
    inside,
    range_findings,
)
from tests.support.counted import counts

Row = tuple[int, int]


@dataclass(frozen=True)
class File:
    name: str
    rows: tuple[Row, ...]
    is_of_batch: bool

    @property
    def stats(self) -> FileStats:
        partitions, offsets = zip(*self.rows, strict=True)
        return FileStats(
            self.name, min(partitions), max(partitions), min(offsets), max(offsets), len(self.rows)
        )


def of(rows: list[Row] | set[Row]) -> OffsetSet:
    return OffsetSet.of(ranges(rows))


def ranges(rows: list[Row] | set[Row]) -> OffsetRanges:
    return OffsetRanges.of({p: [(o, o + 1) for q, o in rows if q == p] for p, _ in rows})


def grouped(rows: Sequence[Row]) -> dict[int, list[int]]:
    return {p: [o for q, o in rows if q == p] for p, _ in rows}


@dataclass
class Table:
    """By brute force: all rows of all files. ``recorded``: as the last run that passed left it."""

    files: dict[str, File] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    quarantined: set[Row] = field(default_factory=set)
    removed: set[Row] = field(default_factory=set)
    recorded: tuple[dict[str, File], OffsetSet] = field(default_factory=lambda: ({}, OffsetSet()))
    count: int = 0

    def add(self, rows: list[Row], is_of_batch: bool = False) -> None:
        if rows:
            self.count += 1
            name = f"f{self.count}"
            self.files[name] = File(name, tuple(rows), is_of_batch)

    def batch(self, sizes: list[int], rejects: list[bool], is_exchanged: bool = False) -> None:
        """A file per partition, less the rejected rows. ``is_exchanged``: one of these is there instead of
        another, as a mask that is off by one leaves it."""
        for partition, size in enumerate(sizes):
            rows = [(partition, self.ends[partition] + n) for n in range(size)]
            self.ends[partition] += size
            bad = {row for row, is_bad in zip(rows, rejects, strict=False) if is_bad}
            self.quarantined |= bad
            good = [row for row in rows if row not in bad]
            if is_exchanged and good and bad:
                good = sorted([*good[1:], min(bad)])
            self.add(good, is_of_batch=True)

    def rewrite(self, chosen: list[str], drop: int, double: int, leave_out: bool) -> None:
        """These files as one. ``drop``, ``double``: numbers of a row to lose or repeat, if there is one;
        ``leave_out``: it is removed by a change."""
        rows = [row for name in chosen for row in self.files.pop(name).rows]
        if drop < len(rows):
            lost = rows.pop(drop)
            if leave_out:
                self.removed.add(lost)
        if double < len(rows):
            rows.append(rows[double])
        self.add(rows)

    def by_brute_force(self) -> set[FindingName]:
        rows = Counter(row for file in self.files.values() for row in file.rows)
        published = {(p, o) for p, end in self.ends.items() for o in range(end)}
        wanted = published - self.removed
        found = {
            FindingName.OFFSETS_MISSING: wanted - set(rows) - self.quarantined,
            FindingName.OFFSETS_DUPLICATED: {row for row, times in rows.items() if times > 1},
            FindingName.OFFSETS_UNEXPECTED: set(rows) - wanted,
            FindingName.OFFSETS_IN_BOTH: set(rows) & self.quarantined,
        }
        return {name for name, those in found.items() if those}

    def incrementally(self) -> set[FindingName]:
        then, verified = self.recorded
        removed = Counts[int]()
        for name in then.keys() - self.files.keys():
            known = inside(then[name].stats, verified)
            if known is not None:
                assert known == of(list(then[name].rows))
            if known is not None:
                add_offsets(removed, known)
            else:
                removed.add_counts(counts(grouped(then[name].rows)))
        added = [file for name, file in self.files.items() if name not in then]
        known_files = [f for f in added if f.is_of_batch and f.stats.is_conclusive]
        read = [row for file in added if file not in known_files for row in file.rows]
        come = counts(grouped(read))
        for file in known_files:
            file.stats.count(come)
        now = advance(verified, removed, come)
        expected = Expected({}, self.ends, ranges(self.removed))
        found = content_findings(expected, now, Contents(of(self.quarantined)))
        if not found:
            self.recorded = (dict(self.files), now.present)
        return {finding.name for finding in found}


@settings(max_examples=4 * settings().max_examples, deadline=None)
@given(st.data())
def test_it_finds_what_counting_every_row_finds(data: st.DataObject) -> None:
    table = Table()
    for _ in range(data.draw(st.integers(1, 8))):
        if data.draw(st.booleans()) or not table.files:
            sizes = data.draw(st.lists(st.integers(0, 6), min_size=2, max_size=2))
            # Mostly not.
            is_exchanged = data.draw(st.sampled_from([False, False, False, True]))
            table.batch(sizes, data.draw(st.lists(st.booleans(), max_size=6)), is_exchanged)
        else:
            chosen = data.draw(st.lists(st.sampled_from(sorted(table.files)), min_size=1, unique=True))
            # Mostly no fault.
            place = st.sampled_from([99, 99, 99, 0, 1])
            table.rewrite(chosen, data.draw(place), data.draw(place), data.draw(st.booleans()))
        if data.draw(st.booleans()):
            assert table.incrementally() == table.by_brute_force()
    assert table.incrementally() == table.by_brute_force()


def test_a_compaction_that_loses_one_row_and_doubles_another_is_found() -> None:
    """Its bounds and its number of records are as before: that is why a rewrite's file is read."""
    table = Table()
    table.batch([5, 0], [])
    assert table.incrementally() == set()
    table.rewrite(["f1"], drop=2, double=0, leave_out=False)
    assert table.incrementally() == {FindingName.OFFSETS_MISSING, FindingName.OFFSETS_DUPLICATED}


def test_a_batch_that_lost_a_row_and_has_a_rejected_one_in_its_place_is_found() -> None:
    """Its records are as many as the offsets between its bounds that are not quarantined."""
    table = Table()
    table.batch([4, 0], [])
    table.batch([4, 0], [False, False, True, False], is_exchanged=True)
    found = {FindingName.OFFSETS_MISSING, FindingName.OFFSETS_IN_BOTH}
    assert table.incrementally() == table.by_brute_force() == found


def test_an_offset_of_an_earlier_run_that_comes_again_is_found() -> None:
    table = Table()
    table.batch([5, 0], [])
    assert table.incrementally() == set()
    table.add([(0, 3)], is_of_batch=True)
    assert table.incrementally() == table.by_brute_force() == {FindingName.OFFSETS_DUPLICATED}


def test_the_quarantine_may_be_ahead_of_the_table() -> None:
    quarantine = Contents(of({(0, 3), (0, 9)}))
    table = Contents(of({(0, 0), (0, 1), (0, 2)}))
    assert content_findings(Expected({}, {0: 4}), table, quarantine) == []


def test_an_offset_that_the_quarantine_has_twice_is_found_before_it_is_published() -> None:
    """A later run begins with each offset of the quarantine once."""
    quarantine = Contents(of({(0, 3), (0, 9)}), of({(0, 9)}))
    table = Contents(of({(0, 0), (0, 1), (0, 2)}))
    (found,) = content_findings(Expected({}, {0: 4}), table, quarantine)
    assert (found.name, found.whole) == (FindingName.OFFSETS_DUPLICATED, "0=[9,10)")


def test_a_summary_that_lies_about_its_range_is_named() -> None:
    def said(text: str) -> list[str]:
        file = BatchFile(FileStats("a.parquet", 0, 0, 10, 19, 10), 7)
        return [str(finding) for finding in range_findings([file], lambda _: OffsetRanges.of_batch(text))]

    assert said('{"0": [10, 20]}') == []
    assert said('{"0": [5, 30]}') == []
    (found,) = said('{"0": [10, 19]}')
    assert found == (
        "range-wrong: snapshot 7 says that it has 0=[10,19), and its file a.parquet has 0=[10,20)"
    )
    assert said('{"1": [10, 20]}')


def test_the_summary_of_a_batch_of_many_files_is_read_once() -> None:
    batches = {number: {partition: [(number, number + 1)] for partition in range(300)} for number in range(3)}
    files = [
        BatchFile(FileStats("a.parquet", partition, partition, number, number, 1), number)
        for partition in range(300)
        for number in batches
    ]
    asked = Counter[int]()

    def said(snapshot_id: int) -> OffsetRanges:
        asked[snapshot_id] += 1
        return OffsetRanges.of(batches[snapshot_id])

    assert range_findings(files, said) == []
    assert asked == dict.fromkeys(batches, 1)
