"""At which offsets the records of each schema id are."""

from __future__ import annotations

import json

import pytest

from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.schema_versions import offsets as module
from sluice.core.schema_versions.followed import digest_of
from sluice.core.schema_versions.offsets import PROPERTY, SchemaOffsets, Seen, joined_ids


def ranges(**pairs: tuple[int, int]) -> OffsetRanges:
    return OffsetRanges.of({int(name[1:]): [pair] for name, pair in pairs.items()})


def test_bounds_of_two_batches_are_joined_and_read_back() -> None:
    first = SchemaOffsets().more({7: {0: (0, 4), 1: (2, 2)}}, ranges(p0=(0, 5), p1=(0, 3)), 1_000)
    both = first.more({7: {0: (6, 8)}, 3: {0: (5, 9)}}, ranges(p0=(5, 10)), 2_000)
    assert both.ids == {7: Seen(1_000, {0: (0, 8), 1: (2, 2)}), 3: Seen(2_000, {0: (5, 9)})}
    assert both.complete == {0: (0, 10), 1: (0, 3)}
    assert SchemaOffsets.of({PROPERTY: both.text()}) == both
    assert SchemaOffsets.of({}) == SchemaOffsets()


def test_the_ids_that_cover_an_offset() -> None:
    found = SchemaOffsets().more({7: {0: (0, 6)}, 3: {0: (4, 9), 1: (0, 0)}}, ranges(p0=(0, 12)), 1)
    assert [found.covering(0, offset) for offset in (3, 5, 8, 11)] == [[7], [3, 7], [3], []]
    assert found.covering(2, 0) == []
    assert [found.is_complete_at(0, offset) for offset in (0, 11, 12)] == [True, True, False]


@pytest.mark.parametrize(
    ("begin", "complete"),
    [(10, (0, 12)), (8, (0, 12)), (11, (11, 12))],
    ids=["goes on", "again, after main was set back", "batches between that recorded nothing"],
)
def test_completeness_begins_again_after_a_gap(begin: int, complete: tuple[int, int]) -> None:
    found = SchemaOffsets().more({7: {0: (0, 9)}}, ranges(p0=(0, 10)), 1)
    assert found.more({}, ranges(p0=(begin, 12)), 2).complete == {0: complete}
    # What was recorded before stays true.
    assert found.more({}, ranges(p0=(begin, 12)), 2).ids == found.ids


def test_what_has_no_space_moves_into_a_document_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CHARACTERS", 60)
    found = SchemaOffsets().more({7: {0: (0, 4)}, 8: {0: (1, 4)}}, ranges(p0=(0, 5)), 1_000)
    # It is all of this batch: the next one may have the same ids.
    assert not found.is_long({7: {0: (0, 4)}, 8: {0: (1, 4)}})
    found = found.more({9: {0: (5, 5)}}, ranges(p0=(5, 6)), 2_000)
    assert found.is_long({9: {0: (5, 5)}})
    moved, text = found.moved()
    assert (moved.ids, moved.complete, moved.document) == ({}, {0: (0, 6)}, digest_of(text))
    assert len(moved.text()) < 200
    more = moved.more({8: {0: (6, 6)}}, ranges(p0=(6, 7)), 3_000)
    whole = SchemaOffsets.of({PROPERTY: more.text()}).with_document(json.loads(text))
    assert whole.ids == {**found.ids, 8: Seen(1_000, {0: (1, 6)})}
    # What was seen last is at the end, so it is forgotten last.
    assert [*whole.ids] == [7, 9, 8]
    again, text = more.moved(json.loads(text))
    assert again.with_document(json.loads(text)).ids == whole.ids


@pytest.mark.parametrize(("ids", "is_long"), [(400, False), (800, False), (1_200, True), (2_000, True)])
def test_the_ids_of_one_batch_alone_move_if_they_have_no_space(ids: int, is_long: bool) -> None:
    batch = {number: {0: (number, number)} for number in range(ids)}
    found = SchemaOffsets().more(batch, ranges(p0=(0, ids)), 1_700_000_000_000)
    assert found.is_long(batch) is is_long
    # What is set is either.
    assert len((found.moved()[0] if is_long else found).text()) <= module.MOST_CHARACTERS


def test_what_has_no_ids_writes_no_document() -> None:
    many = OffsetRanges.of({number: [(0, 1_000_000)] for number in range(2_000)})
    found = SchemaOffsets().more({}, many, 1)
    assert len(found.text()) > module.MOST_CHARACTERS
    assert not found.is_long({})


def test_a_schema_for_each_record_leaves_the_newest_and_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PAIRS", 10)
    found = SchemaOffsets()
    text, longest = "", 0
    for number in range(100):
        found = found.more({number: {0: (number, number)}}, ranges(p0=(number, number + 1)), number)
        if number % 5 == 4:
            found, text = found.moved(json.loads(text) if text else ())
        longest = max(longest, len(found.text()), len(text))
    assert (longest < 400, found.forgotten) == (True, 90)
    whole = found.with_document(json.loads(text))
    assert [*whole.ids] == [*range(90, 100)]
    assert whole.covering(0, 95) == [95]
    # Another one may have been there as well.
    assert not whole.is_complete_at(0, 95)
    assert json.loads(found.text())["forgotten"] == 90


def test_the_ids_of_a_batch_in_several_tasks() -> None:
    parts = [{7: {0: (5, 6)}}, {}, {7: {0: (1, 2), 1: (0, 0)}, 3: {1: (4, 4)}}]
    assert joined_ids(parts) == {7: {0: (1, 6), 1: (0, 0)}, 3: {1: (4, 4)}}
