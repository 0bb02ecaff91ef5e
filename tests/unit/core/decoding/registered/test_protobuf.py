"""Protobuf records that name their schema by its id, and their message by its place in it."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from sluice.config.reading.protoc import compiled
from sluice.core.decoding.decoder import TOMBSTONE, Malformed
from sluice.core.decoding.protobuf.decoder import TableMessage
from sluice.core.decoding.protobuf.schema import ProtobufSchema
from sluice.core.decoding.registered.protobuf import RegisteredProtobuf, RegisteredProtobufKeys
from sluice.core.decoding.registered.unfollowed import Following
from sluice.core.record_batches.records import SCHEMA
from sluice.core.registry.errors import RefusedSchema, RegistryUnreachable, UnknownSchema
from sluice.core.registry.schemas import RegisteredSchema
from tests.support.protobuf import message_class, proto3
from tests.support.raising import raising
from tests.support.registered import framed

HEAD = 'syntax = "proto3"; package shop; '
ITEM = f"{HEAD} message Item {{ string sku = 1; int32 count = 2; }}"
V1 = f'{HEAD} import "item.proto"; message Order {{ int64 id = 1; Item item = 2; repeated Item items = 3; }}'
# Narrower, further fields at each level, another place, and another number of a field.
NEW_ITEM = ITEM.replace(
    "int32 count = 2;", "int32 count = 2; bool is_gift = 3; map<string, uint64> more = 4;"
)
V2 = f"""{HEAD} import "item.proto"; message First {{ map<string, string> tags = 1; message In {{}} }}
    message Order {{ int32 id = 7; Item item = 2; repeated Item items = 3; double price = 4; }}"""
TEXT_ID = f"{HEAD} message Order {{ string id = 1; }}"
NESTED = f"""{HEAD} message Outer {{
    map<string, string> tags = 1; message A {{}} message Order {{ int64 id = 1; }} }}"""


class Schemas:
    """``schemas``: id -> the text with the texts that it imports, or an error."""

    def __init__(self, schemas: Mapping[int, tuple[str, dict[str, str]] | Exception]) -> None:
        self.schemas, self.types = schemas, {8: "AVRO"}

    def get(self, schema_id: int) -> RegisteredSchema:
        found = self.schemas.get(schema_id, UnknownSchema(f"schema id {schema_id} is not in the registry"))
        if isinstance(found, Exception):
            raise found
        text, imports = found
        kind = self.types.get(schema_id, "PROTOBUF")
        return RegisteredSchema(schema_id, kind, text, imports=tuple(imports.items()))

    def subjects(self, schema_id: int, among: frozenset[str]) -> frozenset[str]:
        return frozenset()


def in_base64(text: str, imports: dict[str, str]) -> str:
    """As Confluent's serializer of Python registers it."""
    content = FileDescriptorSet.FromString(compiled(imports | {"any.proto": text}, "any.proto"))
    (found,) = (file for file in content.file if file.name == "any.proto")
    return base64.b64encode(found.SerializeToString()).decode()


SCHEMAS = Schemas(
    {
        1: (V1, {"item.proto": ITEM}),
        2: (V2, {"item.proto": NEW_ITEM}),
        3: (TEXT_ID, {}),
        4: (in_base64(V1, {"item.proto": ITEM}), {"item.proto": in_base64(ITEM, {})}),
        5: (V1, {}),
        6: ("no schema", {}),
        7: RefusedSchema("schema id 7 is too large"),
        8: ("{}", {}),
        11: RegistryUnreachable("no answer"),
    }
)


def class_of(schema_id: int, name: str) -> Any:
    found = SCHEMAS.get(schema_id)
    content = compiled(dict(found.imports) | {"r.proto": found.text}, "r.proto")
    return message_class(ProtobufSchema(content, "r.proto").message(name))


def decoder(text: str = V1, name: str = "shop.Order", unknown: str = "_unknown_fields") -> RegisteredProtobuf:
    schema = ProtobufSchema(
        compiled({"schema.proto": text, "item.proto": ITEM}, "schema.proto"), "schema.proto"
    )
    made = RegisteredProtobuf(TableMessage(schema, name), SCHEMAS, compiled, unknown)
    found = pickle.loads(pickle.dumps(made))  # noqa: S301  (its own)
    assert isinstance(found, RegisteredProtobuf)
    return found


def decoded(reader: RegisteredProtobuf | RegisteredProtobufKeys, values: Sequence[bytes | None]) -> list[Any]:
    headers = pa.array([[]] * len(values), SCHEMA.field("headers").type)
    found = reader.decode(pa.array([b"x", *values], pa.binary())[1:], headers)
    found.columns.validate(full=True)
    assert found.columns.schema == reader.schema
    rows = zip(found.columns.to_pylist(), found.reasons.to_pylist(), strict=True)
    said = [row if reason is None else reason for row, reason in rows]
    assert said == [by_reference(reader, value) for value in values]
    return said


def by_reference(reader: RegisteredProtobuf | RegisteredProtobufKeys, value: bytes | None) -> Any:
    try:
        return dict(reader.reference(value, ()))
    except Malformed as error:
        return str(error)


def test_records_of_several_schemas_are_rows_in_their_order() -> None:
    order, newer = class_of(1, "shop.Order"), class_of(2, "shop.Order")
    sent = order(id=2**40, item={"sku": "a"}, items=[{"count": 3}, {}])
    more = newer(id=5, price=0.5, item={"sku": "b", "is_gift": True}, items=[{"more": {"z": 1, "a": 2}}, {}])
    body = sent.SerializeToString()
    bodies = [
        framed(1, b"\0" + body),
        framed(2, b"\2\2" + more.SerializeToString()),
        framed(4, b"\2\0" + body),
    ]
    empty = {"sku": "", "count": 0}
    row = {"id": 2**40, "item": empty | {"sku": "a"}, "items": [empty | {"count": 3}, empty]}
    item = {"sku": "b", "count": 0}
    lacked = (
        '{"price":0.5,"item":{"is_gift":true,"more":{}},"items":[{"is_gift":false,"more":{"a":2,"z":1}},'
        '{"is_gift":false,"more":{}}]}'
    )
    older = row | {"_unknown_fields": None}
    assert decoded(decoder(), bodies) == [
        older,
        {"id": 5, "item": item, "items": [empty, empty], "_unknown_fields": lacked},
        older,
    ]
    assert decoded(decoder(unknown=""), bodies[:1]) == [row]
    values = pa.array([b"", *bodies, framed(2, b"\xff"), *bodies[:1], framed(77, b"\0")])
    lists = pa.array([[]] * len(values), SCHEMA.field("headers").type)
    assert decoder().decode(values, lists).schemas == {1: (1, 5), 2: (2, 2), 4: (3, 3)}


def test_a_field_that_a_writer_lacks_is_null_and_one_that_it_does_not_set_is_not() -> None:
    text = f"{HEAD} message Order {{ int64 id = 1; string new = 2; repeated string news = 3; }}"
    found = decoded(decoder(text), [framed(1, b"\0")])
    assert found == [
        {"id": 0, "new": None, "news": None, "_unknown_fields": '{"items":[]}'},
    ]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, TOMBSTONE),
        (framed(9, b"\0"), "schema id 9 is not in the registry"),
        (framed(7, b"\0"), "schema id 7 is too large"),
        (framed(8, b"\0"), "schema id 8 is of type AVRO, and the stream's format is protobuf"),
        (
            framed(3, b"\0"),
            "schema id 3 cannot be read with the table's columns: id is string, and the table has int64",
        ),
        (framed(1, b""), "its bytes end in the message indexes behind its schema id"),
        (framed(1, b"\2"), "its bytes end in the message indexes behind its schema id"),
        (framed(1, b"\1\0"), "-1 message indexes behind its schema id: those are 1 to 32"),
        (framed(1, b"\2\1"), "the message index -1 behind its schema id, which is none"),
        (framed(1, b"\xff\xff\xff\xff\xff"), "its message indexes behind its schema id are too large"),
        (
            framed(1, b"\2\4"),
            "its message is none of schema id 1: message indexes 2, and the stream's is shop.Order",
        ),
        (framed(2, b"\0"), "its message is a shop.First, and the stream's is shop.Order"),
        (framed(1, b"\0\x08"), "not a message shop.Order: the bytes end in a number in id, at byte 2"),
        (framed(1, b"\0\x12\x02\x0a\x05"), "not a message shop.Order: 0 of 5 bytes in item.sku, at byte 5"),
        (b"\0\0\0\0", "starts with 00, and has 4 bytes: too short for a schema id"),
    ],
)
def test_records_that_are_rejected(value: bytes | None, reason: str) -> None:
    assert decoded(decoder(), [value]) == [reason]


def test_a_text_that_is_no_schema_is_a_reason_with_the_compilers_words() -> None:
    no_schema, no_import = decoded(decoder(), [framed(6, b"\0"), framed(5, b"\0")])
    words = "schema id 6 cannot be used: _registered.proto:1:1: Expected top-level statement"
    assert no_schema.startswith(words)
    assert no_import.startswith("schema id 5 cannot be used: item.proto: File not found.; _registered.proto:")


def test_a_registry_that_does_not_answer_is_no_reason() -> None:
    with raising(RegistryUnreachable, "no answer"):
        decoded(decoder(), [framed(1, b"\0"), framed(11, b"\0")])


@pytest.mark.parametrize("indexes", [b"\4\0\2", b"\4\0\4"])
def test_a_message_behind_a_map_is_found_by_both_ways_of_counting(indexes: bytes) -> None:
    """Java's serializer does not count the map's entries, and Python's does."""
    schemas = Schemas({1: (NESTED, {})})
    schema = ProtobufSchema(compiled({"schema.proto": NESTED}, "schema.proto"), "schema.proto")
    reader = RegisteredProtobuf(TableMessage(schema, "shop.Outer.Order"), schemas, compiled)
    assert decoded(reader, [framed(1, indexes + b"\x08\x05")]) == [{"id": 5}]
    # One of these places is another message's, too.
    assert schema.names_at((0, 1)) == ["shop.Outer.Order", "shop.Outer.A"]
    assert schema.names_at((0, 0)) == ["shop.Outer.A"]


def following(text: str, schemas: Schemas, how: Following | None) -> RegisteredProtobuf:
    table = TableMessage(proto3(text), "shop.Order", by_number=how is None or how.adds_columns)
    made = RegisteredProtobuf(table, schemas, compiled, "rest", how)
    found = pickle.loads(pickle.dumps(made))  # noqa: S301  (its own)
    assert isinstance(found, RegisteredProtobuf)
    return found


def unfollowed(reader: RegisteredProtobuf, *values: bytes | None) -> set[int]:
    headers = pa.array([[]] * len(values), SCHEMA.field("headers").type)
    return set(reader.decode(pa.array(values, pa.binary()), headers).unfollowed)


BEFORE = "message Order { int32 id = 1; string note = 2; }"
VERSIONS = Schemas(
    {
        1: (f"{HEAD} {BEFORE}", {}),
        2: (
            f"{HEAD} message First {{}} message Order {{ int64 id = 1; string remark = 2; bool new = 3; }}",
            {},
        ),
        3: (f"{HEAD} message Order {{ string id = 1; bool other = 4; }}", {}),
        # At the place of the first one.
        5: (f"{HEAD} message Other {{ int32 id = 1; bool new = 3; }} {BEFORE}", {}),
    }
)
REFUSED = (
    "schema id 3 cannot be followed: id: the table has int32, the schema string. Fix: send the new type "
    "under another number and field name, or name a new table"
)


def test_a_version_that_is_more_than_the_tables_is_named_once_one_of_its_records_is_there() -> None:
    reader = following(BEFORE, VERSIONS, Following())
    good = framed(2, b"\2\2\x08\5\x18\1")
    # No message of it, and another one of its schema.
    assert unfollowed(reader, framed(2, b"\2\2\x08"), framed(2, b"\0"), None, framed(99, b"\0")) == set()
    assert unfollowed(reader, framed(1, b"\0\x08\5"), good) == {2}
    assert unfollowed(reader, framed(1, b"\0\x08\5")) == set(), "one of these records"
    assert unfollowed(following(BEFORE, VERSIONS, None), good) == set()
    after = following("message Order { int64 id = 1; string note = 2; bool new = 3; }", VERSIONS, Following())
    assert unfollowed(after, good) == set()
    # Whatever name a field has.
    body = framed(2, b"\2\2\x08\5\x12\1n\x18\1")
    assert decoded(after, [body]) == [{"id": 5, "note": "n", "new": True, "rest": None}]


def test_a_version_that_cannot_be_followed_rejects_its_records_and_is_named() -> None:
    reader = following(BEFORE, VERSIONS, Following())
    assert unfollowed(reader, framed(3, b"\0\x0a\5x")) == set(), "no message of it"
    assert decoded(reader, [framed(3, b"\0\x0a\1x")]) == [REFUSED]
    assert unfollowed(reader, framed(3, b"\0\x0a\1x")) == {3}


def test_another_message_at_the_same_place_is_no_version() -> None:
    reader = following(BEFORE, VERSIONS, Following())
    why = "its message is a shop.Other, and the stream's is shop.Order"
    assert decoded(reader, [framed(5, b"\0\x08\5"), framed(5, b"\2\2\x08\5")]) == [
        why,
        {"id": 5, "note": "", "rest": None},
    ]
    assert unfollowed(reader, framed(5, b"\0\x08\5"), framed(5, b"\2\2\x08\5")) == set()


def test_a_table_whose_columns_stay_reads_by_names_and_names_versions_that_cannot_be_read() -> None:
    reader = following(BEFORE, VERSIONS, Following(adds_columns=False))
    why = (
        "schema id 2 cannot be read with the table's columns: id is long, and the table has int32. Fix: set "
        'new_fields = "column" under [records], and restart the consumer, or name a new table'
    )
    assert decoded(reader, [framed(2, b"\2\2\x08\5")]) == [why]
    assert unfollowed(reader, framed(2, b"\2\2\x08\5")) == {2}
    wide = following("message Order { int64 id = 1; }", VERSIONS, Following(adds_columns=False))
    row = {"id": 5, "rest": '{"remark":"","new":false}'}
    assert decoded(wide, [framed(2, b"\2\2\x08\5")]) == [row]
    assert unfollowed(wide, framed(2, b"\2\2\x08\5")) == set()


def test_a_key_is_any_message_as_a_text_of_json() -> None:
    text = f"""{HEAD} message First {{ map<string, int32> m = 1; message In {{}} }} message Empty {{}}
        message Key {{ uint64 id = 1; repeated Key parts = 2; optional string note = 3; }}"""
    schemas = Schemas({1: (text, {}), 2: (text, {}), 8: ("{}", {}), 11: RegistryUnreachable("no answer")})
    reader = pickle.loads(pickle.dumps(RegisteredProtobufKeys("key", schemas, compiled)))  # noqa: S301
    key = b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x12\x02\x08\x01\x20\x05"
    found = decoded(
        reader,
        [framed(1, b"\2\4" + key), framed(2, b"\2\2"), framed(1, b"\4\0\2"), framed(1, b"\2\x0e")],
    )
    whole = '{"id":18446744073709551615,"parts":[{"id":1,"parts":[]}],"4":{"varint":5}}'
    assert found[:3] == [{"key": whole}, {"key": "{}"}, {"key": "{}"}]
    assert found[3] == "its message is none of schema id 1: message indexes 7"
    assert "not a message shop.Key" in decoded(reader, [framed(1, b"\2\4\x08")])[0]
    of_avro = "schema id 8 is of type AVRO, and the stream's key is protobuf"
    assert decoded(reader, [framed(8, b"\0"), None]) == [of_avro, TOMBSTONE]
    with raising(RegistryUnreachable, "no answer"):
        decoded(reader, [framed(11, b"\0")])
