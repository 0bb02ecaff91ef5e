"""Fields of a topic that are columns of a new stream, and fields that are not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.cli.topics.columns import column_beside, of_avro, of_ddl
from sluice.core.decoding.avro.decoder import AvroDecoder
from sluice.core.decoding.avro.names import definitions

ADDRESS = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}


def schema(*fields: tuple[str, Any]) -> str:
    """A record with these fields."""
    found = [{"name": name, "type": kind} for name, kind in fields]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": found})


def names(text: str) -> list[str]:
    return [field["name"] for field in json.loads(text)["fields"]]


def test_a_schema_whose_fields_are_all_columns_stays_as_it_is() -> None:
    text = schema(("id", "long"), ("billing", ADDRESS), ("shipping", ["null", "shop.Address"]))
    assert of_avro(text) == (text, [])
    assert of_avro('"string"') == ('"string"', [])


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2}


@pytest.mark.parametrize(
    ("name", "kind", "why"),
    [
        ("amount", ["int", DECIMAL], "precision 60"),
        ("nothing", "null", "null"),
        ("_file", "string", "Iceberg's own"),
        ("_kafka_offset", "long", "Sluice's own"),
        ("ID", "long", "differ in case"),
        ("inner", {"type": "record", "name": "In", "fields": [{"name": "_pos", "type": "int"}]}, "_pos"),
    ],
)
def test_a_field_that_no_column_can_be_is_left_out_with_a_doubt(name: str, kind: Any, why: str) -> None:
    text, doubts = of_avro(schema(("id", "long"), (name, kind), ("note", "string")))
    assert names(text) == ["id", "note"]
    (doubt,) = doubts
    assert repr(name) in doubt
    assert "_unknown_fields" in doubt
    assert why in doubt


def test_a_type_that_a_field_left_out_defined_is_still_defined() -> None:
    inner = {"type": "record", "name": "Both", "fields": [{"name": "a", "type": ADDRESS}]}
    text, doubts = of_avro(
        schema(
            ("either", ["string", inner, DECIMAL]), ("home", "Address"), ("both", "shop.Both"), ("id", "long")
        )
    )
    assert len(doubts) == 1
    assert names(text) == ["home", "both", "id"]
    assert dict(definitions(json.loads(text))).keys() == {"shop.Order", "shop.Address", "shop.Both"}
    assert [field.name for field in AvroDecoder(text).schema] == ["home", "both", "id"]


def test_members_of_json() -> None:
    columns, doubts = of_ddl(
        {"id": "BIGINT", "_deleted": "BOOLEAN", "_Unknown_fields": "STRING", "note": "STRING"}
    )
    assert columns == {"id": "BIGINT", "note": "STRING"}
    assert "'_deleted'" in doubts[0]


def test_keys_have_a_column_of_their_own() -> None:
    assert column_beside(["id"], "key") == "key"
    assert column_beside(["KEY"], "key") == "record_key"
    assert column_beside(["key", "record_key", "record_key_2"], "key") == "record_key_3"
