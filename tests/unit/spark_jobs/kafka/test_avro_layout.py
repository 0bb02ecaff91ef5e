"""Schemas that read the same bytes: with another Avro library, over schemas of every type."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from sluice.config import streams
from spark_jobs.common.kafka.avro_layout import has_blocks, raw, with_entries

COLOR = {"type": "enum", "name": "Color", "symbols": ["RED", "GREEN"]}
PLACE = {
    "type": "record",
    "name": "Place",
    "namespace": "other",
    "fields": [{"name": "x", "type": "int", "default": 0}, {"name": "is_there", "type": "boolean"}],
}
PLACE_ = {**PLACE, "name": "Other"}
SCHEMA = {
    "type": "record",
    "name": "Every",
    "namespace": "of.all",
    "fields": [
        {"name": "number", "type": ["null", "int"], "default": None},
        {"name": "flag", "type": "boolean", "default": True},
        {"name": "other_flag", "type": {"type": "boolean"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "color", "type": COLOR},
        {"name": "place", "type": PLACE},
        {"name": "texts", "type": {"type": "map", "values": "string"}, "default": {}},
        {"name": "places", "type": {"type": "map", "values": {"type": "array", "items": "other.Place"}}},
        {"name": "colors", "type": {"type": "map", "values": ["null", "Color"]}},
        {
            "name": "either",
            "type": ["int", "long", "boolean", "string", {"type": "map", "values": "int"}, PLACE_],
        },
    ],
}
VALUES: dict[str, Any] = {
    "number": 7,
    "flag": True,
    "other_flag": False,
    "day": 19_000,
    "price": b"\x01\x00",
    "color": "GREEN",
    "place": {"x": 1, "is_there": True},
    "texts": {"b": "1", "a": "2"},
    "places": {"p": [{"x": 2, "is_there": False}]},
    "colors": {"c": "RED", "d": None},
    "either": "text",
}


def without_logical_types(schema: Any) -> Any:
    return json.loads(
        json.dumps(schema).replace(', "logicalType": "decimal", "precision": 9, "scale": 2', "")
    )


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def read(schema: Any, value: bytes) -> Any:
    stream = io.BytesIO(value)
    found = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), None)
    assert stream.read() == b""
    return found


@pytest.mark.parametrize("rewrite", [with_entries, raw])
def test_a_body_is_written_again_with_the_same_bytes(rewrite: Any) -> None:
    body = written(without_logical_types(SCHEMA), VALUES)
    other = without_logical_types(rewrite(SCHEMA))
    found = read(other, body)
    assert written(other, found) == body
    assert found["texts"] == [{"key": "b", "value": "1"}, {"key": "a", "value": "2"}]


def test_a_raw_schema_loses_nothing() -> None:
    fields = [
        {"name": "n", "type": "int"},
        {"name": "b", "type": "boolean"},
        {"name": "m", "type": {"type": "map", "values": "int"}},
    ]
    schema = raw({"type": "record", "name": "R", "fields": fields})
    body = b"\x82\x80\x80\x80\x20" + b"\x07" + b"\x04\x02a\x02\x02a\x04\x00"
    found = read(schema, body)
    assert found == {"n": 2**32 + 1, "b": b"\x07", "m": [{"key": "a", "value": 1}, {"key": "a", "value": 2}]}
    assert written(schema, found) == body


@pytest.mark.parametrize(
    ("branch", "body", "value"),
    [
        (0, b"\x82\x80\x80\x80\x20", {"value": 2**32 + 1}),
        (2, b"\x07", {"value": b"\x07"}),
        (4, b"\x02\x02a\x02\x00", {"value": [{"key": "a", "value": 1}]}),
    ],
)
def test_nor_of_a_union_of_several_types(branch: int, body: bytes, value: Any) -> None:
    schema = raw({"type": "record", "name": "R", "fields": [SCHEMA["fields"][-1]]})
    whole = bytes([branch * 2]) + body
    found = read(schema, whole)
    assert found == {"either": value}
    assert whole[1:] in written(schema, {"either": (_name(schema, branch), value)})


def _name(schema: Any, branch: int) -> str:
    return str(schema["fields"][0]["type"][branch]["name"])


def test_whether_a_body_has_blocks() -> None:
    assert has_blocks(SCHEMA)
    assert not has_blocks(PLACE)
    assert not has_blocks({"type": "record", "name": "R", "fields": [{"name": "p", "type": ["null", PLACE]}]})
    nested = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "p", "type": {"type": "array", "items": "int"}}],
    }
    assert has_blocks(["null", nested])


def test_a_streams_schema_is_not_changed() -> None:
    file: Path = streams.load("nyc_taxi").schema_file
    schema = json.loads(file.read_text())
    raw(schema), with_entries(schema)
    assert schema == json.loads(file.read_text())
