"""What a table follows, and what it cannot: each conflict by its path, with both types."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from sluice.core.decoding.avro.following.conflicts import MAX_COLUMNS, Conflict, Fix, Names
from sluice.core.decoding.avro.following.merging import Merged, merge
from sluice.core.decoding.avro.parsing import parsed, written
from sluice.core.decoding.avro.writers import Writer


def schema(*fields: tuple[Any, ...], name: str = "shop.Order") -> str:
    """Fields: name, type, and perhaps a default and aliases."""
    named = [dict(zip(("name", "type", "default", "aliases"), one, strict=False)) for one in fields]
    for one in named:
        if one.get("default", 0) == "none":
            del one["default"]
    return json.dumps({"type": "record", "name": name, "fields": named})


def merged(table: str, other: str, names: Names | None = None) -> Merged:
    return merge(parsed(table), written(other), names)


def types_of(found: Merged) -> dict[str, Any]:
    assert found.conflicts == ()
    return {field["name"]: field["type"] for field in json.loads(found.text)["fields"]}


DECIMAL: dict[str, Any] = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
MILLIS: dict[str, Any] = {"type": "long", "logicalType": "timestamp-millis"}
MICROS: dict[str, Any] = {"type": "long", "logicalType": "timestamp-micros"}
FIXED: dict[str, Any] = {"type": "fixed", "name": "F", "size": 5}
LINE: dict[str, Any] = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}
LINE_2 = {**LINE, "fields": [*LINE["fields"], {"name": "count", "type": "int"}]}


@pytest.mark.parametrize(
    ("table", "other", "followed"),
    [
        ("int", "long", "long"),
        ("long", "int", "long"),
        ("float", "double", "double"),
        ("double", "float", "double"),
        ("int", ["null", "int"], ["null", "int"]),
        (["int", "null"], "long", ["long", "null"]),
        ("int", "null", ["null", "int"]),
        (DECIMAL, {**DECIMAL, "precision": 18}, {**DECIMAL, "precision": 18}),
        ({**DECIMAL, "precision": 18}, DECIMAL, {**DECIMAL, "precision": 18}),
        ({**FIXED, **DECIMAL, "type": "fixed"}, {**DECIMAL, "precision": 18}, {**DECIMAL, "precision": 18}),
        (MILLIS, MICROS, MICROS),
        (MICROS, MILLIS, MICROS),
        (
            {"type": "array", "items": "int"},
            {"type": "array", "items": "long"},
            {"type": "array", "items": "long"},
        ),
        # The column is a text.
        ({"type": "enum", "name": "E", "symbols": ["A"], "default": "A"}, "string", "string"),
        ("string", {"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        (["null", {"type": "enum", "name": "E", "symbols": ["A"]}], "string", ["null", "string"]),
        ([{"type": "enum", "name": "E", "symbols": ["A"]}, "int"], ["string", "int"], ["string", "int"]),
        (["string", "int"], [{"type": "enum", "name": "E", "symbols": ["A"]}, "int"], ["string", "int"]),
        # As today: Avro's rules read them.
        ("double", "int", "double"),
        # The numbers as they were sent, and what they mean from now on.
        ("long", MILLIS, {"type": "long", "connect.name": "timestamp-millis"}),
    ],
)
def test_types_become_wider(table: Any, other: Any, followed: Any) -> None:
    found = merged(schema(("x", table)), schema(("x", other)))
    assert types_of(found) == {"x": followed}
    assert found.is_new == (table != followed)
    # Earlier records, and those of the version.
    for one in (table, other):
        Writer(written(schema(("x", one))), found.schema)


def test_further_fields_are_columns_at_the_end_which_may_be_null_at_any_depth() -> None:
    table = schema(
        ("id", "long"), ("lines", {"type": "array", "items": LINE}), ("by", {"type": "map", "values": "Line"})
    )
    other = schema(
        ("note", "string", "x"),
        ("by", {"type": "map", "values": LINE_2}),
        ("lines", {"type": "array", "items": {**LINE_2, "name": "Item"}}),
        ("id", "long"),
    )
    found = types_of(merged(table, other))
    assert list(found) == ["id", "lines", "by", "note"]
    assert found["note"] == ["null", "string"]
    (sku, number) = found["lines"]["items"]["fields"]
    assert (sku["name"], number) == ("sku", {"name": "count", "type": ["null", "int"], "default": None})
    assert found["by"]["values"] == "shop.Line", "the same type, once"


def test_one_type_that_has_become_two_has_two_names() -> None:
    table = schema(("a", LINE), ("b", "Line"))
    found = merged(table, schema(("a", LINE), ("b", {**LINE_2, "name": "Item"})))
    first, second = types_of(found).values()
    assert (first["name"], second["name"]) == ("shop.Line", "shop.Line_2")
    assert [one["name"] for one in second["fields"]] == ["sku", "count"]


def test_a_removed_field_stays_and_is_null_unless_it_has_a_default() -> None:
    table = schema(("id", "long"), ("a", "int"), ("b", "int", 7))
    found = merged(table, schema(("id", "long")))
    assert types_of(found) == {"id": "long", "a": ["null", "int"], "b": "int"}
    assert json.loads(found.text)["fields"][1:] == [
        {"name": "a", "type": ["null", "int"], "default": None},
        {"name": "b", "type": "int", "default": 7},
    ]
    # A default that is not null is one of the first type.
    found = merged(table, schema(("id", "long"), ("a", "int"), ("b", ["null", "int"], None)))
    assert types_of(found)["b"] == ["int", "null"]


def test_a_renamed_field_goes_on_in_its_column() -> None:
    table = schema(("fare", "double"))
    found = merged(table, schema(("total", "double", "none", ["fare"])))
    assert json.loads(found.text)["fields"] == [{"name": "fare", "type": "double", "aliases": ["total"]}]
    # Which of both goes on, nothing says.
    both = schema(("total", "double"), ("fare", "double"))
    again = merged(found.text, both)
    assert again.reason == "total: the table has it as column fare, the schema a field fare too"
    assert not again.is_new


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (
            [("begin", "int", "none", ["start"]), ("start", "int", "none", ["end"])],
            "start: the table has start and end, the schema start in the place of end",
        ),
        (
            [("start", "int", "none", ["end"]), ("end", "int", "none", ["start"])],
            (
                "start: the table has start and end, the schema start in the place of end; "
                "end: the table has end and start, the schema end in the place of start"
            ),
        ),
    ],
)
def test_names_that_move_from_column_to_column_are_a_conflict(other: Any, reason: str) -> None:
    assert merged(schema(("start", "int"), ("end", "int")), schema(*other)).reason == reason


def test_an_earlier_name_is_one_columns_alone() -> None:
    """A field that comes with it is read into one column, or none."""
    found = merged(
        schema(("id", "int"), ("a", "int", 0, ["y"])),
        schema(("id", "int"), ("b", "int", 0, ["x", "y", "z"]), ("c", "int", 0, ["x"]), ("y", "int", 0)),
    )
    assert not found.conflicts
    assert [one.aliases for one in found.schema.record.fields] == [(), ("y",), ("z",), ()], found.schema


def test_symbols_of_an_enum_are_added() -> None:
    def enum(name: str, *symbols: str) -> str:
        return schema(("x", {"type": "enum", "name": name, "symbols": symbols}))

    found = merged(enum("E", "A", "B"), enum("other.G", "C", "A"))
    assert types_of(found)["x"]["symbols"] == ["A", "B", "C"]
    assert not merged(found.text, enum("other.G", "C")).is_new


@pytest.mark.parametrize(
    ("table", "other", "reason"),
    [
        ("double", "string", "x: the table has double, the schema string"),
        ("int", "double", "x: the table has int, the schema double"),
        (
            MICROS,
            {**MICROS, "logicalType": "local-timestamp-micros"},
            "x: the table has timestamp-micros, the schema local-timestamp-micros",
        ),
        (DECIMAL, {**DECIMAL, "scale": 3}, "x: the table has decimal(9, 2), the schema decimal(9, 3)"),
        ("string", ["string", "int"], "x: the table has string, the schema int"),
        (
            ["int", "string"],
            ["int", "string", "boolean"],
            "x: the table has [int, string], the schema boolean",
        ),
        (DECIMAL, {**DECIMAL, "precision": 39}, "x: the table has decimal(9, 2), the schema decimal(39, 2)"),
        (FIXED, {**FIXED, "size": 6}, "x: the table has fixed of 5 bytes, the schema fixed of 6 bytes"),
        (
            {"type": "array", "items": LINE},
            {"type": "array", "items": {**LINE, "fields": [{"name": "sku", "type": "int"}]}},
            "x[].sku: the table has string, the schema int",
        ),
        (
            {"type": "map", "values": "int"},
            LINE,
            "x: the table has map of int, the schema record {sku: string}",
        ),
    ],
)
def test_another_type_is_a_conflict_with_path_and_both(table: Any, other: Any, reason: str) -> None:
    found = merged(schema(("x", table)), schema(("x", other), ("new", "int")))
    assert (found.reason, found.is_new) == (reason, False)
    assert found.schema == parsed(schema(("x", table))), "nothing of it is followed"


NAMES = Names(
    prefixes=("_kafka_",),
    reserved=frozenset({"_pos"}),
    own=frozenset({"key"}),
    present={"old": pa.field("old", pa.int64()), "comment": pa.field("Comment", pa.string())},
    partitions=frozenset({"zip_trunc"}),
)


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (("ID", "long"), "ID: the table has id, the schema ID, which differs in case only"),
        (
            ("_Kafka_x", "int"),
            "_Kafka_x: the table has no such column, the schema a name that is reserved, '_Kafka_x'",
        ),
        (("_pos", "int"), "_pos: the table has no such column, the schema a name that is reserved, '_pos'"),
        (("KEY", "int"), "KEY: the table has a column key of its own, the schema int"),
        (
            ("comment", "string"),
            "comment: the table has an earlier column Comment, string, the schema string",
        ),
        (("zip_trunc", "int"), "zip_trunc: the table has a partition zip_trunc, the schema int"),
        (("old", "int"), "old: the table has an earlier column old, int64, the schema int"),
        (
            ("d", {**DECIMAL, "precision": 39}),
            "d: the table has no such column, the schema decimal(39, 2), more digits than 38",
        ),
        (
            ("n", {"type": "map", "values": "null"}),
            "n[]: the table has no such column, the schema a type that has null alone",
        ),
        (
            ("r", {**LINE, "fields": [*LINE["fields"], {"name": "SKU", "type": "int"}]}),
            "r.SKU: the table has no such column, the schema sku too, in another case",
        ),
        (
            ("r", {**LINE, "fields": [{"name": "_pos", "type": "int"}]}),
            "r._pos: the table has no such column, the schema a name that is reserved, '_pos'",
        ),
    ],
)
def test_a_name_that_no_column_may_have_is_a_conflict(field: tuple[str, Any], reason: str) -> None:
    assert merged(schema(("id", "long")), schema(("id", "long"), field), NAMES).reason == reason


@pytest.mark.parametrize(
    ("other", "fix"),
    [
        ([("at", "string")], Fix.TYPE),
        ([("at", {"type": "int", "connect.name": "io.debezium.time.Date"})], Fix.MEANING),
        ([("_pos", "int")], Fix.NAME),
        ([("AT", "long")], Fix.CASE),
        ([("at", "long", 0, ["id"]), ("x", "long", 0, ["at"])], Fix.MOVED),
        ([("x", "long"), ("id", "long")], Fix.TWICE),
        ([("r", {**LINE, "fields": [{"name": "r", "type": ["null", "Line"]}]})], Fix.RECURSIVE),
        ([("d", {**DECIMAL, "precision": 39})], Fix.KEPT),
    ],
)
def test_each_kind_of_conflict_has_its_fix_once(other: Any, fix: Fix) -> None:
    at = {"type": "long", "connect.name": "io.debezium.time.Timestamp"}
    found = merged(schema(("at", at), ("id", "long", 0, ["x"])), schema(*other), NAMES)
    assert found.message == f"{found.reason}. Fix: {fix}"
    assert merged(schema(("id", "long")), schema(("id", "long"))).message == ""


def test_the_fix_is_there_however_many_conflicts_there_are() -> None:
    many = [(f"_kafka_{n}", "int") for n in range(100)]
    found = merged(schema(("id", "long")), schema(*many, ("ID", "int")), NAMES)
    assert len(found.conflicts) == 101
    assert found.message.endswith(f"…. Fix: {Fix.NAME}; {Fix.CASE}")
    assert len(found.message) < 440, "health keeps 500 characters, with the place of the record"


def test_a_union_of_a_text_and_an_enum_is_none_of_two_texts() -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["A"]}
    found = merged(schema(("x", [enum, "string"])), schema(("x", ["string", enum])))
    assert (found.conflicts, found.is_new) == ((), False)


LONG: dict[str, Any] = {**DECIMAL, "precision": 60}


@pytest.mark.parametrize(
    ("field", "columns"),
    [
        (("x", LONG), {}),
        (("x", ["null", LONG]), {}),
        (("x", ["string", LONG]), {}),
        (("x", {"type": "array", "items": ["null", LONG]}), {}),
        (("x", {"type": "map", "values": "null"}), {}),
        (("x", {**LINE, "fields": [{"name": "d", "type": LONG}]}), {}),
        # A field without a column, and any name that it may have.
        (("ID", LONG), {}),
        (("x", {**LINE, "fields": [*LINE["fields"], {"name": "d", "type": LONG}]}), {"x": ["sku"]}),
    ],
)
def test_what_no_column_can_have_is_no_column_where_further_fields_are_kept(
    field: tuple[str, Any], columns: dict[str, list[str]]
) -> None:
    table, other = schema(("id", "long")), schema(("id", "long"), field, ("last", "int"))
    found = merge(parsed(table), written(other), NAMES, keeps_fields=True)
    assert found.conflicts == ()
    more = {one.name: one.type for one in found.schema.record.fields[1:]}
    assert list(more) == [*columns, "last"]
    assert {name: [*more[name].optional.by_name] for name in columns} == columns
    assert not merge(found.schema, written(other), NAMES, keeps_fields=True).is_new
    refused = merged(table, other, NAMES)
    assert refused.conflicts, "there is nowhere else to keep it"


def test_a_column_that_the_table_has_from_before_is_used_again() -> None:
    found = merged(schema(("id", "long")), schema(("old", "long")), NAMES)
    assert types_of(found)["old"] == ["null", "long"]


def test_types_of_a_union_that_would_become_one_are_a_conflict() -> None:
    fixed = {**FIXED, **DECIMAL, "type": "fixed"}
    found = merged(schema(("x", [fixed, "bytes"])), schema(("x", [{**fixed, "precision": 11}, "bytes"])))
    assert "a type twice" in found.reason
    assert not found.is_new


def test_columns_and_depth_are_bounded() -> None:
    many = [(f"f{n}", "int") for n in range(MAX_COLUMNS + 1)]
    assert merged(schema(("f0", "int")), schema(*many[:-1])).conflicts == ()
    assert merged(schema(("f0", "int")), schema(*many)).conflicts == (
        Conflict("the whole schema", "at most 2,000 columns", "2,001 with its own", Fix.BOUNDS),
    )
    deep: Any = "int"
    for _ in range(50):
        deep = {"type": "array", "items": deep}
    found = merged(schema(("f0", "int")), schema(("deep", deep)))
    assert found.reason == f"deep{'[]' * 49}: the table has at most 50 levels, the schema more of them"


def test_a_field_that_has_null_alone_has_no_column_and_a_record_of_none_is_a_text() -> None:
    nulls = {**LINE, "fields": [{"name": "n", "type": ["null"]}]}
    fields = [
        ("n", "null"),
        ("r", nulls),
        ("e", {"type": "array", "items": ["null", {**LINE, "name": "E", "fields": []}]}),
    ]
    found = merged(schema(("id", "long")), schema(("id", "long"), *fields), NAMES)
    text = {"type": "string", "logicalType": "sluice-json"}
    assert types_of(found) == {
        "id": "long",
        "r": ["null", text],
        "e": ["null", {"type": "array", "items": ["null", text]}],
    }
    # The field has a column once something says which; the record stays a text.
    later = schema(
        ("id", "long"), ("n", ["null", "int"]), ("r", {**LINE, "fields": [{"name": "n", "type": "int"}]})
    )
    assert types_of(merged(json.dumps(json.loads(found.text)), later)) == {
        **types_of(found),
        "n": ["null", "int"],
    }
