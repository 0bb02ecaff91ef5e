"""What was kept of a message's fields, filled into columns: as a decoder reads the same record by then."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor import Descriptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.core.decoding.avro.types import without_times
from sluice.core.decoding.filling import deciding
from sluice.core.decoding.filling.batches import Filled
from sluice.core.decoding.filling.from_json import OTHER_TEXT
from sluice.core.decoding.filling.merging import HAS_A_VALUE
from sluice.core.decoding.filling.protobuf.filler import ProtobufFiller
from sluice.core.decoding.filling.protobuf.merging import NO_FIELD
from sluice.core.decoding.filling.protobuf.numbers import ONEOF, OTHER_BYTES
from sluice.core.decoding.protobuf.decoder import TableMessage
from sluice.core.decoding.protobuf.following.merging import merge
from sluice.core.decoding.protobuf.reader import MessageReader
from sluice.core.decoding.protobuf.schema import ProtobufSchema, UnsupportedMessage
from sluice.core.decoding.protobuf.types import Type, list_of, map_of, struct_of
from tests.support.protobuf import OLD, RECURSIVE, SHOP, message_class, messages, proto3, schema, table
from tests.support.protobuf_versions import Histories
from tests.unit.core.decoding.filling.test_avro_rows import later, same

KEPT = "_unknown_fields"
SLOW: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def row(writer: Descriptor, of: Type, body: bytes) -> dict[str, Any]:
    """A row of a table as it is when the record is decoded; times as numbers."""
    found = MessageReader(writer, of, KEPT).value(body)
    kind = pa.struct([*of.arrow, pa.field(KEPT, pa.utf8())])
    (one,) = pa.array([found], kind).cast(without_times(kind)).to_pylist()
    return one


def filled(
    writers: Sequence[ProtobufSchema],
    before: Type,
    now: TableMessage,
    writer: Descriptor,
    body: bytes,
    **own: bool,
) -> tuple[dict[str, Any], Filled]:
    """The row of a record that is filled, and the account of it."""
    present = later(row(writer, before, body), before.arrow, now.type.arrow)
    text = row(writer, before, body)[KEPT]
    if text is None:
        return {**present, KEPT: None}, Filled()
    known = pickle.loads(pickle.dumps(ProtobufFiller(writers, now, is_own=own.get("is_own", False))))  # noqa: S301
    of = known.fill(present, text)
    (one,) = pa.array([{**present, **of.values}], without_times(now.type.arrow)).to_pylist()
    return {**one, KEPT: of.left}, of


def thinned(of: Type, random: Random) -> Type:
    """The type without some of its fields, at any depth."""
    if of.kind == "struct":
        kept = [one for one in of.fields if random.random() < 0.5] or [of.fields[0]]
        return struct_of(replace(one, type=thinned(one.type, random)) for one in kept)
    if of.kind == "list":
        return list_of(thinned(of.inner, random))
    return map_of(of.key, thinned(of.inner, random)) if of.key is not None else of


def assert_same(done: dict[str, Any], expected: dict[str, Any]) -> None:
    left, wanted = done.pop(KEPT), expected.pop(KEPT)
    assert same(done, expected)
    # In another order: a part that is left stays where the whole was.
    assert (left and json.loads(left)) == (wanted and json.loads(wanted))


@pytest.mark.parametrize("by_number", [False, True])
@pytest.mark.parametrize(
    ("text", "name", "as_text"), [(SHOP, "shop.Order", ()), (OLD, "old.Node", RECURSIVE)]
)
@pytest.mark.parametrize("examples", [15, pytest.param(600, marks=pytest.mark.exhaustive)])
def test_a_value_of_each_type_at_any_depth_is_the_one_that_its_record_would_give(
    text: str, name: str, as_text: tuple[str, ...], by_number: bool, examples: int
) -> None:
    now = TableMessage(schema(text), name, as_text, by_number=by_number)

    @settings(max_examples=examples, **SLOW)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        before = thinned(now.type, data.draw(st.randoms(use_true_random=False)))
        message = data.draw(messages(now.descriptor))
        if name == "old.Node":
            message.id = 1
        if not message.IsInitialized():
            return
        body = message.SerializeToString()
        found, of = filled([schema(text)], before, now, now.descriptor, body)
        assert [path for path, reason in of.kept if reason != NO_FIELD] == []
        assert_same(found, row(now.descriptor, now.type, body))

    run()


@pytest.mark.parametrize("examples", [15, pytest.param(600, marks=pytest.mark.exhaustive)])
def test_rows_of_a_history_are_what_a_replay_gives(examples: int) -> None:
    total = 0

    @settings(max_examples=examples, **SLOW)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        nonlocal total
        schemas = [
            one.schema() for one in Histories(data.draw(st.randoms(use_true_random=False))).versions(4)
        ]
        first = TableMessage(schemas[0], "h.M", by_number=True)
        last = first.type
        for one in schemas[1:]:
            last = merge(last, one.message("h.M")).schema
        now = first.following(last)
        for one in schemas:
            writer = one.message("h.M")
            body = data.draw(messages(writer)).SerializeToString()
            try:
                found, of = filled(schemas, first.type, now, writer, body)
            except UnsupportedMessage:
                # The earlier table cannot have it.
                continue
            total += len(of.fields)
            expected = row(writer, last, body)
            if not of.kept:
                assert_same(found, expected)
            for _, reason in of.kept:
                assert reason in (deciding.OTHER_TYPES, deciding.NO_COLUMN), of

    run()
    assert total


def test_versions_in_which_a_text_is_another_value_leave_it() -> None:
    """0.1 of 32 bits is another number in a column of 64."""
    narrow, wide = (proto3(f"message A {{ int32 id = 1; {kind} new = 2; }}") for kind in ("float", "double"))
    before = TableMessage(proto3("message A { int32 id = 1; }")).type
    now = TableMessage(wide)
    for one, value in ((narrow, 0.10000000149011612), (wide, 0.1)):
        writer = one.message("shop.A")
        body = message_class(writer)(new=0.1).SerializeToString()
        assert filled([one], before, now, writer, body)[0]["new"] == value
        found, of = filled([narrow, wide], before, now, writer, body)
        assert (found["new"], found[KEPT]) == (None, '{"new":0.1}')
        assert of.kept == [("new", deciding.OTHER_TYPES)]


def test_a_text_that_may_be_of_a_version_whose_type_no_column_has_stays() -> None:
    """Four letters may be a text, or three bytes."""
    text, of_bytes = (
        proto3(f"message A {{ int32 id = 1; {kind} new = 2; }}") for kind in ("string", "bytes")
    )
    known = ProtobufFiller([text, of_bytes], TableMessage(of_bytes), is_own=False)
    found = known.fill({"id": 1, "new": None}, '{"new":"YWJj"}')
    assert (found.values, found.left) == ({}, '{"new":"YWJj"}')
    assert found.kept == [("new", "new is string, and the table has binary")]
    number = proto3("message A { int32 id = 1; int32 new = 2; }")
    known = ProtobufFiller([number, of_bytes], TableMessage(of_bytes), is_own=False)
    assert known.fill({"id": 1, "new": None}, '{"new":"YWJj"}').values == {"new": b"abc"}


def test_a_field_that_was_renamed_goes_into_the_column_of_its_number() -> None:
    first = proto3("message A { int32 id = 1; int32 old = 2; int32 without = 3; }")
    now = TableMessage(proto3("message A { int32 id = 1; int64 new = 2; }"), by_number=True)
    found = ProtobufFiller([first], now, is_own=False).fill({"id": 1, "new": None}, '{"old":3,"without":4}')
    assert (found.values, found.left, found.kept) == ({"new": 3}, '{"without":4}', [])


NOW = proto3(
    "enum E { ZERO = 0; ONE = 1; } message I { int32 a = 1; optional string b = 2; }"
    "message A { int32 id = 1; int32 n = 2; E e = 3; I i = 4; repeated I l = 5; map<int32, I> m = 6;"
    " string s = 7; }"
)
EMPTY = {"id": 1, "n": None, "e": None, "i": None, "l": None, "m": None, "s": None}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('{"n":2147483648}', [("n", deciding.NO_TYPE)]),
        ('{"n":1.0}', [("n", deciding.NO_TYPE)]),
        ('{"n":true}', [("n", deciding.NO_TYPE)]),
        ('{"n":"1"}', [("n", deciding.NO_TYPE)]),
        ('{"e":"TWO"}', [("e", deciding.NO_TYPE)]),
        # A name that the number has.
        ('{"e":"1"}', [("e", deciding.NO_TYPE)]),
        ('{"i":{"b":"x"}}', [("i", deciding.NO_TYPE)]),
        ('{"i":{"a":1,"c":1}}', [("i", deciding.NO_TYPE)]),
        ('{"l":[null]}', [("l", deciding.NO_TYPE)]),
        ('{"m":{"01":{"a":1}}}', [("m", deciding.NO_TYPE)]),
        ('{"m":{"x":{"a":1}}}', [("m", deciding.NO_TYPE)]),
        ('{"n":1,"later":1}', [("n", deciding.NO_SCHEMA)]),
        ('{"n":1,"n":2}', [("", OTHER_TEXT)]),
        ('{"n":1', [("", OTHER_TEXT)]),
        ('{"2":{"varint":5}}', [("2", NO_FIELD)]),
        ('{"9":{"varint":5}}', []),
        ("[1]", [("", OTHER_TEXT)]),
    ],
)
def test_what_no_record_of_the_schemas_has_stays_as_it_is(text: str, kept: list[tuple[str, str]]) -> None:
    found = ProtobufFiller([NOW], TableMessage(NOW, "shop.A"), is_own=False).fill(EMPTY, text)
    assert (found.values, found.left, found.fields, found.kept) == ({}, text, [], kept)


@pytest.mark.parametrize(
    "text",
    [
        '{"n":7}',
        '{"l":[]}',
        '{"l":[null]}',
        '{"m":{}}',
        '{"m":{"1":null}}',
        '{"l":[{"a":5}]}',
    ],
)
def test_a_column_that_has_a_value_keeps_it_and_so_does_the_text(text: str) -> None:
    item = {"a": 1, "b": None}
    present = {"id": 1, "n": 5, "e": "ONE", "i": item, "l": [item], "m": [(1, item)], "s": None}
    other = '"s":"x"'
    found = ProtobufFiller([NOW], TableMessage(NOW, "shop.A"), is_own=False).fill(
        present, f"{text[:-1]},{other}}}"
    )
    assert (found.values, found.left, found.fields) == ({"s": "x"}, text, ["s"])
    ((_, reason),) = found.kept
    assert reason == HAS_A_VALUE


def test_nanoseconds_that_a_column_of_microseconds_lacks_stay_and_are_no_fault() -> None:
    now = table(SHOP, "shop.Order")
    order = message_class(now.descriptor)(id="x")
    order.at.FromNanoseconds(1_700_000_000_123_456_789)
    order.times.add().FromNanoseconds(-1)
    order.times.add()
    body = order.SerializeToString()
    before = struct_of([now.type.fields[0]])
    expected = row(now.descriptor, now.type, body)
    for earlier in (before, now.type):
        found, of = filled([schema(SHOP)], earlier, now, now.descriptor, body)
        assert of.kept == []
        assert_same(found, dict(expected))


class TestOwnMessage:
    """Without a registry records are read with the declared message, also those of before a field of it."""

    @pytest.mark.parametrize("examples", [15, pytest.param(600, marks=pytest.mark.exhaustive)])
    def test_fields_known_by_their_numbers_are_what_the_message_reads_by_now(self, examples: int) -> None:
        now = table(SHOP, "shop.Order")
        earlier = proto3(
            "message Item { string sku = 1; } message Order { string id = 1; Item main = 7; "
            "repeated Item items = 8; map<int32, Item> by_number = 9; }"
        )
        before = TableMessage(earlier, "shop.Order")

        @settings(max_examples=examples, **SLOW)
        @given(messages(now.descriptor))
        def run(sent: Any) -> None:
            body = sent.SerializeToString()
            found, of = filled([schema(SHOP)], before.type, now, before.descriptor, body, is_own=True)
            expected = row(now.descriptor, now.type, body)
            assert of.kept == []
            assert (found[KEPT] and json.loads(found[KEPT])) == (
                expected[KEPT] and json.loads(expected[KEPT])
            )
            unset = found | {KEPT: expected[KEPT]}
            assert same(*(_set(one, now.type) for one in (unset, expected)))

        run()

    @pytest.mark.parametrize(
        ("text", "present", "reason"),
        [
            ('{"10":{"bytes":"eA=="}}', {"cash": True}, ONEOF),
            ('{"10":{"bytes":"/w=="}}', {}, OTHER_BYTES),
            ('{"2":{"varint":5}}', {"number": 1}, HAS_A_VALUE),
        ],
    )
    def test_what_stays(self, text: str, present: dict[str, Any], reason: str) -> None:
        now = table(SHOP, "shop.Order")
        known = ProtobufFiller([schema(SHOP)], now, is_own=True)
        empty = dict.fromkeys(now.type.arrow.names)
        found = known.fill(empty | present, text)
        assert (found.values, found.left) == ({}, text)
        assert found.kept == [(json.loads(text).popitem()[0], reason)]

    def test_two_of_a_oneof_stay_as_the_wire_had_an_order(self) -> None:
        text = '{"10":{"bytes":"eA=="},"11":{"varint":1}}'
        known = ProtobufFiller([schema(SHOP)], table(SHOP, "shop.Order"), is_own=True)
        found = known.fill(dict.fromkeys(known.type.names), text)
        assert (found.values, found.left, found.kept) == ({}, text, [("10", ONEOF), ("11", ONEOF)])

    @pytest.mark.parametrize(
        "text",
        ['{"2":{"varint":"x"}}', '{"2":5}', '{"2":{"bytes":1}}', '{"2":{"bits":1}}', '{"2":{"fixed32":-1}}'],
    )
    def test_a_text_of_no_field_stays(self, text: str) -> None:
        known = ProtobufFiller([schema(SHOP)], table(SHOP, "shop.Order"), is_own=True)
        found = known.fill(dict.fromkeys(known.type.names), text)
        assert found == Filled(left=text, kept=[("", OTHER_TEXT)])

    def test_a_symbol_that_a_closed_enum_lacked(self) -> None:
        before = TableMessage(schema(OLD), "old.Node", RECURSIVE)
        later_text = OLD.replace("TWO = 2;", "TWO = 2; SEVEN = 7;")
        now = TableMessage(schema(later_text), "old.Node", RECURSIVE)
        body = b"\x08\1\x18\7\xf8\x06\1"
        found, of = filled([schema(later_text)], before.type, now, before.descriptor, body, is_own=True)
        assert (found["kind"], found[KEPT], of.fields) == ("SEVEN", '{"111":{"varint":1}}', ["kind"])
        assert_same(found, row(now.descriptor, now.type, body))


def _set(value: Any, of: Type) -> Any:
    """Without what stands for fields that were not set, of which an earlier message says nothing."""
    if of.kind == "struct" and value is not None:
        found = {one.name: _set(value[one.name], one.type) for one in of.fields}
        return {
            name: one for name, one in found.items() if one not in (None, "", 0, False, b"", [], "NEW", "[]")
        }
    if of.kind == "list":
        return [_set(one, of.inner) for one in value or ()]
    if of.kind == "map":
        return [(key, _set(one, of.inner)) for key, one in value or ()]
    return value
