"""What a further version of a message adds to its table, and what no table can follow."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sluice.core.decoding.avro.following.conflicts import MAX_COLUMNS, Combined, Fix, Names
from sluice.core.decoding.protobuf.following.merging import merge
from sluice.core.decoding.protobuf.following.written import row_of_text, row_text
from sluice.core.decoding.protobuf.reader import MessageReader
from sluice.core.decoding.protobuf.types import Type, type_of
from tests.support.protobuf import message_class, proto3
from tests.support.raising import raising

ITEM = "message Item { string sku = 1; int32 count = 2; } enum E { Z = 0; } "
FIELDS = """int32 id = 1; Item item = 2; repeated Item items = 3; map<string, Item> by_place = 4;
    uint32 size = 5; repeated int32 parts = 6; map<int32, int32> counts = 7; float ratio = 8; string note = 9;
    E state = 10; uint64 total = 11;"""
PRESENT = {"old": pa.field("old", pa.int32()), "again": pa.field("again", pa.int64())}
NAMES = Names(prefixes=("_kafka_",), own=frozenset({"key"}), present=PRESENT)


def order(fields: str, item: str = ITEM) -> str:
    return f"{item} message Order {{ {fields} }}"


def table(text: str, *as_text: str) -> Type:
    return type_of(proto3(text).message("shop.Order"), as_text, by_number=True)


def merged(text: str, before: str = FIELDS, as_text: tuple[str, ...] = ()) -> Combined[Type]:
    return merge(table(order(before), *as_text), proto3(text).message("shop.Order"), as_text, NAMES)


def columns(found: Combined[Type]) -> dict[str, str]:
    assert not found.conflicts
    # What is kept of it says the same.
    assert row_of_text(row_text("shop.Order", found.schema)) == ("shop.Order", found.schema)
    return {one.name: str(one.type.arrow) for one in found.schema.fields}


def changed(before: str, after: str) -> str:
    assert before in FIELDS
    return order(FIELDS.replace(before, after))


ORDER = columns(merge(table(order(FIELDS)), proto3(order(FIELDS)).message("shop.Order")))


@pytest.mark.parametrize(
    ("text", "new"),
    [
        (order("int64 again = 20; " + FIELDS), {"again": "int64"}),
        (
            order(FIELDS + "Item gift = 21; google.protobuf.Timestamp at = 19;").replace(
                "message Item", 'import "google/protobuf/timestamp.proto"; message Item', 1
            ),
            {"gift": "struct<sku: string, count: int32>", "at": "timestamp[us, tz=UTC]"},
        ),
        (
            order(FIELDS, ITEM.replace("count = 2;", "count = 2; bool is_gift = 3;")),
            {
                "item": "struct<sku: string, count: int32, is_gift: bool>",
                "items": "list<item: struct<sku: string, count: int32, is_gift: bool>>",
                "by_place": "map<string, struct<sku: string, count: int32, is_gift: bool>>",
            },
        ),
        (changed("int32 id = 1;", "int64 id = 1;"), {"id": "int64"}),
        (changed("int32 id = 1;", "uint32 id = 1;"), {"id": "int64"}),
        (changed("repeated int32 parts", "repeated int64 parts"), {"parts": "list<item: int64>"}),
        (changed("map<int32, int32>", "map<int32, int64>"), {"counts": "map<int32, int64>"}),
    ],
)
def test_what_it_adds_is_at_the_end_and_what_it_widens_stays(text: str, new: dict[str, str]) -> None:
    found = merged(text)
    assert found.is_new
    assert columns(found) == ORDER | new
    assert list(columns(found)) == list(ORDER | new)


@pytest.mark.parametrize(
    "text",
    [
        changed("uint32 size", "int64 size"),
        changed("uint64 total", "uint32 total"),
        # Renamed, removed with its number reserved, moved into a oneof, or of another order.
        changed("string note = 9", "string remark = 9"),
        changed("string note = 9;", 'reserved 9; reserved "note";'),
        changed("float ratio = 8; string note = 9;", "oneof one { float ratio = 8; string note = 9; }"),
        changed("float ratio = 8;", "optional float ratio = 8;"),
        order("uint64 total = 11; int32 id = 1;"),
        # Another message of the same numbers, and further symbols.
        changed("Item item = 2;", "Other item = 2;") + "message Other { string sku = 1; }",
        order(FIELDS, ITEM.replace("Z = 0;", "Z = 0; A = 1;")),
    ],
)
def test_what_changes_no_column(text: str) -> None:
    assert not merged(text).is_new
    assert columns(merged(text)) == ORDER


REFUSED = [
    (changed("float ratio", "double ratio"), "ratio: the table has float, the schema double"),
    (changed("uint32 size", "uint64 size"), "size: the table has int64, the schema ulong"),
    (changed("int32 id", "uint64 id"), "id: the table has int32, the schema ulong"),
    # A number that is used again.
    (changed("string note = 9", "int32 count = 9"), "note: the table has string, the schema int"),
    (changed("string note = 9", "E state2 = 9"), "note: the table has string, the schema enum"),
    (changed("E state = 10", "string state = 10"), "state: the table has an enum, the schema string"),
    (changed("int32 id = 1", "repeated int32 id = 1"), "id: the table has int32, the schema repeated int"),
    (changed("repeated int32 parts", "int32 parts"), "parts: the table has a list, the schema int"),
    (
        changed("repeated Item items", "Item items"),
        "items: the table has a list, the schema message shop.Item",
    ),
    (
        changed("map<int32, int32>", "map<int64, int32>"),
        "a key of counts: the table has int32, the schema long",
    ),
    (changed("map<int32, int32> counts", "Item counts"), "counts: the table has a map, the schema message"),
    (
        order(FIELDS, ITEM.replace("int32 count", "string count")),
        "by_place.count: the table has int32, the schema string",
    ),
    # A name that another number's column has.
    (
        changed("string note = 9", "string remark = 9; string NOTE = 20"),
        "NOTE: the table has a column note of the field 9, the schema the field 20 of the name",
    ),
    (order(FIELDS + "int64 old = 20;"), "old: the table has an earlier column old, int32, the schema long"),
    (order(FIELDS + "string key = 20;"), "key: the table has a column key of its own, the schema string"),
    (order(FIELDS + "string _kafka_x = 20;"), "_kafka_x: the table has no such column, the schema a name"),
    (
        order(FIELDS + "In new = 20;")
        + "message In { repeated In2 a = 1; } message In2 { int32 _kafka_ = 1; }",
        "new.a._kafka_: the table has no such column, the schema a name that is reserved",
    ),
    (
        order(FIELDS + "In new = 20;") + "message In { int32 a = 1; int32 A = 2; }",
        "new.A: the table has no such column, the schema a too, in another case",
    ),
    (
        order(FIELDS, ITEM.replace("count = 2;", "count = 2; Item inner = 3;")),
        "item.inner: the table has no such column, the schema item.inner is a shop.Item inside of another",
    ),
    (
        order(FIELDS + "".join(f"int32 n{number} = {number};" for number in range(20, 2_020))),
        f"the whole schema: the table has at most {MAX_COLUMNS:,} columns, the schema 2,018 with its own",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_what_no_table_can_follow_is_named_and_nothing_is_followed(text: str, reason: str) -> None:
    # What it adds as well is not added.
    found = merged(text.replace("message Order {", "message Order { int32 first = 15;"))
    assert found.reason.startswith(reason) or f"; {reason}" in found.reason
    assert (found.schema, found.is_new) == (table(order(FIELDS)), False)
    assert found.message.count("Fix: ") == 1


def test_a_text_of_json_takes_whatever_its_field_becomes_and_a_declared_one_is_no_column() -> None:
    text = changed("Item item = 2;", "repeated bytes item = 2; Item more = 20;")
    found = merged(text, as_text=("item",))
    assert columns(found) == ORDER | {"item": "string", "more": "struct<sku: string, count: int32>"}
    # As the declaration may have it, of a column that is a message.
    message = proto3(order(FIELDS)).message("shop.Order")
    conflict = "item: the table has a message, the schema a text of JSON, as json_fields says"
    found = merge(table(order(FIELDS)), message, ("item",))
    assert (found.reason, found.fix) == (conflict, Fix.JSON)


def test_a_renamed_field_goes_on_in_its_column_and_is_not_unknown() -> None:
    writer = proto3(order("string sku = 1; string name = 9; int32 note = 30;").replace("sku = 1", "a = 31"))
    message = writer.message("shop.Order")
    body = message_class(message)(name="n", a="b", note=5).SerializeToString()
    row = MessageReader(message, table(order("string note = 9;")), "rest").value(body)
    assert row == {"note": "n", "rest": '{"a":"b","note":5}'}


def test_a_document_of_another_form_is_none() -> None:
    with raising(ValueError, "no document of form 1"):
        row_of_text('{"form": 2, "message": "shop.Order", "fields": []}')
