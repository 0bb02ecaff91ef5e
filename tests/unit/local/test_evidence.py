"""The proof that the demo, the drills and the integration tests share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from local.evidence import Coordinates, Exactness, both, duplicates, gaps, strays


@pytest.mark.parametrize(
    ("held", "expected_gaps", "expected_duplicates", "expected_strays"),
    [
        ({0: [0, 1, 2], 1: [5, 6]}, 0, 0, 0),
        ({0: [0, 2], 1: [5, 6]}, 1, 0, 0),
        ({0: [0, 1, 2, 2], 1: [5, 6, 5]}, 0, 2, 0),
        ({0: [0, 1, 1], 1: [5, 6]}, 1, 1, 0),
        ({0: [0, 1, 2]}, 2, 0, 0),
        ({}, 5, 0, 0),
        # What lies before the stream's start, or was written after the end was asked for, fills no gap.
        ({0: [0, 1, 2], 1: [5, 6], 9: [0]}, 0, 0, 1),
        ({0: [0, 1, 3, 4], 1: [4, 5, 6, 7]}, 1, 0, 4),
    ],
)
def test_gaps_duplicates_and_strays(
    held: dict[int, list[int]], expected_gaps: int, expected_duplicates: int, expected_strays: int
) -> None:
    arrays = {partition: np.array(values, np.int64) for partition, values in held.items()}
    topic = {0: (0, 3), 1: (0, 7), 2: (0, 0)}
    assert gaps(arrays, {0: 0, 1: 5}, topic) == expected_gaps
    assert duplicates(arrays) == expected_duplicates
    assert strays(arrays, {0: 0, 1: 5}, topic) == expected_strays


def batch(pairs: list[tuple[int | None, int | None]]) -> pa.RecordBatch:
    columns = list(zip(*pairs, strict=True))
    return pa.record_batch(
        {
            "_kafka_partition": pa.array(columns[0], pa.int32()),
            "_kafka_offset": pa.array(columns[1], pa.int64()),
        }
    )


def test_coordinates_are_gathered_over_batches_and_rows_without_are_left_out() -> None:
    gathered = Coordinates()
    gathered.add(batch([(0, 5), (1, 7), (None, None), (0, 4)]))
    gathered.add(batch([(0, 5)]))
    assert {p: sorted(values.tolist()) for p, values in gathered.held().items()} == {0: [4, 5, 5], 1: [7]}
    assert {p: values.tolist() for p, values in gathered.once().items()} == {0: [4, 5], 1: [7]}


def test_what_is_in_the_table_and_aside_is_there_twice_and_aside_twice_once() -> None:
    table, aside = Coordinates(), Coordinates()
    table.add(batch([(0, 1), (0, 2)]))
    aside.add(batch([(0, 3), (0, 3), (1, 0)]))
    assert duplicates(both(table.held(), aside.once())) == 0
    aside.add(batch([(0, 2)]))
    assert duplicates(both(table.held(), aside.once())) == 1


@pytest.mark.parametrize(
    ("counts", "exact"), [((0, 0, 0), True), ((1, 0, 0), False), ((0, 1, 0), False), ((0, 0, 1), False)]
)
def test_exact_is_none_of_each(counts: tuple[int, int, int], exact: bool) -> None:
    assert Exactness(*counts, records=9).is_exact is exact
