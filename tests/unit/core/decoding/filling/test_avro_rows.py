"""What was kept of fields without a column, filled into it: as a decoder reads the same record by then."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.decoding.avro.decoder import row_type
from sluice.core.decoding.avro.following.merging import merge
from sluice.core.decoding.avro.following.written import schema_text
from sluice.core.decoding.avro.parsing import parsed, written
from sluice.core.decoding.avro.types import Schema, UnsupportedSchema, arrow_type, without_times
from sluice.core.decoding.avro.writers import Writer
from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.filling import deciding, merging
from sluice.core.decoding.filling.avro import AvroFiller
from sluice.core.decoding.filling.batches import Filled
from sluice.core.decoding.filling.from_json import IN_ITSELF
from tests.support.avro_bodies import PRIMITIVES, UNIONS, Chance
from tests.support.schema_versions import Histories

KEPT = "_unknown_fields"
RANDOM = st.integers(0, 2**32 - 1).map(Random)
ID = {"name": "id", "type": "int"}


NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}


def record(*fields: Any, name: str = "T") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [ID, *fields]}


def row(writer: Any, table: Schema, body: bytes) -> dict[str, Any]:
    """A row of the table as it is when the record is decoded; times as numbers."""
    found = Writer(written(json.dumps(writer)), table, KEPT).value(body)
    (one,) = pa.array([found], without_times(row_type(table, KEPT))).to_pylist()
    return one


def later(value: Any, before: pa.DataType, now: pa.DataType) -> Any:
    """A value of a column as it is read once the table has more fields and wider types."""
    if value is None:
        return None
    if pa.types.is_struct(now):
        return {
            field.name: later(value[field.name], before.field(field.name).type, field.type)
            if field.name in before.names
            else None
            for field in now
        }
    if pa.types.is_list(now):
        return [later(one, before.value_type, now.value_type) for one in value]
    if pa.types.is_map(now):
        return [(key, later(one, before.item_type, now.item_type)) for key, one in value]
    return value


def filled(
    writers: list[Any], before: Schema, now: Schema, writer: Any, body: bytes
) -> tuple[dict[str, Any], Filled]:
    """The row of a record that is filled, and the account of it."""
    published = row(writer, before, body)
    known = AvroFiller([json.dumps(one) for one in writers], schema_text(now.record))
    present = later(published, row_type(before, KEPT), row_type(now, KEPT))
    text = present.pop(KEPT)
    if text is None:
        return {**present, KEPT: None}, Filled()
    of = pickle.loads(pickle.dumps(known)).fill(present, text)  # noqa: S301
    (one,) = pa.array([{**present, **of.values}], without_times(arrow_type(now.record))).to_pylist()
    return {**one, KEPT: of.left}, of


def same(one: Any, other: Any) -> bool:
    """NaN is NaN, and 0.0 is not -0.0."""
    return repr(one) == repr(other)


EVERY: list[Any] = [
    *PRIMITIVES,
    *(kind for kind in UNIONS if len(kind) > 1 and "int" not in kind[2:]),
    {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]},
    {"type": "fixed", "name": "F", "size": 9},
    {"type": "fixed", "name": "D", "size": 9, "logicalType": "decimal", "precision": 20, "scale": 3},
    {"type": "string", "logicalType": "uuid"},
    {"type": "array", "items": {"type": "long", "logicalType": "timestamp-millis"}},
    {"type": "map", "values": ["null", "bytes"]},
    record({"name": "x", "type": ["null", "double"]}, name="I"),
    "null",
]


@pytest.mark.parametrize("kind", EVERY, ids=json.dumps)
def test_a_value_of_each_type_is_the_one_that_its_record_would_give(kind: Any) -> None:
    chance = Chance(Random(json.dumps(kind)))  # noqa: S311
    writer = record({"name": "new", "type": kind})
    # Null alone is no column; and a text may be of both branches.
    column = ["null", "string"] if kind == "null" else kind
    before, now = (parsed(json.dumps(one)) for one in (record(), record({"name": "new", "type": column})))
    for _ in range(30):
        body = chance.body(writer)
        found, of = filled([record(), writer], before, now, writer, body)
        assert same(found, row(writer, now, body))
        assert (of.fields, of.kept, found[KEPT]) == (["new"], [], None)


def test_a_text_of_two_branches_of_a_union_stays() -> None:
    kind = ["null", "long", "int", "double"]
    writer, body = record({"name": "new", "type": kind}), b"\2\4\2"
    before, now = (parsed(json.dumps(one)) for one in (record(), writer))
    found, of = filled([writer], before, now, writer, body)
    assert (found["new"], found[KEPT], of.fields) == (None, '{"new":1}', [])
    assert of.kept == [("new", "it may be of 2 branches of the union")]
    # A number with a fraction is of one only.
    assert filled([writer], before, now, writer, b"\2\6" + bytes(8))[0]["new"]["member2"] == 0.0


@given(RANDOM)
@settings(max_examples=2 * settings().max_examples, deadline=None)
def test_rows_of_a_history_are_what_a_replay_gives(random: Random) -> None:
    fill_a_history(Histories(random))


@pytest.mark.exhaustive
def test_rows_of_a_thousand_histories() -> None:
    total = Counter[str]()
    for seed in range(1_000):
        total += fill_a_history(Histories(Random(seed)))  # noqa: S311
    assert total["filled"] > 10 * total["kept"] > 0, total


def fill_a_history(chance: Histories) -> Counter[str]:
    """The table has some of the versions when the records come, and all of them when it is filled."""
    versions = chance.versions(chance.random.randint(2, 4))
    before = parsed(json.dumps(versions[0]))
    now = before
    for one in versions[1:]:
        now = merge(now, written(json.dumps(one))).schema
    found = Counter[str]()
    for one in versions:
        for _ in range(3):
            body = chance.body(one)
            try:
                row(one, before, body)
            except (Malformed, UnsupportedSchema):
                # The earlier table cannot have it.
                continue
            done, of = filled(versions, before, now, one, body)
            expected = row(one, now, body)
            check(done, expected, of)
            found["filled"] += len(of.fields)
            found["kept"] += len(of.kept)
    return found


def check(done: dict[str, Any], expected: dict[str, Any], of: Filled) -> None:
    if not of.kept:
        assert same(done, expected)
        return
    for _, reason in of.kept:
        assert reason in (deciding.OTHER_TYPES, merging.HAS_A_VALUE) or reason.startswith("it may be of"), of
    names = {path.partition(".")[0].partition("[")[0] for path, _ in of.kept}
    assert json.loads(done[KEPT]).keys() <= names
    for name in of.values.keys() - names:
        assert same(done[name], expected[name])


def test_a_number_of_32_bits_is_told_from_one_of_64_by_the_schemas_of_the_records() -> None:
    """0.1 of 32 bits is another number in the column that has become a double."""
    narrow, wide = (record({"name": "new", "type": kind}) for kind in ("float", "double"))
    before, now = parsed(json.dumps(record())), parsed(json.dumps(wide))
    of_float, of_double = b"\2\xcd\xcc\xcc\x3d", b"\2\x9a\x99\x99\x99\x99\x99\xb9\x3f"
    assert filled([narrow], before, now, narrow, of_float)[0]["new"] == 0.10000000149011612
    assert filled([wide], before, now, wide, of_double)[0]["new"] == 0.1
    for writer, body in ((narrow, of_float), (wide, of_double)):
        found, of = filled([narrow, wide], before, now, writer, body)
        assert (found["new"], found[KEPT], of.kept) == (None, '{"new":0.1}', [("new", deciding.OTHER_TYPES)])
    # With more digits than one of 32 bits has, or the same number in both.
    for body in (b"\2" + bytes(7) + b"\x40", b"\2\x9b\x99\x99\x99\x99\x99\xb9\x3f"):
        found, _ = filled([narrow, wide], before, now, wide, body)
        assert found == row(wide, now, body)


LESS = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}
MORE = {**LESS, "fields": [*LESS["fields"], {"name": "y", "type": ["null", "string"]}]}
MOST = {**MORE, "fields": [*MORE["fields"], {"name": "z", "type": ["null", "int"]}]}


def nested(kind: dict[str, Any]) -> dict[str, Any]:
    parts = {"a": kind, "b": {"type": "array", "items": "I"}, "c": {"type": "map", "values": ["null", "I"]}}
    return record(
        *({"name": name, "type": one} for name, one in parts.items()), {"name": "d", "type": ["int", "I"]}
    )


def test_what_is_lacking_inside_of_a_column_is_filled_at_its_place() -> None:
    """In a record, a list, a map and a branch; what has no column yet stays at its place."""
    before, now, last = (parsed(json.dumps(nested(kind))) for kind in (LESS, MORE, MOST))
    one, two = b"\2\2\2y\2\4", b"\4\0\2\6"
    body = b"\2" + one + b"\4" + one + two + b"\0" + b"\4\2k\2" + one + b"\2l\0\0" + b"\2" + two
    versions = [nested(kind) for kind in (LESS, MORE, MOST)]
    found, of = filled(versions, before, now, nested(MOST), body)
    expected = row(nested(MOST), now, body)
    assert json.loads(found.pop(KEPT)) == json.loads(expected.pop(KEPT))
    assert found == expected
    assert (set(of.fields), of.kept) == ({"a.y", "b[].y", "c[].y", "d.y"}, [])
    assert filled(versions, before, last, nested(MOST), body)[0] == row(nested(MOST), last, body)


def test_a_column_that_has_a_value_keeps_it_and_so_does_the_text() -> None:
    writer = record({"name": "new", "type": "int"}, {"name": "other", "type": "int"})
    known = AvroFiller([json.dumps(writer)], json.dumps(writer))
    found = known.fill({"id": 1, "new": 5, "other": None}, '{"new":7,"other":8}')
    assert (found.values, found.left) == ({"other": 8}, '{"new":7}')
    assert (found.fields, found.kept) == (["other"], [("new", merging.HAS_A_VALUE)])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"new":2147483648}', deciding.NO_TYPE),
        ('{"new":1.0}', deciding.NO_TYPE),
        ('{"new":true}', deciding.NO_TYPE),
        ('{"new":"1"}', deciding.NO_TYPE),
        ('{"new":1,"later":1}', deciding.NO_SCHEMA),
        ('{"new":1', "not the text of further fields"),
        ("[1]", "not the text of further fields"),
    ],
)
def test_what_no_record_of_the_schemas_has_stays_as_it_is(text: str, reason: str) -> None:
    writer = json.dumps(record({"name": "new", "type": "int"}))
    found = AvroFiller(["{}", writer], writer).fill({"id": 1, "new": None}, text)
    assert (found.values, found.left, found.fields) == ({}, text, [])
    ((_, why),) = found.kept
    assert why.startswith(reason)


def test_a_text_that_may_be_of_a_version_whose_type_no_column_has_stays() -> None:
    """The record of the first one is no row today, and its text is one of the other's values."""
    text, of_bytes = (
        record({"name": "new", "type": kind})
        for kind in ("string", {"type": "fixed", "name": "F", "size": 1})
    )
    before, now = (parsed(json.dumps(one)) for one in (record(), of_bytes))
    body = b"\2\x08YQ=="
    found, of = filled([text, of_bytes], before, now, text, body)
    assert (found["new"], found[KEPT], of.fields) == (None, '{"new":"YQ=="}', [])
    assert of.kept == [("new", "new is the fixed F, and was string")]
    # Unlike a record of another name, and one that the table had another column for from its beginning.
    others = [
        {**text, "name": "Other"},
        {**text, "fields": [{"name": "id", "type": "string"}, text["fields"][1]]},
    ]
    assert filled([*others, of_bytes], before, now, of_bytes, b"\2a")[0]["new"] == b"a"


def test_a_field_that_was_renamed_goes_into_the_column_of_its_other_name() -> None:
    writer = record({"name": "old", "type": "int"}, {"name": "without", "type": "int"})
    table = record({"name": "new", "type": ["null", "int"], "aliases": ["old"], "default": None})
    found = AvroFiller([json.dumps(writer)], json.dumps(table)).fill(
        {"id": 1, "new": None}, '{"old":3,"without":4}'
    )
    assert (found.values, found.left, found.kept) == ({"new": 3}, '{"without":4}', [])


def test_more_digits_than_the_column_has_stay() -> None:
    def decimal(precision: int) -> dict[str, Any]:
        kind = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}
        return record({"name": "new", "type": ["null", kind]})

    known = AvroFiller([json.dumps(decimal(9))], json.dumps(decimal(4)))
    assert known.fill({"new": None}, '{"new":"12.34"}').left is None
    found = known.fill({"new": None}, '{"new":"123.45"}')
    assert (found.left, found.kept) == (
        '{"new":"123.45"}', [("new", "new is decimal(4, 2), and was a number of more digits")],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("own", "of"),
    [
        (NODE, '{"v":1,"next":{"v":2,"next":null}}'),
        (["null", NODE], '{"v":1,"next":{"v":2,"next":null}}'),
        ({"type": "array", "items": NODE}, '[{"v":1,"next":{"v":2,"next":null}}]'),
    ],
)
def test_a_value_whose_type_contains_itself_stays_and_it_is_said_why(own: Any, of: str) -> None:
    other = json.dumps(record({"name": "tree", "type": own}))
    table = merge(parsed(json.dumps(record())), written(other), recursive_as_text=True)
    assert not table.conflicts
    text = f'{{"tree":{of}}}'
    found = AvroFiller([other], table.text).fill({"id": 1, "tree": None}, text)
    assert found == Filled(left=text, kept=[("tree", IN_ITSELF)])


@pytest.mark.parametrize(
    ("kind", "of", "filled"),
    [
        ("string", '"abc"', '"abc"'),
        ({"type": "map", "values": "double"}, '{"a":0.1}', '{"a":0.1}'),
        (["null", "string"], "null", None),
    ],
)
def test_a_value_of_a_column_that_is_a_text_of_json_is_that_text(kind: Any, of: str, filled: Any) -> None:
    first = json.dumps(record({"name": "tree", "type": NODE}))
    table = merge(parsed(json.dumps(record())), written(first), recursive_as_text=True)
    node = {**NODE, "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": kind}]}
    other = json.dumps(record({"name": "tree", "type": node}))
    found = AvroFiller([other], table.text).fill({"id": 1, "tree": None}, f'{{"tree":{{"v":1,"next":{of}}}}}')
    assert found == Filled({"tree": {"v": 1, "next": filled}}, fields=["tree"])
