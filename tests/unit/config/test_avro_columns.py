"""The columns of an Avro schema, and a table's against them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sluice.config import streams
from sluice.config.reading.toml import ConfigError
from sluice.config.schema import avro_iceberg_type
from sluice.config.stream_columns import OFFSET_COLUMNS, check, differences
from sluice.core.decoding.avro.names import definitions
from tests.support.raising import raising

SCHEMA: dict[str, Any] = {
    "fields": [
        {"name": "a", "type": ["null", "int"]},
        {"name": "t", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "m", "type": ["null", {"type": "map", "values": "string"}]},
    ]
}
WANTED = {field["name"]: avro_iceberg_type(field["type"]) for field in SCHEMA["fields"]}
GOOD = {"a": "int", "t": "timestamp", "m": "map<string, string>", **OFFSET_COLUMNS}


def test_as_declared() -> None:
    assert differences("x", WANTED, GOOD) == []


def test_a_wider_type_and_more_columns_are_no_problem() -> None:
    assert differences("x", WANTED, {**GOOD, "a": "long", "old": "string"}) == []


@pytest.mark.parametrize("name", ["a", "_kafka_offset", "_source_base_offset"])
def test_a_column_that_lacks_is_named(name: str) -> None:
    columns = {key: value for key, value in GOOD.items() if key != name}
    (problem,) = differences("x", WANTED, columns)
    assert f"has no column {name} " in problem


def test_another_type_is_named() -> None:
    (problem,) = differences("x", WANTED, {**GOOD, "t": "string"})
    assert problem == "schema: column t of table x is string, the stream declares timestamp"


@pytest.mark.parametrize(
    ("avro", "iceberg"),
    [
        ("bytes", "binary"),
        ({"type": "int", "logicalType": "date"}, "date"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "decimal(9, 2)"),
        ({"type": "fixed", "name": "f", "size": 16}, "binary"),
        (["null", {"type": "fixed", "name": "f", "size": 16, "logicalType": "uuid"}], "binary"),
        (
            {"type": "fixed", "name": "f", "size": 4, "logicalType": "decimal", "precision": 9},
            "decimal(9, 0)",
        ),
        ({"type": "record", "name": "r", "fields": []}, "struct<"),
        (["null", {"type": "enum", "name": "e", "symbols": []}], "string"),
        (["null", "int", "string"], "struct<"),
        (["long", "null", "int"], "long"),
        (["float", "double"], "double"),
    ],
)
def test_types(avro: Any, iceberg: str) -> None:
    assert avro_iceberg_type(avro) == iceberg


def test_a_type_that_is_used_again_by_its_name(tmp_path: Path) -> None:
    """As before and after are in each record of Debezium."""
    value = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": KIND}]}
    fields: list[dict[str, Any]] = [
        {"name": "before", "type": ["null", value]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "again", "type": "shop.orders.Value"},
        {"name": "kind", "type": ["null", "shop.Kind"]},
    ]
    schema = {"type": "record", "name": "shop.orders.Envelope", "namespace": "no", "fields": fields}
    file = tmp_path / "schema.avsc"
    file.write_text(json.dumps(schema))
    spec = streams.load("nyc_taxi")
    # All its columns are read before the stream's map is found to be none of them.
    with raising(ConfigError, "other_columns"):
        check(spec, file)
    fields[3]["type"] = "other.Kind"
    file.write_text(json.dumps(schema))
    with raising(ConfigError, "column 'kind'", "other.Kind"):
        check(spec, file)
    named = dict(definitions(schema))
    assert {*named} == {"shop.orders.Envelope", "shop.orders.Value", "shop.Kind"}
    assert avro_iceberg_type("Value", named, "shop.orders") == "struct<"


KIND = {"type": "enum", "name": "shop.Kind", "symbols": ["A"]}


@pytest.mark.parametrize("avro", ["null", ["null"], ["null", "int", "duration"], "duration"])
def test_what_has_no_column_is_refused(avro: Any) -> None:
    with raising(ValueError, avro[-1] if isinstance(avro, list) else avro):
        avro_iceberg_type(avro)


@pytest.mark.parametrize(("precision", "scale"), [(50, 2), (2, 3), ("9", 2), (0, 0)])
def test_a_decimal_that_no_table_can_hold_is_refused(precision: Any, scale: int) -> None:
    avro = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    with raising(ValueError, str(precision), "at most 38"):
        avro_iceberg_type(avro)


def test_the_column_of_a_type_that_is_refused_is_named(tmp_path: Path) -> None:
    types = [*(["null", "int"] for _ in range(50)), ["int", "duration"]]
    fields = [{"name": f"field_{number}", "type": one} for number, one in enumerate(types)]
    file = tmp_path / "schema.avsc"
    file.write_text(json.dumps({"type": "record", "name": "T", "fields": fields}))
    with raising(ConfigError, "nyc_taxi/schema.avsc: column 'field_50': Avro type") as message:
        check(streams.load("nyc_taxi"), file)
    assert str(message.value).count("Fix: ") == 1
