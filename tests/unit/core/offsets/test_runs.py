"""Runs of rows that come piece by piece."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluice.core.offsets.deduplication import LoadedRows, Run, joined, loaded_from, possible_duplicates

SOURCE, OTHER = "a" * 16, "b" * 16


def test_runs_that_follow_each_other_are_one() -> None:
    runs = [
        Run(SOURCE, 0, 3, 5, 2),
        Run(SOURCE, 0, 0, 3, 3),
        Run(SOURCE, 0, 6, 7, 1),
        Run(SOURCE, 1, 5, 6, 1),
    ]
    assert joined(runs) == [Run(SOURCE, 0, 0, 5, 5), Run(SOURCE, 0, 6, 7, 1), Run(SOURCE, 1, 5, 6, 1)]
    assert joined([Run(SOURCE, 0, 0, 3, 3), Run(OTHER, 0, 3, 4, 1)]) == [
        Run(SOURCE, 0, 0, 3, 3), Run(OTHER, 0, 3, 4, 1)
    ]  # fmt: skip
    assert joined([]) == []


def test_runs_that_overlap_stay_two() -> None:
    runs = [Run(SOURCE, 0, 0, 3, 3), Run(SOURCE, 0, 2, 4, 2)]
    assert joined(runs) == runs


@given(
    st.lists(
        st.builds(
            lambda source, partition, start, size, more: Run(
                source, partition, start, start + size, size + more
            ),
            st.sampled_from([SOURCE, OTHER]),
            st.integers(0, 1),
            st.integers(0, 20),
            st.integers(1, 5),
            st.sampled_from([0, 0, 0, 1]),
        ),
        max_size=8,
    )
)
def test_joined_runs_tell_the_same(runs: list[Run]) -> None:
    found = joined(runs)
    assert len(found) <= len(runs)
    assert sum(run.records for run in found) == sum(run.records for run in runs)
    assert loaded_from(found) == loaded_from(runs)
    assert possible_duplicates(LoadedRows(), found) == possible_duplicates(LoadedRows(), runs)
