"""Loaded rows beside the table: found by their source, with any writer, and only if they are published."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sluice.core.changes.published import KEEP_IDS, NO_CHANGES, Changes
from sluice.core.offsets.deduplication import LoadedRows
from sluice.core.offsets.ranges import OffsetRanges
from spark_jobs.common.lake.loaded_rows import THREADS, BatchRows, LoadedRowsStore
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising

A, B = "a" * 16, "b" * 16


def batch(offsets: tuple[int, int], **sources: tuple[int, int]) -> BatchRows:
    rows = {name: OffsetRanges.of({0: [pair]}) for name, pair in sources.items()}
    return BatchRows(OffsetRanges.of({0: [offsets]}), LoadedRows(rows))


@pytest.fixture
def s3() -> MemoryS3:
    return MemoryS3(page=1)


@pytest.fixture
def store(s3: MemoryS3) -> LoadedRowsStore:
    return LoadedRowsStore(s3.as_client(), "s3://lake/warehouse/raw/trips")


def test_rows_are_found_by_their_source_over_all_recordings(store: LoadedRowsStore, s3: MemoryS3) -> None:
    store.record("w1_x-9", [batch((0, 10), **{A: (0, 10)}), batch((10, 30), **{A: (10, 15), B: (0, 15)})])
    store.record("w1_x-19", [batch((30, 40), **{A: (15, 25)})])
    assert {key for _, key in s3.objects} == {
        f"warehouse/raw/trips/loaded/{A}/w1_x-9.json",
        f"warehouse/raw/trips/loaded/{A}/w1_x-19.json",
        f"warehouse/raw/trips/loaded/{B}/w1_x-9.json",
    }
    found = store.of([A, "c" * 16], {0: 40}, NO_CHANGES)
    assert found.sources == {A: OffsetRanges.of({0: [(0, 25)]})}
    assert not [key for key in s3.got if B in key], "no object of another source is read"


def test_a_batch_that_main_lost_does_not_count_until_its_offsets_are_published_again(
    store: LoadedRowsStore,
) -> None:
    store.record("w1_x-9", [batch((0, 10), **{A: (0, 10)}), batch((10, 30), **{A: (10, 30)})])

    def found(ends: dict[int, int]) -> OffsetRanges:
        store.forget()
        return store.of([A], ends, NO_CHANGES)[A]

    assert found({0: 10}) == OffsetRanges.of({0: [(0, 10)]})
    assert found({0: 29}) == OffsetRanges.of({0: [(0, 10)]}), "a batch counts as a whole"
    assert not found({})
    # Batches with other bounds went over them: the records are the same.
    assert found({0: 35}) == OffsetRanges.of({0: [(0, 30)]})


def test_what_a_change_brought_does_not_count_once_main_has_lost_the_change(store: LoadedRowsStore) -> None:
    """A catalog was restored to before it, and the stream has gone over its offsets again."""
    rows, offsets = LoadedRows.all_of([A], [0]), OffsetRanges.of({0: [(0, 10)]})
    one = Changes().more("earlier", "")
    store.record("w1_x-9", [BatchRows(offsets, rows, one.more("r1", ""))])

    def counts(changes: Changes) -> bool:
        store.forget()
        return bool(store.of([A], {0: 20}, changes)[A])

    assert counts(one.more("r1", ""))
    assert counts(one.more("r1", "").more("r2", ""))
    assert not counts(one)
    assert not counts(one.more("other", "").more("r1", "")), "another attempt of it has an entry of its own"
    many = one.more("other", "")
    for number in range(KEEP_IDS):
        many = many.more(f"m{number}", "")
    assert counts(many), "which change was the second is not known any more"


def test_what_is_recorded_is_never_replaced(store: LoadedRowsStore) -> None:
    store.record("w1_x-9", [batch((0, 10), **{A: (0, 10)})])
    with raising(ClientError, "PreconditionFailed"):
        store.record("w1_x-9", [batch((0, 5), **{A: (0, 5)})])
    assert store.of([A], {0: 10}, NO_CHANGES)[A].count == 10


def test_a_source_with_many_batches_is_looked_up_once_and_an_earlier_one_is_not_kept(
    store: LoadedRowsStore, s3: MemoryS3
) -> None:
    store.record("w1_x-9", [batch((0, 10), **{A: (0, 5), B: (0, 5)})])
    assert {s: store.of([s], {0: 10}, NO_CHANGES)[s].count for s in (A, B)} == {A: 5, B: 5}
    s3.got.clear()
    s3.listed.clear()
    for number in range(1, 4):
        start = number * 10
        rows = {A: (start, start + 10)} | ({B: (5, 8)} if number == 1 else {})
        store.record(f"w1_x-{number}9", [batch((start, start + 10), **rows)])
        assert store.of([A], {0: start + 10}, NO_CHANGES)[A] == OffsetRanges.of(
            {0: [(0, 5), (10, start + 10)]}
        )
    assert (s3.got, s3.listed) == ([], []), "the writer knows what it recorded"
    assert store.of([B], {0: 40}, NO_CHANGES)[B] == OffsetRanges.of({0: [(0, 8)]})
    assert len(s3.got) == 2, "B was in none of the newest batches"
    store.forget()
    assert store.of([A], {0: 10}, NO_CHANGES)[A].count == 5, "main may have lost batches"


def test_the_objects_of_one_source_are_read_several_at_a_time(
    store: LoadedRowsStore, s3: MemoryS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2 * THREADS):
        store.record(f"w1_x-{number}9", [batch((number, number + 1), **{A: (number, number + 1)})])
    read, together = s3.get_object, threading.Barrier(THREADS)

    def get_object(**given: Any) -> dict[str, Any]:
        together.wait(10)
        return read(**given)

    monkeypatch.setattr(s3, "get_object", get_object)
    assert store.of([A], {0: 100}, NO_CHANGES)[A].count == 2 * THREADS


def test_a_recorded_source_that_was_never_looked_up_may_have_earlier_rows(store: LoadedRowsStore) -> None:
    store.record("w1_x-9", [batch((0, 10), **{A: (0, 10)})])
    store.forget()
    store.record("w2_x-9", [batch((10, 20), **{A: (10, 20)})])
    assert store.of([A], {0: 20}, NO_CHANGES)[A].count == 20
