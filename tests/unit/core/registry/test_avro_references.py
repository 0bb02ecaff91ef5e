"""Avro schemas whose types are in other subjects, as one."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from sluice.core.decoding.avro.parsing import parsed
from sluice.core.registry.avro_references import MAX_TYPES, self_contained
from sluice.core.registry.errors import RefusedSchema
from sluice.core.registry.json_text import MAX_NESTING
from tests.support.raising import raising

Tree = dict[str, Any]


def record(name: str, **fields: Any) -> Tree:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def resolved(own: Any, *others: Any) -> Any:
    return json.loads(self_contained(json.dumps(own), map(json.dumps, others), "schema id 7"))


MONEY = record("com.acme.Money", amount="long", unit={"type": "enum", "name": "Unit", "symbols": ["EUR"]})


def test_a_schema_without_references_stays_as_it_was_written() -> None:
    text = ' {"name":"a.R", "type":"record","fields":[{"type":"int","name":"x"}]}\n'
    assert self_contained(text, [], "x") == text


def test_a_type_is_put_where_it_is_used_first() -> None:
    own = record("com.acme.Order", first="com.acme.Money", others={"type": "array", "items": "Money"})
    found = resolved({**own, "doc": "d"}, MONEY)
    assert found["doc"] == "d"
    assert found["fields"][0]["type"]["name"] == "com.acme.Money"
    assert found["fields"][1]["type"] == {"type": "array", "items": "com.acme.Money"}
    assert parsed(json.dumps(found)).title == "com.acme.Order"


def test_a_part_of_a_reference_may_be_used_before_all_of_it() -> None:
    found = resolved(record("Order", unit="com.acme.Unit", price="com.acme.Money"), MONEY)
    assert found["fields"][0]["type"]["symbols"] == ["EUR"]
    assert found["fields"][1]["type"]["fields"][1]["type"] == "com.acme.Unit"
    parsed(json.dumps(found))


def test_references_of_references_and_a_namespace_that_is_inherited() -> None:
    line = {"type": "record", "name": "Line", "namespace": "b", "fields": [{"name": "p", "type": "a.Price"}]}
    found = resolved(
        record("Order", line="b.Line"),
        line,
        record("a.Price", unit={"type": "fixed", "name": "U", "size": 2}),
    )
    price = found["fields"][0]["type"]["fields"][0]["type"]
    assert (price["name"], price["fields"][0]["type"]["name"]) == ("a.Price", "a.U")
    parsed(json.dumps(found))


def test_a_type_without_a_namespace_keeps_none_inside_of_one() -> None:
    found: Any = resolved(
        ["null", {"type": "record", "name": "b.Order", "fields": [{"name": "p", "type": "Plain"}]}],
        record("Plain", x="int"),
    )
    branches: Any = fastavro.parse_schema(found)
    assert branches[1]["fields"][0]["type"]["name"] == "Plain"


@pytest.mark.parametrize("own", ["com.acme.Money", ["null", "com.acme.Money"], {"type": "com.acme.Money"}])
def test_a_schema_may_be_nothing_but_names(own: Any) -> None:
    found = resolved(own, MONEY)
    branch = found[1] if isinstance(found, list) else found
    assert branch["fields"][0] == {"name": "amount", "type": "long"}


def test_records_decode_as_with_all_schemas_at_once() -> None:
    """fastavro's own way with named schemas, as Confluent's deserializer in Python uses it."""
    own = record("com.acme.Order", price="com.acme.Money")
    named: dict[str, Any] = {}
    fastavro.parse_schema(MONEY, named_schemas=named)
    whole = fastavro.parse_schema(own, named_schemas=named)
    body, value = io.BytesIO(), {"price": {"amount": 5, "unit": "EUR"}}
    fastavro.schemaless_writer(body, whole, value)
    body.seek(0)
    assert fastavro.schemaless_reader(body, fastavro.parse_schema(resolved(own, MONEY)), None) == value


@pytest.mark.parametrize(
    ("own", "others", "words"),
    [
        (record("R", x="b.Missing"), [], "uses the type 'b.Missing', which no schema to which it refers"),
        (record("com.acme.Money", x="int"), [MONEY], "defines 'com.acme.Money', and so does a schema"),
        (record("R", a=record("X"), b=record("X")), [], "defines 'X' twice"),
        (record("R", a="X"), [record("X", a="int"), record("X", a="long")], "define 'X' differently"),
        ({"type": "record", "name": "R"}, [], "is no Avro schema: KeyError: 'fields'"),
        ({"type": "record", "name": 7, "fields": []}, [], "is no Avro schema: TypeError"),
        (7, [], "is no Avro schema"),
        ({"type": "array", "items": {"type": 7}}, [], "is no Avro schema"),
    ],
)
def test_what_does_not_fit_together_is_refused_by_name(own: Any, others: list[Any], words: str) -> None:
    with raising(RefusedSchema, "schema id 7", words):
        resolved(own, *others)


def test_a_type_may_contain_itself() -> None:
    node = record("Node", next=["null", "Node"])
    assert resolved(record("R", a="Node"), node)["fields"][0]["type"]["fields"][0]["type"] == ["null", "Node"]


def test_schemas_that_refer_to_each_other_are_put_into_one() -> None:
    found = resolved(record("R", a="A"), record("A", b=["null", "B"]), record("B", a=["null", "A"]))
    assert found["fields"][0]["type"]["fields"][0]["type"][1]["fields"][0]["type"] == ["null", "A"]


def test_names_that_stand_for_billions_of_types_are_refused() -> None:
    """Each record has two fields of the one before."""
    chain = [record("R0", x="int"), *(record(f"R{n}", a=f"R{n - 1}", b=f"R{n - 1}") for n in range(1, 40))]
    with raising(RefusedSchema, "schema id 7", MAX_TYPES):
        resolved("R39", *chain)
    assert resolved("R5", *chain)["name"] == "R5"


def test_references_cannot_nest_deeper_than_a_text_may() -> None:
    chain = [record("R0", x="int"), *(record(f"R{n}", a=f"R{n - 1}") for n in range(1, MAX_NESTING))]
    with raising(RefusedSchema, "schema id 7 is nested deeper"):
        resolved(f"R{MAX_NESTING - 1}", *chain)
