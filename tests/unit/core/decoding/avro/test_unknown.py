"""Fields of a writer's schema that the table's schema lacks."""

from __future__ import annotations

import json
import math
import struct
import time
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.core.decoding.avro.decoder import AvroDecoder
from sluice.core.decoding.avro.unknown import columns
from sluice.core.decoding.avro.unknown import fields as unknown_fields
from sluice.core.decoding.avro.writers import Writer
from tests.support.avro_bodies import Chance, decoded, fields
from tests.support.hostile_records import zigzag

KEPT = "_unknown_fields"
ID = {"name": "id", "type": "int"}
CURRENT = json.dumps({"type": "record", "name": "T", "fields": [ID]})
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
MILLIS = {"type": "long", "logicalType": "local-timestamp-millis"}
DAY = {"type": "int", "logicalType": "date"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
INNER = {
    "type": "record",
    "name": "I",
    "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "string"}],
}


def kept(earlier: Any, current: str, *bodies: bytes) -> list[str | None]:
    """What is kept of records; both ways must agree."""
    decoder = AvroDecoder(current, (json.dumps(earlier),), KEPT)
    header = decoder.fingerprints[-1].encode()
    rows, reasons = decoded(decoder, [*bodies], header)
    assert reasons == [None] * len(bodies)
    found = [decoder.reference(body, [(b"avro-schema", header)]) for body in bodies]
    assert [row[KEPT] for row in rows] == [row[KEPT] for row in found]
    return [row[KEPT] for row in rows]


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("long", zigzag(2**63 - 1), "9223372036854775807"),
        ("boolean", b"\1", "true"),
        ("null", b"", "null"),
        (["null", "string"], b"\0", "null"),
        (["null", "string"], b"\2\2x", '"x"'),
        ("string", b'\x0a"\\\n\xc3\xbc', '"\\"\\\\\\nü"'),
        ("bytes", b"\4\xff\0", '"/wA="'),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", '"YWI="'),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, b"\2", '"B"'),
        ("float", b"\xcd\xcc\xcc\x3d", "0.1"),
        ("double", b"\x9a\x99\x99\x99\x99\x99\xb9\x3f", "0.1"),
        ("double", b"\0\0\0\0\0\0\xf0\xff", '"-Infinity"'),
        ("float", b"\0\0\xc0\x7f", '"NaN"'),
        (DECIMAL, b"\2\x85", '"-1.23"'),
        (DECIMAL, b"\2\0", '"0.00"'),
        (DAY, zigzag(19_724), '"2024-01-02"'),
        (DAY, zigzag(2**31 - 1), "2147483647"),
        (MICROS, zigzag(-1), '"1969-12-31T23:59:59.999999Z"'),
        (MICROS, zigzag(-62_135_596_800_000_000), '"0001-01-01T00:00:00.000000Z"'),
        (MICROS, zigzag(2**62), str(2**62)),
        (MILLIS, zigzag(1_500), '"1970-01-01T00:00:01.500000"'),
        ({"type": "array", "items": MICROS}, b"\2\0\0", '["1970-01-01T00:00:00.000000Z"]'),
        ({"type": "map", "values": ["null", "int"]}, b"\4\2a\0\2\"\2\4\0", '{"a":null,"\\"":2}'),
        (INNER, b"\2\2z", '{"x":1,"y":"z"}'),
        (["int", "string", "null"], b"\2\2z", '"z"'),
        (["int", "string", "null"], b"\4", "null"),
        (["int", "long"], b"\2\2", "1"),
    ],
)  # fmt: skip
def test_each_type_is_written_as_json_reads_it(kind: Any, body: bytes, text: str) -> None:
    earlier = {"type": "record", "name": "T", "fields": [{"name": "new", "type": kind}, ID]}
    assert kept(earlier, CURRENT, body + b"\2", body + b"\4") == [f'{{"new":{text}}}'] * 2


def test_without_such_a_field_there_is_nothing_and_null_is_something() -> None:
    wider = {"type": "record", "name": "T", "fields": [ID, {"name": "n", "type": ["null", "int"]}]}
    assert kept(wider, CURRENT, b"\2\0", b"\2\2\4") == ['{"n":null}', '{"n":2}']
    assert decoded(AvroDecoder(CURRENT, (), KEPT), [b"\2"])[0] == [{"id": 1, KEPT: None}]
    assert decoded(AvroDecoder(CURRENT, (json.dumps(wider),)), [b"\2"])[0] == [{"id": 1}]


def test_what_is_lacking_inside_of_a_field_is_kept_at_its_place() -> None:
    """In a record, a record that may be null, an array and a map of records."""
    less = {**INNER, "fields": INNER["fields"][:1]}
    several = [lambda i: i, lambda i: ["null", i], lambda i: {"type": "array", "items": i}]
    several += [lambda i: {"type": "map", "values": i}]
    (plain, optional, array, mapped) = [
        kept(json.loads(fields(of(INNER))), fields(of(less)), *bodies)
        for of, bodies in zip(
            several,
            [[b"\2\2z"], [b"\0", b"\2\2\2z"], [b"\0", b"\4\2\2z\2\2y\0"], [b"\0", b"\2\2k\2\2z\0"]],
            strict=True,
        )
    ]
    assert plain == ['{"a":{"y":"z"}}']
    assert optional == [None, '{"a":{"y":"z"}}']
    assert array == [None, '{"a":[{"y":"z"},{"y":"y"}]}']
    assert mapped == [None, '{"a":{"k":{"y":"z"}}}']


def test_a_field_that_was_renamed_is_not_lacking() -> None:
    earlier = {"type": "record", "name": "T", "fields": [{"name": "old", "type": "int"}]}
    current = json.dumps({"type": "record", "name": "T", "fields": [{**ID, "aliases": ["old"]}]})
    assert kept(earlier, current, b"\2") == [None]


def narrower(chance: Chance, kind: Any, is_outer: bool = True) -> Any:
    """A type that lacks some fields of records in it."""
    if not isinstance(kind, dict):
        return [narrower(chance, one, False) for one in kind] if isinstance(kind, list) else kind
    if kind["type"] == "record":
        left = [one for one in kind["fields"] if chance.random.random() < 0.6] or kind["fields"][:1]
        return {**kind, "fields": [{**one, "type": narrower(chance, one["type"], False)} for one in left]}
    inner = {"array": "items", "map": "values"}.get(kind["type"])
    return {**kind, inner: narrower(chance, kind[inner], False)} if inner else kind


@given(st.randoms(use_true_random=False))
def test_both_ways_keep_the_same_of_any_record(random: Random) -> None:
    chance = Chance(random)
    schema = chance.schema()
    current = narrower(chance, schema)
    found = kept(schema, json.dumps(current), *(chance.body(schema) for _ in range(4)))
    names = {one["name"] for one in schema["fields"]} - {one["name"] for one in current["fields"]}
    for text in found:
        members = json.loads(text) if text else {}
        assert names <= members.keys()


EDGES = [
    0.0,
    -0.0,
    1e-4,
    1e-3,
    1e9,
    1e10,
    1e15,
    1e16,
    1e22,
    5e-324,
    1.7976931348623157e308,
    2.0**53,
    0.1,
    100.0,
    float("nan"),
]
EDGES += [math.nextafter(edge, way) for edge in (1e-3, 1e9, 1e15) for way in (0, math.inf)] + [float("-inf")]


@given(st.lists(st.floats(), min_size=1, max_size=20).map(lambda more: [*more, *EDGES]))
def test_numbers_are_written_as_python_writes_them(numbers: list[float]) -> None:
    earlier = {"type": "record", "name": "T", "fields": [ID, {"name": "new", "type": "double"}]}
    signed = [*numbers, *(-number for number in numbers)]
    found = kept(earlier, CURRENT, *(b"\2" + struct.pack("<d", number) for number in signed))
    for text, number in zip(found, signed, strict=True):
        # As texts: JSON has no such numbers.
        written = repr(number) if math.isfinite(number) else f'"{json.dumps(number)}"'
        assert text == f'{{"new":{written}}}'


@pytest.mark.parametrize("scale", [0, 2, 6, 7, 38])
def test_decimals_are_written_with_all_their_digits(scale: int) -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": scale}
    earlier = {"type": "record", "name": "T", "fields": [ID, {"name": "new", "type": kind}]}
    numbers = [0, 1, -1, 5, 120, -(10**37)]
    bodies = [b"\2\40" + number.to_bytes(16, "big", signed=True) for number in numbers]
    texts = [f"{Decimal(f'{number}E-{scale}'):f}" for number in numbers]
    assert kept(earlier, CURRENT, *bodies) == [f'{{"new":"{text}"}}' for text in texts]


NESTED = {
    "type": "record",
    "name": "N",
    "fields": [
        {"name": "few", "type": {"type": "array", "items": ["null", INNER]}},
        {"name": "none", "type": {"type": "record", "name": "Z", "fields": []}},
        {"name": "lists", "type": {"type": "array", "items": {"type": "array", "items": "double"}}},
        {"name": "price", "type": ["null", DECIMAL]},
    ],
}


def test_usual_fields_are_written_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nested ones, and what is lacking inside of records and arrays, too."""
    monkeypatch.setattr(Writer, "value", None)
    monkeypatch.setattr(columns, "_one_by_one", None)
    monkeypatch.setattr(unknown_fields, "without_times", None)
    wide = [*NESTED["fields"], {"name": "t", "type": MICROS}, {"name": "id", "type": "int"}]
    body = b"\4\0\2\2\2z\0" + b"\4\0\2\0\0\0\0\0\0\xf0\x3f\0\0" + b"\2\2\x85" + b"\0\2"
    text = '"few":[null,{"x":1,"y":"z"}],"none":{},"lists":[[],[1.0]],"price":"-1.23"'

    def found(wider: Any, current: Any, body: bytes) -> Any:
        header = (decoder := AvroDecoder(json.dumps(current), (json.dumps(wider),), KEPT)).fingerprints[-1]
        rows, _ = decoded(decoder, [body] * 3, header.encode())
        assert rows[0] == rows[1] == rows[2]
        return rows[0][KEPT]

    record = {"type": "record", "name": "T", "fields": wide}
    assert found(record, json.loads(CURRENT), body) == f'{{{text},"t":"1970-01-01T00:00:00.000000Z"}}'
    whole = {
        "type": "record",
        "name": "T",
        "fields": [{"name": "a", "type": {"type": "array", "items": NESTED}}],
    }
    (less,) = json.loads(json.dumps(whole["fields"]))
    less["type"]["items"]["fields"] = less["type"]["items"]["fields"][-1:]
    kept_text = text.removesuffix(',"price":"-1.23"')
    inner = body[:-2]
    assert found(whole, {**whole, "fields": [less]}, b"\2" + inner + b"\0") == f'{{"a":[{{{kept_text}}}]}}'
    assert found(whole, {**whole, "fields": [less]}, b"\0") is None


def test_usual_fields_are_not_left_to_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "value", None)
    wider = {
        "type": "record",
        "name": "T",
        "fields": [ID, {"name": "n", "type": INNER}, {"name": "t", "type": MICROS}],
    }
    decoder = AvroDecoder(CURRENT, (json.dumps(wider),), KEPT)
    header = decoder.fingerprints[-1].encode()
    rows, _ = decoded(decoder, [b"\2\2\2z\0"] * 3, header)
    assert rows[2][KEPT] == '{"n":{"x":1,"y":"z"},"t":"1970-01-01T00:00:00.000000Z"}'


def test_many_fields_take_no_cube_of_their_number() -> None:
    """400 took 5 seconds, 200 one."""
    fields = [{"name": f"f{number}", "type": "long"} for number in range(800)]
    wider = {"type": "record", "name": "T", "fields": [ID, *fields]}
    narrow = {"type": "record", "name": "T", "fields": [ID, *fields[:400]]}
    began = time.process_time()
    decoder = AvroDecoder(json.dumps(narrow), (json.dumps(wider),), KEPT)
    header = decoder.fingerprints[-1].encode()
    decoded(decoder, [b"\2" * 801], header)
    assert time.process_time() - began < 5
