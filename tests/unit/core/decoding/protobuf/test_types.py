"""The columns of messages."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from sluice.core.decoding.protobuf.decoder import ProtobufDecoder, TableMessage
from sluice.core.decoding.protobuf.schema import NotCompiled, ProtobufSchema, UnsupportedMessage
from sluice.core.decoding.protobuf.types import MAX_FIELDS
from tests.support.protobuf import OLD, RECURSIVE, SHOP, proto3, schema, table
from tests.support.raising import raising

ITEM = pa.struct(
    {"sku": pa.utf8(), "count": pa.int32(), "price": pa.float64(), "tags": pa.map_(pa.utf8(), pa.int64())}
)


def test_each_type_of_a_field_has_its_column() -> None:
    found = table(SHOP, "shop.Order").columns("_unknown_fields")
    time = pa.timestamp("us", tz="UTC")
    expected = {
        "id": pa.utf8(),
        "number": pa.decimal128(20, 0),
        "small": pa.int64(),
        "state": pa.utf8(),
        "states": pa.list_(pa.utf8()),
        "raw": pa.binary(),
        "main": ITEM,
        "items": pa.list_(ITEM),
        "by_number": pa.map_(pa.int32(), ITEM),
        "card": pa.utf8(),
        "cash": pa.bool_(),
        "voucher": ITEM,
        "points": pa.int64(),
        "at": time,
        "took": pa.decimal128(21, 9),
        "note": pa.utf8(),
        "big": pa.decimal128(20, 0),
        "payload": pa.utf8(),
        "ping": pa.utf8(),
        "times": pa.list_(time),
        "ratio": pa.float32(),
        "amount": pa.float64(),
        "is_gift": pa.bool_(),
        "change": pa.int32(),
        "fixed": pa.int64(),
        "bits": pa.int64(),
        "by_name": pa.map_(pa.utf8(), pa.utf8()),
        "extras": pa.list_(pa.utf8()),
        "flags": pa.map_(pa.bool_(), pa.binary()),
        "parts": pa.list_(pa.decimal128(20, 0)),
        "ratios": pa.list_(pa.float32()),
        "_unknown_fields": pa.utf8(),
    }
    assert found.equals(pa.schema(expected)), found


def test_the_first_message_is_the_tables_unless_one_is_named() -> None:
    found = proto3("message A { int32 a = 1; message B { int32 b = 1; } }")
    assert TableMessage(found).name == "shop.A"
    assert TableMessage(found, "shop.A.B").columns().names == ["b"]
    with raising(UnsupportedMessage, "no message 'shop.C'", "shop.A, shop.A.B"):
        TableMessage(found, "shop.C")
    with raising(UnsupportedMessage, "no message"):
        TableMessage(proto3("enum E { Z = 0; }"))


@pytest.mark.parametrize("missing", RECURSIVE)
def test_a_message_in_itself_is_refused_with_the_path_or_is_a_text(missing: str) -> None:
    declared = [path for path in RECURSIVE if path != missing]
    with raising(UnsupportedMessage, f"{missing} is a old.Node inside of another one", "json_fields"):
        TableMessage(schema(OLD), as_text=declared)
    columns = TableMessage(schema(OLD), as_text=[*declared, missing]).columns()
    assert columns.field(missing).type == pa.utf8()


def test_a_path_that_is_to_be_a_text_must_be_there_at_any_depth() -> None:
    found = proto3(
        "message A { B b = 1; } message B { repeated C c = 1; } message C { A a = 1; int32 x = 2; }"
    )
    with raising(UnsupportedMessage, "b.c.a is a shop.A inside of another one"):
        TableMessage(found)
    columns = TableMessage(found, as_text=["b.c.a"]).columns()
    assert columns.field("b").type.field("c").type.value_type == pa.struct({"a": pa.utf8(), "x": pa.int32()})
    with raising(UnsupportedMessage, "no field 'b.c.z'"):
        TableMessage(found, as_text=["b.c.a", "b.c.z"])


def test_a_few_messages_that_stand_for_billions_of_columns_are_refused() -> None:
    text = "".join(f"message M{n} {{ M{n + 1} a = 1; M{n + 1} b = 2; }}" for n in range(40))
    with raising(UnsupportedMessage, f"more than {MAX_FIELDS} fields"):
        TableMessage(proto3(f"{text} message M40 {{ int32 x = 1; }}"))


def test_a_message_without_fields_has_no_columns() -> None:
    with raising(UnsupportedMessage, "shop.A has no fields"):
        TableMessage(proto3("message A {}"))


def test_a_message_set_and_bytes_that_fit_not_together_are_refused() -> None:
    with raising(NotCompiled, "message sets"):
        schema('syntax = "proto2"; message A { option message_set_wire_format = true; extensions 4 to max; }')
    with raising(NotCompiled, "do not fit together"):
        ProtobufSchema(b"", "schema.proto")


def test_a_decoder_can_be_pickled() -> None:
    made = ProtobufDecoder(table(OLD, "old.Node", RECURSIVE), "rest")
    found = pickle.loads(pickle.dumps(made))  # noqa: S301  (its own)
    assert found.schema == made.schema
