from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.config import streams
from sluice.config.reading.toml import ConfigError
from sluice.config.schema import TYPES, parse_ddl
from sluice.config.stream_columns import has_closed_dates
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
        ("a INT\nb", "schema.ddl line 2: column 'b': type missing. Fix: use one of boolean"),
        ("a SMALLINT", "line 1: column 'a': type 'SMALLINT'. Fix: use one of"),
        ("a ARRAY<INT>", "type 'ARRAY<INT>'"),
        ("a INT NOT NULL", "type 'INT NOT NULL'"),
        ("a DECIMAL(39, 2)", "type 'DECIMAL"),
        ("a DECIMAL(2, 3)", "type 'DECIMAL"),
        ("a DECIMAL(0, 0)", "type 'DECIMAL"),
        ("A INT", "line 1: column 'A'. Fix: use lower-case letters"),
        ("`a` INT", "'`a`' cannot be a column"),
        ("1a INT", "'1a' cannot be a column"),
        ("a INT\na INT", "line 2: column 'a' is there twice"),
        ("_kafka_offset BIGINT", "names in _kafka_, _source_, _sluice_ are Sluice's own"),
        ("_source_id STRING", "Sluice's own"),
        ("_pos BIGINT", "the name is Iceberg's own"),
        ("_last_updated_sequence_number BIGINT", "the name is Iceberg's own"),
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
    for spec in map(streams.load, streams.names()):
        if not spec.is_avro:
            columns = parse_ddl(spec.schema_file.read_text())
            assert {partition.column for partition in spec.partitions} <= set(columns)
            assert spec.feed is None or spec.feed.event_id in columns


def test_a_stream_that_is_partitioned_by_a_date_first_has_closed_dates() -> None:
    spec = streams.load("wiki_changes")
    assert has_closed_dates(spec)
    assert has_closed_dates(streams.load("isp_hits"))
    assert not has_closed_dates(streams.load("nyc_taxi"))
    for other in (["server_name"], ["server_name", "change_timestamp_date"], ["absent"]):
        assert not has_closed_dates(replace(spec, partition_by=other))
    assert not has_closed_dates(replace(spec, partition_by=["truncate(4, change_timestamp_date)"]))
