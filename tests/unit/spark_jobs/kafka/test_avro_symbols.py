"""The enums of a schema's columns, wherever they are defined."""

from __future__ import annotations

import json

import pytest

from spark_jobs.common.kafka.avro import AvroSchema

COLOR = {"type": "enum", "name": "Color", "symbols": ["RED", "GREEN"]}


@pytest.mark.parametrize(
    ("fields", "symbols"),
    [
        ([("a", "string")], {}),
        ([("a", COLOR), ("b", ["null", "Color"]), ("c", "n.Color")], dict.fromkeys("abc", ("RED", "GREEN"))),
        # Defined in a record within, and used again at the top.
        (
            [
                ("a", {"type": "record", "name": "Car", "fields": [{"name": "color", "type": COLOR}]}),
                ("b", ["null", "Color"]),
            ],
            {"b": ("RED", "GREEN")},
        ),
        ([("a", {"type": "array", "items": COLOR}), ("b", "n.Color")], {"b": ("RED", "GREEN")}),
    ],
)
def test_the_enums_of_columns(fields: list[tuple[str, object]], symbols: dict[str, tuple[str, ...]]) -> None:
    record = {"type": "record", "name": "R", "namespace": "n"}
    document = record | {"fields": [{"name": name, "type": kind} for name, kind in fields]}
    assert AvroSchema(json.dumps(document)).symbols == symbols
