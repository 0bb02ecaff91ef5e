from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluice.core.offsets.deduplication import LoadedRows, Run, loaded_from, possible_duplicates
from sluice.core.offsets.ranges import OffsetRanges

A, B = "a" * 16, "b" * 16


def run(source: str, partition: int, start: int, until: int, records: int | None = None) -> Run:
    return Run(source, partition, start, until, until - start if records is None else records)


def test_one_producer_undisturbed_is_above_suspicion() -> None:
    runs = [run(A, 0, 0, 100), run(A, 1, 0, 51)]
    assert possible_duplicates(LoadedRows(), runs) == set()
    assert loaded_from(runs)[A] == OffsetRanges.of({0: [(0, 100)], 1: [(0, 51)]})


def test_a_resumed_producer_is_above_suspicion() -> None:
    seen = loaded_from([run(A, 0, 0, 100)])
    assert possible_duplicates(seen, [run(A, 0, 100, 150), run(A, 0, 150, 160)]) == set()


def test_rows_that_the_table_has_are_seen() -> None:
    seen = loaded_from([run(A, 0, 0, 100)])
    assert possible_duplicates(seen, [run(A, 0, 99, 110), run(B, 0, 0, 5)]) == {A}


def test_a_zombie_beside_its_successor_is_seen_in_one_batch() -> None:
    assert possible_duplicates(LoadedRows(), [run(A, 0, 0, 25, records=30), run(B, 0, 31, 40)]) == {A}


def test_two_files_that_hold_one_row_are_seen() -> None:
    assert possible_duplicates(LoadedRows(), [run(A, 0, 10, 20), run(A, 0, 0, 30), run(B, 0, 0, 5)]) == {A}


def test_the_same_rows_in_another_partition_are_other_rows() -> None:
    assert possible_duplicates(LoadedRows(), [run(A, 0, 0, 9), run(A, 1, 0, 9)]) == set()


def test_loaded_rows_survive_json() -> None:
    loaded = loaded_from([run(A, 0, 0, 9), run(B, 3, 5, 7)])
    assert LoadedRows.from_json(loaded.to_json()) == loaded
    assert LoadedRows.from_json("{}") == LoadedRows()


runs_of_a = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 20), st.integers(1, 6)).map(
        lambda t: run(A, t[0], t[1], t[1] + t[2])
    ),
    max_size=6,
)


@given(runs_of_a, runs_of_a)
def test_suspicion_is_exactly_a_row_that_is_there_twice(before: list[Run], now: list[Run]) -> None:
    rows = [(r.partition, sequence) for r in now for sequence in range(r.start, r.until)]
    had = {(r.partition, sequence) for r in before for sequence in range(r.start, r.until)}
    twice = len(set(rows)) < len(rows) or bool(had & set(rows))
    assert possible_duplicates(loaded_from(before), now) == ({A} if twice else set())
