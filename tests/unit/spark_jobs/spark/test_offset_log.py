"""The plan of a batch as the checkpoint has it."""

from __future__ import annotations

from typing import Any

import pytest

from spark_jobs.common.spark.offset_log import planned_end_offsets
from tests.support.plans import Plans
from tests.support.raising import raising

METADATA = '{"batchWatermarkMs":0}'


def test_the_ends_of_every_partition() -> None:
    plans: Any = Plans("v1", METADATA, '{"trips":{"0":5,"12":9000000000}}')
    assert planned_end_offsets(plans, 7, "trips") == {0: 5, 12: 9_000_000_000}


@pytest.mark.parametrize(
    ("lines", "data"),
    [
        (["v2", METADATA, '{"trips":{"0":5}}'], ("3 lines", "v2")),
        (["v1", METADATA], ("2 lines",)),
        (["v1", METADATA, '{"trips":{"0":5}}', '{"rides":{"0":5}}'], ("4 lines",)),
        ([], ("0 lines",)),
        (["v1", METADATA, '{"rides":{"0":5}}'], ("rides", "trips")),
        (["v1", METADATA, "7"], ("7", "trips")),
        (["v1", METADATA, "-"], ("JSON",)),
    ],
)
def test_a_plan_of_another_form_is_refused(lines: list[str], data: tuple[str, ...]) -> None:
    plans: Any = Plans(*lines)
    with raising(ValueError, "w3/offsets/7", *data):
        planned_end_offsets(plans, 7, "trips")
