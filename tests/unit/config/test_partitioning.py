from __future__ import annotations

import pytest

from sluice.config.reading.toml import ConfigError
from sluice.config.schema import Partition, parse, parse_all, spelled
from tests.support.raising import raising


@pytest.mark.parametrize(
    ("text", "partition", "sql"),
    [
        ("day", Partition("day"), "`day`"),
        ("truncate(1, zipcode)", Partition("zipcode", 1), "truncate(1, `zipcode`)"),
        ("truncate( 10,zipcode )", Partition("zipcode", 10), "truncate(10, `zipcode`)"),
    ],
)
def test_a_column_or_the_beginning_of_its_values(text: str, partition: Partition, sql: str) -> None:
    assert parse(text, "x") == partition
    assert partition.sql == sql
    assert parse(str(partition), "x") == partition


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Day", "s.toml: partition_by: column 'Day'. Fix: use"),
        ("", "column ''"),
        ("day ", "column 'day '"),
        ("truncate(0, zipcode)", "'truncate(0, zipcode)': its width is 0. Fix: write at least 1"),
        ("truncate(1, Zip)", "column 'Zip'"),
        ("truncate(1,)", "column ''"),
        (
            "truncate(zipcode)",
            "partition 'truncate(zipcode)'. Fix: write a column, or truncate(<width>",
        ),
        ("truncate(-1, zipcode)", "write a column, or truncate"),
        ("bucket(4, zipcode)", "write a column, or truncate"),
        ("truncate(1, zipcode) x", "write a column, or truncate"),
    ],
)
def test_anything_else_is_refused(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_all([text], "s.toml")
    assert words in str(caught.value)


def test_a_column_is_named_once() -> None:
    with raising(ConfigError, "s.toml", "'a'"):
        parse_all(["a", "truncate(2, a)"], "s.toml")


def test_what_iceberg_says_is_spelled_as_a_stream_does() -> None:
    assert spelled("day", "identity") == "day"
    assert spelled("zipcode", "truncate[1]") == str(Partition("zipcode", 1))
    assert (spelled("at", "day"), spelled("id", "bucket[16]")) == ("day(at)", "bucket(16, id)")
