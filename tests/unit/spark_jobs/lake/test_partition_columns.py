"""Columns that a table can be partitioned by."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from sluice.config.reading.toml import ConfigError
from sluice.config.schema import Partition
from sluice.config.stream import StreamSpec
from spark_jobs.common.lake.tables import _check_partitions
from tests.support.raising import raising

KINDS = {
    "f": FloatType(),
    "d": DoubleType(),
    "i": IntegerType(),
    "l": LongType(),
    "t": StringType(),
    "b": BinaryType(),
    "m": DecimalType(38, 2),
    "day": DateType(),
    "at": TimestampType(),
    "is": BooleanType(),
}
RECORD = StructType([StructField(name, kind) for name, kind in KINDS.items()])


def check(*partitions: Partition) -> None:
    given = SimpleNamespace(name="trips", schema="schema.avsc", partitions=list(partitions))
    _check_partitions(cast("StreamSpec", given), RECORD)


@pytest.mark.parametrize("width", [None, 10])
@pytest.mark.parametrize(("column", "kind"), [("f", "float"), ("d", "double")])
def test_no_table_is_partitioned_by_what_may_not_be_equal_to_itself(
    column: str, kind: str, width: int | None
) -> None:
    one = Partition(column, width)
    with raising(ConfigError, "stream trips", str(one), f"{column} is a {kind}", "NaN", "Fix: "):
        check(Partition("day"), one)


@pytest.mark.parametrize("column", ["i", "l", "t", "b", "m", "day", "at", "is"])
def test_others_are_partitions_by_their_values(column: str) -> None:
    check(Partition(column))


@pytest.mark.parametrize("column", ["i", "l", "t", "b", "m"])
def test_texts_and_whole_numbers_can_be_truncated(column: str) -> None:
    check(Partition(column, 3))


@pytest.mark.parametrize("column", ["day", "at", "is"])
def test_others_cannot_be_truncated(column: str) -> None:
    with raising(ConfigError, f"truncate(3, {column})", "only texts and whole numbers"):
        check(Partition(column, 3))


def test_a_partition_is_a_column() -> None:
    with raising(ConfigError, "'other' is no column of schema.avsc"):
        check(Partition("i"), Partition("other"))


def test_without_a_partition_there_is_nothing_to_check() -> None:
    check()
