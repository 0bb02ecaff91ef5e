"""Schemas that contain themselves: where they do, a table has the text of JSON, by declaration; Protobuf's
have the same words."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sluice.core.decoding.avro.following.conflicts import Names
from sluice.core.decoding.avro.following.merging import merge
from sluice.core.decoding.avro.following.recursive import unrolled
from sluice.core.decoding.avro.parsing import declared, parsed, recursion, written
from sluice.core.decoding.avro.reference.layout import MAX_LEVELS
from sluice.core.decoding.avro.types import UnsupportedSchema, arrow_type
from sluice.core.decoding.protobuf.decoder import ProtobufDecoder, TableMessage
from sluice.core.decoding.registered.avro import RegisteredAvro, RegisteredAvroKeys
from sluice.core.decoding.registered.unfollowed import Following
from tests.support.protobuf import OLD, RECURSIVE, proto3, schema
from tests.support.raising import raising
from tests.support.registered import FakeSchemas, avro, by_both, encoded, framed

KEPT = "_unknown_fields"


def record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    named = [{"name": one, "type": kind} for one, kind in fields]
    return {"type": "record", "name": name, "fields": named}


def array(of: Any) -> Any:
    return {"type": "array", "items": of}


def mapped(of: Any) -> Any:
    return {"type": "map", "values": of}


PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 2}
AT = {"type": "long", "logicalType": "timestamp-millis"}
LEAF = record("o.Leaf", ("raw", "bytes"), ("price", PRICE), ("at", ["null", AT]), ("x", ["null", "float"]))
EITHER: Any = ["null", "int", LEAF, "s.T"]
# Name -> fields beside `id`, the paths that are texts, and a value with its row.
SHAPES: dict[str, tuple[list[tuple[str, Any]], list[str], dict[str, Any], dict[str, Any]]] = {
    "in a union": (
        [("next", ["null", "T"])],
        ["next"],
        {"next": {"id": 2, "next": {"id": 3, "next": None}}},
        {"next": '{"id":2,"next":{"id":3,"next":null}}'},
    ),
    "that is null": ([("next", ["null", "T"])], ["next"], {"next": None}, {"next": None}),
    "in a list": (
        [("parts", array("T"))],
        ["parts"],
        {"parts": [{"id": 2, "parts": []}, {"id": 3, "parts": [{"id": 4, "parts": []}]}]},
        {"parts": '[{"id":2,"parts":[]},{"id":3,"parts":[{"id":4,"parts":[]}]}]'},
    ),
    "in a map of lists": (
        [("by", mapped(array(["null", "T"])))],
        ["by"],
        {"by": {"a": [None, {"id": 2, "by": {}}]}},
        {"by": '{"a":[null,{"id":2,"by":{}}]}'},
    ),
    "by two records": (
        [("in", record("I", ("y", "long"), ("out", ["T", "null"])))],
        ["in.out"],
        {"in": {"y": 5, "out": {"id": 2, "in": {"y": 6, "out": None}}}},
        {"in": {"y": 5, "out": '{"id":2,"in":{"y":6,"out":null}}'}},
    ),
    "in a record of a list": (
        [("parts", array(record("P", ("n", "int"), ("of", ["null", "T"]))))],
        ["parts[].of"],
        {"parts": [{"n": 1, "of": None}, {"n": 2, "of": {"id": 3, "parts": []}}]},
        {"parts": [{"n": 1, "of": None}, {"n": 2, "of": '{"id":3,"parts":[]}'}]},
    ),
    "in a union of several records": (
        [("one", EITHER), ("more", array(["null", "int", "o.Leaf", "s.T"]))],
        ["one", "more"],
        {
            "one": ("s.T", {"id": 2, "one": 7, "more": []}),
            "more": [("o.Leaf", {"raw": b"\xff", "price": Decimal("-1.50"), "at": None, "x": 0.1}), 4],
        },
        {
            "one": '{"id":2,"one":7,"more":[]}',
            "more": '[{"raw":"/w==","price":"-1.50","at":null,"x":0.1},4]',
        },
    ),
}


def shape(name: str) -> dict[str, Any]:
    fields = SHAPES[name][0]
    return {**record("T", ("id", "int"), *fields), "namespace": "s"}


# What a table of the shape has, and one that follows a schema of the shape.
@pytest.mark.parametrize("is_followed", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_where_a_record_is_inside_of_itself_there_is_the_text_of_json(name: str, is_followed: bool) -> None:
    tree, (_, paths, value, row) = shape(name), SHAPES[name]
    with raising(
        UnsupportedSchema, f"the Avro schema is recursive: {paths[0]} is a s.T inside of another one"
    ):
        parsed(json.dumps(tree))
    if is_followed:
        table = parsed(json.dumps({**record("T", ("id", "int")), "namespace": "s"}))
        found = merge(table, written(json.dumps(tree)), Names())
        assert found.reason.startswith(
            f"{paths[0]}: the table has no such column, the schema a s.T inside of another one"
        )
        found = merge(table, written(json.dumps(tree)), Names(), recursive_as_text=True)
        text = found.text
        assert not found.conflicts
        assert not merge(found.schema, written(json.dumps(tree)), recursive_as_text=True).is_new
    else:
        text = unrolled(json.dumps(tree))
    schemas = FakeSchemas({1: avro(tree)})
    sent = encoded(schemas, 1, {"id": 1, **value})
    decoder = RegisteredAvro(text, schemas, KEPT, following=Following(recursive_as_text=True))
    assert by_both(decoder, [sent, sent[:-1]])[0] == {"id": 1, **row, KEPT: None}
    assert unrolled(text) == text


def test_what_the_table_lacks_of_it_is_kept_without_a_declaration() -> None:
    tree = shape("in a list")
    schemas = FakeSchemas({1: avro(tree)})
    sent = encoded(schemas, 1, {"id": 1, **SHAPES["in a list"][2]})
    table = json.dumps(record("T", ("id", "int")))
    assert by_both(RegisteredAvro(table, schemas, KEPT), [sent]) == [
        {"id": 1, KEPT: '{"parts":[{"id":2,"parts":[]},{"id":3,"parts":[{"id":4,"parts":[]}]}]}'}
    ]
    assert by_both(RegisteredAvroKeys("key", schemas), [sent]) == [
        {"key": '{"id":1,"parts":[{"id":2,"parts":[]},{"id":3,"parts":[{"id":4,"parts":[]}]}]}'}
    ]


def test_a_text_stays_one_whatever_later_versions_have_there() -> None:
    first, later = (
        shape("in a union"),
        {**record("T", ("id", "int"), ("next", ["null", LEAF])), "namespace": "s"},
    )
    text = unrolled(json.dumps(first))
    assert not merge(parsed(text), written(json.dumps(later)), recursive_as_text=True).is_new
    schemas = FakeSchemas({1: avro(later), 2: avro(record("T", ("id", "int"), ("next", AT)))})
    leaf = {"raw": b"", "price": Decimal(1), "at": None, "x": None}
    sent = [encoded(schemas, 1, {"id": 1, "next": one}) for one in (leaf, None)]
    sent.append(encoded(schemas, 2, {"id": 1, "next": 1_000}))
    rows = by_both(RegisteredAvro(text, schemas, KEPT), sent)
    texts = ['{"raw":"","price":"1.00","at":null,"x":null}', None, '"1970-01-01T00:00:01.000000Z"']
    assert rows == [{"id": 1, "next": one, KEPT: None} for one in texts]
    # The other way, a column of fields stays one.
    found = merge(parsed(json.dumps(later)), written(json.dumps(first)), recursive_as_text=True)
    assert "next: the table has record {raw: bytes," in found.reason
    assert found.reason.endswith("the schema a s.T inside of another one")


def deep(levels: int) -> bytes:
    """A record with so many inside of each other, itself counted."""
    return b"\2\2" * (levels - 1) + b"\2\0"


@pytest.mark.parametrize("kept", [True, False])
def test_records_that_are_as_deep_as_no_reader_can_read_are_refused(kept: bool) -> None:
    tree = shape("in a union")
    schemas = FakeSchemas({1: avro(tree)})
    text = unrolled(json.dumps(tree)) if kept else json.dumps(record("T", ("id", "int")))
    decoder = RegisteredAvro(text, schemas, KEPT)
    most, *others = by_both(
        decoder, [framed(1, deep(one)) for one in (MAX_LEVELS + 1, MAX_LEVELS + 2, 10_000, 1_000_000)]
    )
    assert (most["next"] if kept else most[KEPT]).count('"id":1') == MAX_LEVELS
    assert (
        others == [f"not an Avro body of T: next has more than {MAX_LEVELS} records inside of each other"] * 3
    )


def test_lists_of_lists_are_refused_before_they_end_the_process() -> None:
    lists: Any = "T"
    for _ in range(40):
        lists = array(lists)
    tree = record("T", ("parts", lists))
    text = unrolled(json.dumps(tree))
    decoder = RegisteredAvro(text, FakeSchemas({1: avro(tree)}), KEPT)
    (found,) = by_both(decoder, [framed(1, b"\2" * 5_000 + b"\0" * 9_000)])
    assert "nested too deeply" in found


def test_a_record_that_has_itself_without_an_end_has_no_value() -> None:
    tree = record("T", ("id", "int"), ("next", "T"))
    text = unrolled(json.dumps(tree))
    found = by_both(
        RegisteredAvro(text, FakeSchemas({1: avro(tree)})), [framed(1, b"\2" * n) for n in (1, 900)]
    )
    assert all(isinstance(one, str) for one in found)


def test_the_order_of_fields_says_nothing_about_columns() -> None:
    def types(*names: str) -> pa.DataType:
        b = record("B", ("x", "int"), ("a", array("A")), ("c", record("C", ("bs", mapped("B")))))
        c = record("C", ("bs", mapped(record("B", ("x", "int"), ("a", array("A")), ("c", "C")))))
        kinds = {"b": b, "c": "C"} if names[0] == "b" else {"b": "B", "c": c}
        tree = record("A", *((name, kinds[name]) for name in names))
        found = arrow_type(parsed(unrolled(json.dumps(tree))).record)
        return {name: found.field(name).type for name in names}

    assert types("b", "c") == types("c", "b")
    assert types("b", "c")["c"] == pa.struct(
        {"bs": pa.map_(pa.utf8(), pa.struct({"x": pa.int32(), "a": pa.utf8(), "c": pa.utf8()}))}
    )


def test_a_few_records_that_have_each_other_stand_for_too_many_paths() -> None:
    names = [f"R{n}" for n in range(12)]
    defined: dict[str, Any] = {}

    def of(number: int) -> Any:
        parts: list[tuple[str, Any]] = []
        defined[names[number]] = True
        for other in range(12):
            name = names[other]
            kind = name if name in defined or other == number else of(other)
            parts.append((f"f{other}", ["null", kind]))
        return record(names[number], *parts)

    tree = of(0)
    for read in (declared, written):
        with raising(UnsupportedSchema, "fields, with those of records inside of each other"):
            read(json.dumps(tree))


def test_a_map_that_has_itself_by_two_paths_is_named_by_the_first() -> None:
    tree = record(
        "T", ("a", record("A", ("b", mapped(array(record("B", ("t", "T"))))))), ("t", ["null", "T"])
    )
    said = recursion(written(json.dumps(tree)).record)
    assert said == "a.b[][].t is a T inside of another one, and no table has such columns"


def test_protobuf_has_the_same_form_by_the_same_declaration() -> None:
    found = TableMessage(schema(OLD), recursive_as_text=True).columns()
    assert found == TableMessage(schema(OLD), as_text=RECURSIVE).columns()
    tree = proto3(
        "message T { int32 id = 1; repeated T parts = 2; I in = 3; map<string, T> by = 4; } "
        "message I { T t = 1; }"
    )
    table = TableMessage(tree, recursive_as_text=True)
    body = b"\x08\x01\x12\x02\x08\x02\x1a\x04\x0a\x02\x08\x03"
    (row,) = by_both(ProtobufDecoder(table), [body])
    assert row == {
        "id": 1,
        "parts": '[{"id":2,"parts":[],"by":{}}]',
        "in": {"t": '{"id":3,"parts":[],"by":{}}'},
        "by": "{}",
    }
