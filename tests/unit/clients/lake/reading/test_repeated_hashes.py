"""Hashes on disk: those that come more than once are found, and the disk is given back."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.clients.lake.reading import event_ids, files
from sluice.clients.lake.reading.event_ids import EventIdCounts, count_event_ids
from sluice.clients.lake.reading.repeated_hashes import RepeatedHashes
from tests.support import lake as lakes

hashes = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2**57 - 1, 2**57, 2**64 - 1]))


@given(st.lists(st.lists(hashes, max_size=8), max_size=8))
def test_repeated_hashes_are_those_of_a_naive_count(batches: list[list[int]]) -> None:
    every = [one for batch in batches for one in batch]
    with RepeatedHashes() as repeated:
        folder = Path(repeated._folder.name)
        for batch in batches:
            repeated.add(np.array(batch, np.uint64))
        found = [number for part in repeated.repeated() for number in part.tolist()]
    assert sorted(found) == sorted({one for one in every if every.count(one) > 1})
    assert not folder.exists()


@pytest.mark.parametrize("column", ["id", "hashed", "Event Id"])
def test_an_event_id_column_of_any_name_is_counted(tmp_path: Path, column: str) -> None:
    lake = lakes.empty(tmp_path)
    lake.catalog.create_namespace("raw")
    rows = [("a", 0), ("b", 1), ("a", 2), (None, 3)]
    data = pa.table(
        {column: [row[0] for row in rows], "_kafka_partition": [0] * 4, files.OFFSET: [r[1] for r in rows]}
    )
    lake.catalog.create_table("raw.events", data.schema).append(data)
    found = count_event_ids(lake.table("raw.events"), files.ALL_ROWS, column)
    assert found == EventIdCounts(4, 1, {"a": 2})


def test_ids_with_the_same_hash_are_not_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As all hashes are: the ids themselves decide."""

    class Blind(RepeatedHashes):
        def add(self, hashes: np.ndarray) -> None:
            super().add(np.repeat(hashes, 2))

    monkeypatch.setattr(event_ids, "RepeatedHashes", Blind)
    lake = lakes.empty(tmp_path)
    lake.catalog.create_namespace("raw")
    data = pa.table({"id": ["a", "b", "c", "b"], "_kafka_partition": [0] * 4, files.OFFSET: [0, 1, 2, 3]})
    lake.catalog.create_table("raw.events", data.schema).append(data)
    found = count_event_ids(lake.table("raw.events"), files.ALL_ROWS, "id")
    assert found.duplicates == {"b": 2}


def test_a_hash_that_comes_without_end_takes_no_more_memory_than_one_that_comes_twice() -> None:
    """As the id of an event that is always the same."""
    one, times = np.full(1 << 20, 7, np.uint64), 24
    with RepeatedHashes() as repeated:
        for _ in range(times):
            repeated.add(one)
        tracemalloc.start()
        try:
            assert [part.tolist() for part in repeated.repeated()] == [[7]]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < times * one.nbytes / 3
