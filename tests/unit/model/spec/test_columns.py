from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.model.spec import stream
from sluice.model.spec.config import ConfigError
from sluice.model.spec.schema import TYPES, date_column, has_closed_dates, parse_all, parse_ddl
from tests.support.raising import raising


def test_columns_are_read_in_their_order() -> None:
    text = "-- of a table\n\nid BIGINT -- the rider's\nname\tString,\n  paid  DECIMAL(10, 2)\n_at timestamp\n"
    assert list(parse_ddl(text).items()) == [
        ("id", "bigint"),
        ("name", "string"),
        ("paid", "decimal(10,2)"),
        ("_at", "timestamp"),
    ]


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_is_known_in_any_case(kind: str) -> None:
    assert parse_ddl(f"a {kind.upper()}") == {"a": kind}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "schema.ddl: no column. Fix: write one per line"),
        ("-- a INT", "no column"),
        ("a INT\nb", "schema.ddl line 2: column 'b': type missing: use one of boolean"),
        ("a SMALLINT", "line 1: column 'a': type SMALLINT: use one of"),
        ("a ARRAY<INT>", "type ARRAY<INT>"),
        ("a INT NOT NULL", "type INT NOT NULL"),
        ("a DECIMAL(39, 2)", "type DECIMAL"),
        ("a DECIMAL(2, 3)", "type DECIMAL"),
        ("a DECIMAL(0, 0)", "type DECIMAL"),
        ("A INT", "line 1: column 'A': use lower-case letters"),
        ("`a` INT", "use lower-case letters"),
        ("1a INT", "use lower-case letters"),
        ("a INT\na INT", "line 2: column 'a' is there twice"),
        ("_kafka_offset BIGINT", "names in _kafka_ and _source_ are Sluice's own"),
        ("_source_id STRING", "Sluice's own"),
    ],
)
def test_a_wrong_declaration_is_named_with_its_line(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_ddl(text)
    assert words in str(caught.value)


def test_a_message_names_the_file() -> None:
    with raising(ConfigError, "rides/schema.ddl", "line 1"):
        parse_ddl("a X", "rides/schema.ddl")


def test_streams_partition_by_columns_that_they_have() -> None:
    for spec in map(stream.load, stream.names()):
        if not spec.is_avro:
            columns = parse_ddl(spec.schema_file.read_text())
            assert {partition.column for partition in spec.partitions} <= set(columns)
            assert spec.feed is None or spec.feed.event_id in columns


TYPED = {"day": "date", "at": "timestamptz", "server": "string"}


def test_a_table_is_compacted_by_the_date_that_it_is_partitioned_by_first() -> None:
    assert date_column(parse_all(["day", "server"], "s"), TYPED, "raw.s") == "day"


@pytest.mark.parametrize(
    ("partition_by", "words"),
    [
        ([], "raw.s: no partition_by"),
        (["server", "day"], "the first partition is server, and column server is a string; expected a date"),
        (["at"], "column at is a timestamptz"),
        (["truncate(4, server)", "day"], "the first partition is truncate(4, server)"),
        (["hour"], "column hour is missing"),
    ],
)
def test_what_has_no_closed_dates_is_named(partition_by: list[str], words: str) -> None:
    with raising(ConfigError, words):
        date_column(parse_all(partition_by, "s"), TYPED, "raw.s")


def test_only_a_stream_with_closed_dates_is_compacted() -> None:
    spec = stream.load("wiki_changes")
    assert has_closed_dates(spec)
    assert has_closed_dates(stream.load("isp_hits"))
    assert not has_closed_dates(stream.load("nyc_taxi"))
    assert not has_closed_dates(replace(spec, partition_by=["server_name"]))
    assert not has_closed_dates(replace(spec, schema="absent.ddl"))
