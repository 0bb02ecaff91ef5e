"""Offsets as a frame to join with: these, no others, and few rows for many offsets."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from sluice.core.offsets.ranges import OffsetRanges
from spark_jobs.common.spark.columns import is_at, offset_masks

FAR = 2**40


@pytest.mark.parametrize(
    "offsets",
    [
        {0: [(0, 1)], 1: [(63, 64)]},
        {0: [(0, 64)], 1: [(64, 128)]},
        {0: [(1, 63), (64, 65), (66, 200)], 3: [(127, 129)]},
        {0: [(n, n + 1) for n in range(0, 300, 2)]},
        {1: [(FAR + 5, FAR + 70), (FAR + 100, FAR + 101)]},
        {},
    ],
)
def test_these_offsets_and_no_others(spark: SparkSession, offsets: dict[int, list[tuple[int, int]]]) -> None:
    wanted = OffsetRanges.of(offsets)
    near = [(p, n) for p in range(4) for n in [*range(310), *range(FAR - 70, FAR + 200)]]
    records = spark.createDataFrame([*near, (0, None), (None, 0)], "p int, o long")
    masks = offset_masks(spark, wanted)
    inside = records.join(masks, is_at("p", "o"), "left_semi").collect()
    outside = records.join(masks, is_at("p", "o"), "left_anti").collect()
    assert sorted(map(tuple, inside)) == [(p, n) for p, n in near if n in wanted[p]]
    assert len(inside) + len(outside) == len(near) + 2


def test_a_million_offsets_that_are_scattered_are_few_rows(spark: SparkSession) -> None:
    # As rows of a source between those of another, 300 of each in turn.
    scattered = OffsetRanges.of({0: [(n, n + 300) for n in range(0, 2_000_000, 600)]})
    assert scattered.count == 1_000_200
    assert offset_masks(spark, scattered).count() < 20_000
