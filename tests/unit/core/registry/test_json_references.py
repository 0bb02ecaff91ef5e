"""JSON Schemas in other subjects, as one; nothing is fetched."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator

from sluice.core.registry.errors import RefusedSchema
from sluice.core.registry.json_references import MAX_PARTS, self_contained
from tests.support.raising import raising


def resolved(own: Any, **others: Any) -> Any:
    texts = {name.replace("_", "."): json.dumps(other) for name, other in others.items()}
    return json.loads(self_contained(json.dumps(own), texts, "schema id 7"))


def test_a_schema_without_references_stays_as_it_was_written() -> None:
    text = ' {"$id":"http://h/x.json", "properties": {"a": {"$ref":"#/$defs/a"}}, "$defs":{"a":{}} }'
    assert self_contained(text, {}, "x") == text


def test_a_reference_is_put_among_the_definitions() -> None:
    customer = {
        "$id": "customer.json",
        "properties": {"id": {"$ref": "#/definitions/id"}, "self": {"$ref": "customer.json#"}},
        "definitions": {"id": {"type": "integer"}},
    }
    found = resolved(
        {
            "properties": {
                "buyer": {"$ref": "customer.json"},
                "id": {"$ref": "customer.json#/definitions/id"},
                "$ref": {"const": {"$ref": "http://h/data"}},
            }
        },
        customer_json=customer,
    )
    check = Draft202012Validator(found)
    assert not list(check.iter_errors({"buyer": {"id": 1, "self": {"id": 2}}, "id": 3}))
    assert len(list(check.iter_errors({"buyer": {"id": "x", "self": {"id": "y"}}, "id": "z"}))) == 3
    assert found["properties"]["$ref"] == {"const": {"$ref": "http://h/data"}}, "a property's name, and data"


def test_references_of_references_by_relative_addresses() -> None:
    draft = "http://json-schema.org/draft-07/schema"
    own = {
        "$id": "http://h/schemas/order.json",
        "$schema": f"{draft}#",
        "properties": {"a": {"$ref": "a.json"}},
    }
    referenced = {
        "http://h/schemas/a.json": json.dumps({"$schema": draft, "items": {"$ref": "b"}}),
        "b": '{"type": "string"}',
    }
    check = Draft7Validator(json.loads(self_contained(json.dumps(own), referenced, "x")))
    assert [error.instance for error in check.iter_errors({"a": ["x", 1]})] == [1]


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"$ref": "http://169.254.169.254/latest"}, "$ref 'http://169.254.169.254/latest', which is not one"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "'file:///etc/passwd'"),
        ({"allOf": [{"$dynamicRef": "http://h/x"}]}, "'http://h/x'"),
        ({"$ref": "#/$defs/none"}, "$ref '#/$defs/none', which leads nowhere"),
        ({"$ref": "#/allOf/9", "allOf": [{}]}, "leads nowhere"),
    ],
)
def test_a_ref_that_is_not_in_the_schema_is_refused(own: Any, words: str) -> None:
    with raising(RefusedSchema, "schema id 7", words):
        resolved(own)


@pytest.mark.parametrize(
    ("own", "other", "words"),
    [
        ({"$ref": "o.json#anchor"}, {}, "anchor"),
        ({"$ref": "o.json"}, {"$anchor": "a"}, "$anchor"),
        ({"$ref": "o.json"}, {"properties": {"a": {"$id": "http://h/"}}}, "$id"),
        ({"$ref": "o.json", "$schema": "a"}, {"$schema": "b"}, "different values of $schema"),
        ({"$ref": "o.json", "$defs": {"reference-1": {}}}, {}, "reference-1"),
    ],
)
def test_references_that_are_not_simple_are_refused(own: Any, other: Any, words: str) -> None:
    with raising(RefusedSchema, "schema id 7", words):
        resolved(own, o_json=other)


def test_refs_that_stand_for_billions_of_parts_are_refused() -> None:
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for n in range(1, 40):
        ref = {"$ref": f"#/$defs/d{n - 1}"}
        definitions[f"d{n}"] = {"properties": {"a": ref, "b": ref}}
    with raising(RefusedSchema, "schema id 7", MAX_PARTS):
        resolved({"$ref": "#/$defs/d39", "$defs": definitions})


def test_a_schema_may_contain_itself() -> None:
    own = {"properties": {"next": {"$ref": "#"}, "other": {"$ref": "#/properties/next"}}}
    assert resolved(own) == own


def test_a_long_way_of_refs_is_refused() -> None:
    definitions: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(3_000)} | {
        "d3000": {}
    }
    with raising(RefusedSchema, "schema id 7", "nested deeper"):
        resolved({"$ref": "#/$defs/d0", "$defs": definitions})


def test_a_boolean_is_a_schema() -> None:
    assert resolved(True) is True
    assert resolved({"$ref": "o.json"}, o_json=False)["$defs"]["reference-1"] is False
