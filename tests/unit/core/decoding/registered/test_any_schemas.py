"""Schemas as others register them: what no reader uses may be wrong, and none stops the stream."""

from __future__ import annotations

import json
from copy import deepcopy
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.decoding.avro.writers import Writer
from sluice.core.decoding.decoder import Decoder
from sluice.core.decoding.registered import avro as registered_avro
from sluice.core.decoding.registered.avro import RegisteredAvro, RegisteredAvroKeys
from tests.support.avro_bodies import HEADERS, Chance
from tests.support.registered import FakeSchemas, avro, by_both, framed

KEPT = "_unknown_fields"
TABLE = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "a", "type": ["null", "int"], "default": None},
        {
            "name": "d",
            "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}],
            "default": None,
        },
    ],
}


def decimal(**more: Any) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", **more}


def record(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, *fields]}


def e(kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": "e", "type": kind, **more}


def read(schema: Any, body: bytes) -> dict[str, Any] | str:
    decoder = RegisteredAvro(json.dumps(TABLE), FakeSchemas({1: avro(schema)}), KEPT)
    (found,) = by_both(decoder, [framed(1, body)])
    return found


# A number of 47 digits.
LONG = str(int("10" * 20, 16))
ENUM = {"type": "enum", "name": "E", "symbols": ["A"]}


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        (e("long", default=0.0), b"\2", "1"),
        (e("boolean", default="false"), b"\1", "true"),
        (e({**ENUM, "default": "Z"}), b"\0", '"A"'),
        (e(ENUM, default="Z"), b"\0", '"A"'),
        (e(["null", "string"], default="null"), b"\0", "null"),
        (e("int", aliases=5, order=[]), b"\2", "1"),
        (e(decimal(precision=64, scale=2)), b"\2\5", '"0.05"'),
        (e(decimal(precision=64, scale=2)), b"\x28" + b"\x10" * 20, f'"{LONG[:-2]}.{LONG[-2:]}"'),
        (e(decimal(precision=76, scale=76)), b"\2\5", f'"0.{"0" * 75}5"'),
        # No decimals, by Avro's specification: bytes.
        (e(decimal(precision=64, scale=127)), b"\2\5", '"BQ=="'),
        (e(decimal(precision=4, scale=None)), b"\2\5", '"BQ=="'),
        (e(decimal(precision=4, scale=-1)), b"\2\5", '"BQ=="'),
        (e(decimal(precision="4")), b"\2\5", '"BQ=="'),
        (e(decimal(precision=10**9)), b"\2\5", '"BQ=="'),
        (e({"type": "int", "logicalType": ["date"]}), b"\2", "1"),
    ],
)
def test_what_no_reader_uses_of_a_schema_may_be_wrong(kind: Any, body: bytes, text: str) -> None:
    assert read(record(kind), b"\2" + body) == {"a": 1, "d": None, KEPT: f'{{"e":{text}}}'}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (e([]), "the Avro schema has a union of nothing, of a union, or of a type twice"),
        (e(["null", ["int"]]), "the Avro schema has a union of nothing, of a union, or of a type twice"),
        (e([ENUM, "E"]), "the Avro schema has a union of nothing, of a union, or of a type twice"),
        (e("string", name=""), "a record with a field twice, or without a name: R"),
        (e({"type": "enum", "name": "E", "symbols": []}), "an enum without symbols: E"),
        (e("int", name="a"), "a record with a field twice, or without a name: R"),
        (e("int", name=5), "a record with a field twice, or without a name: R"),
        (e({"type": 5}), "not an Avro schema"),
        (5, "not an Avro schema"),
    ],
)
def test_a_schema_that_no_record_can_have_is_a_reason(kind: Any, said: str) -> None:
    found = read(record(kind), b"\2\0")
    assert isinstance(found, str)
    assert found.startswith("schema id 1 cannot be read with the table's columns: ")
    assert said in found


def test_a_decimal_of_any_digits_is_read_if_its_value_fits() -> None:
    schema = record({"name": "d", "type": decimal(precision=64, scale=2)})
    wide = framed(1, b"\2\x22" + b"\x10" * 17)
    sent = [framed(1, b"\2\4\x27\x0f"), framed(1, b"\2\4\x27\x10"), wide]
    decoder = RegisteredAvro(json.dumps(TABLE), FakeSchemas({1: avro(schema)}), KEPT)
    first, *others = by_both(decoder, sent)
    assert first == {"a": 1, "d": Decimal("99.99"), KEPT: None}
    assert (
        others
        == ["written with an earlier Avro schema: d is decimal(4, 2), and was a number of more digits"] * 2
    )


def test_an_optional_record_without_a_field_that_the_table_needs_may_be_null() -> None:
    def of(*names: str) -> dict[str, Any]:
        inner = {"type": "record", "name": "I", "fields": [{"name": one, "type": "int"} for one in names]}
        return record({"name": "i", "type": ["null", inner], "default": None})

    decoder = RegisteredAvro(json.dumps(of("x", "y")), FakeSchemas({1: avro(of("x"))}), KEPT)
    null, value = by_both(decoder, [framed(1, b"\2\0"), framed(1, b"\2\2\4")])
    assert null == {"a": 1, "i": None, KEPT: None}
    assert value == "written with an earlier Avro schema: i.y is new, and has no default"


def test_what_is_not_foreseen_of_a_schema_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise pa.ArrowIndexError("out of bounds")

    monkeypatch.setattr(Writer, "__init__", broken)
    assert read(record(), b"\2") == "schema id 1 cannot be read: ArrowIndexError: out of bounds"


def test_a_symbol_that_is_read_as_the_default_is_kept() -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "A"}
    table = {"type": "record", "name": "R", "fields": [{"name": "e", "type": enum}]}
    schema = deepcopy(table)
    schema["fields"][0]["type"]["symbols"] += ["C"]  # type: ignore[index]
    decoder = RegisteredAvro(json.dumps(table), FakeSchemas({1: avro(schema)}), KEPT)
    assert by_both(decoder, [framed(1, b"\4"), framed(1, b"\2")]) == [
        {"e": "A", KEPT: '{"e":"C"}'},
        {"e": "B", KEPT: None},
    ]


def test_schemas_that_differ_in_what_no_reader_uses_cost_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[str]()
    new = RegisteredAvro._new_writer

    def counted(self: RegisteredAvro, text: str) -> Writer | str:
        made.append(text)
        return new(self, text)

    monkeypatch.setattr(RegisteredAvro, "_new_writer", counted)
    number = 1_500
    schemas: dict[int, Any] = {n: avro({**record(), "doc": f"build {n}"}) for n in range(1, number)}
    schemas[number] = avro(record(e("int")))
    decoder = RegisteredAvro(json.dumps(TABLE), FakeSchemas(schemas), KEPT)
    sent = [framed(n, b"\2") for n in range(1, number)] + [framed(number, b"\2\4"), b"x", framed(7, b"\4")]
    for _ in range(2):
        found = decoder.decode(pa.array(sent), pa.array([[]] * len(sent), HEADERS))
        assert found.columns.column("a").to_pylist()[-4:] == [1, 1, None, 2]
        assert found.columns.column(KEPT).to_pylist()[-4:] == [None, '{"e":2}', None, None]
        assert len(made) == 2


def test_of_more_schemas_than_are_kept_some_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered_avro, "_MAX_WRITERS", 2)
    monkeypatch.setattr(registered_avro, "_MAX_IDS", 2)
    schemas = FakeSchemas({n: avro({**record(), "name": f"R{n}"}) for n in range(1, 5)})
    decoder = RegisteredAvro(json.dumps(TABLE), schemas, KEPT)
    rows = by_both(decoder, [framed(n, b"\2") for n in (1, 2, 3, 4, 1)])
    assert rows == [{"a": 1, "d": None, KEPT: None}] * 5
    assert len(decoder._writers) == len(decoder._ids) == 2


def test_a_schema_that_is_registered_between_decoding_and_the_sample_differs_in_nothing() -> None:
    schemas = FakeSchemas({})
    decoder = RegisteredAvro(json.dumps(TABLE), schemas, KEPT)
    assert by_both(decoder, [framed(1, b"\2")], then=lambda: schemas.schemas.update({1: avro(record())})) == [
        "schema id 1 is not in the registry"
    ]
    assert by_both(decoder, [framed(1, b"\2")]) == [{"a": 1, "d": None, KEPT: None}]


def test_keys_without_fields_and_of_any_name_are_json() -> None:
    named = {"type": "enum", "name": "key", "symbols": ["A"]}
    schemas = FakeSchemas({1: avro({"type": "record", "name": "K", "fields": []}), 2: avro(["null", named])})
    sent = [framed(1, b""), framed(2, b"\2\0"), framed(2, b"\0"), framed(1, b"\0"), None]
    *rows, behind, none = by_both(RegisteredAvroKeys("k", schemas), sent)
    assert rows == [{"k": "{}"}, {"k": '"A"'}, {"k": "null"}]
    assert "1 bytes are behind the body of K" in behind
    assert "tombstone" in none


WORDS: list[Any] = [
    None, 0, -1, 39, 10**12, 1.5, True, "", "int", "record", "R0", "a.b", "N\N{GRINNING FACE}", [],
    ["A", "A"], {}, {"type": "int"}, [[]], "decimal", "date", "timestamp-millis", "array",
]  # fmt: skip


def damaged(random: Random, tree: Any) -> Any:
    """A schema with one of its parts gone, exchanged or doubled."""
    tree = deepcopy(tree)
    places = list[tuple[Any, Any]]()

    def walk(one: Any) -> None:
        for key in one if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ():
            places.append((one, key))
            walk(one[key])

    walk(tree)
    holder, key = random.choice(places)
    kind = random.randrange(5)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        holder[key] = random.choice(WORDS)
    elif kind == 2:
        other, there = random.choice(places)
        holder[key] = deepcopy(other[there])
    elif isinstance(holder, dict):
        names = ["logicalType", "precision", "scale", "default", "namespace", "size", "aliases", "symbols"]
        holder[random.choice(names)] = random.choice(WORDS)
    else:
        holder.insert(key, random.choice(WORDS))
    return tree


@given(st.randoms(use_true_random=False))
@settings(max_examples=3 * settings().max_examples, deadline=None)
def test_no_schema_raises_and_both_ways_agree(random: Random) -> None:
    chance = Chance(random)
    table = chance.schema()
    optional = {
        **table,
        "fields": [
            {**one, "type": one["type"] if isinstance(one["type"], list) else ["null", one["type"]]}
            for one in table["fields"]
        ],
    }
    schemas, sent = FakeSchemas({}), list[bytes]()
    for schema_id in range(1, 5):
        tree = chance.later(table) if random.random() < 0.3 else table
        body = chance.body(tree)
        for _ in range(random.randrange(4)):
            tree = damaged(random, tree)
            if not isinstance(tree, dict | list) or not tree:
                break
        schemas.schemas[schema_id] = avro(tree)
        sent += [framed(schema_id, body), framed(schema_id, chance.mutated(body, body))]
    of_values: list[Decoder] = [RegisteredAvro(json.dumps(optional), schemas, KEPT)]
    for decoder in [*of_values, RegisteredAvroKeys("key", schemas)]:
        by_both(decoder, sent)
