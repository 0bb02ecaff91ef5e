"""Values of [cluster] in stream.toml."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.config.reading.toml import ConfigError
from sluice.config.sections.cluster import Cluster, check, container_mb, memory_mb
from tests.support.raising import raising


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"executors": -1}, "executors is -1"),
        ({"driver_cores": 0}, "driver_cores is 0"),
        ({"executor_cores": 0}, "executor_cores is 0"),
        ({"driver_memory": "1"}, "'1'"),
        ({"driver_memory": "1G"}, "'1G'"),
        ({"driver_memory": "0g"}, "'0g'"),
        ({"executor_memory": "1.5g"}, "'1.5g'"),
        ({"executor_memory": "511m"}, "512m"),
        ({"driver_memory": "100m"}, "512m"),
        ({"driver_requests": "half"}, "'half'"),
        ({"driver_requests": "-1"}, "'-1'"),
        ({"executor_requests": "0"}, "more than 0"),
        ({"executor_requests": "1001m"}, "executor_cores, 1"),
        ({"driver_requests": "2.5"}, "driver_cores, 2"),
    ],
)
def test_a_wrong_value_is_named(values: dict[str, Any], said: str) -> None:
    with raising(ConfigError, "stream.toml", next(iter(values)), said):
        check(Cluster(**values), "stream.toml")


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"executors": 10, "executor_cores": 4, "executor_requests": "4"},
        {"driver_memory": "512m", "driver_requests": "1m"},
        {"executor_memory": "16g", "executor_requests": "0.25"},
    ],
)
def test_right_values(values: dict[str, Any]) -> None:
    check(Cluster(**values), "stream.toml")


@given(st.integers(1, 1_000_000), st.sampled_from("mg"))
def test_a_container_has_room_for_more_than_its_heap(number: int, unit: str) -> None:
    heap = memory_mb(f"{number}{unit}")
    assert heap == number * (1024 if unit == "g" else 1)
    assert container_mb(f"{number}{unit}") >= heap * 1.4 - 1 + 512
    assert container_mb(f"{number}{unit}") >= heap + 384 + 512


@pytest.mark.parametrize("text", ["", "m", "1k", "1 g", "1g\n"])
def test_memory_in_other_words(text: str) -> None:
    with raising(ValueError, repr(text)):
        memory_mb(text)
