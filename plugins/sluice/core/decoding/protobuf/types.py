"""The columns of a message: what each field is in the table."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from sluice.core.decoding.protobuf.schema import UnsupportedMessage

# Fields of a message that is read, with those of its messages: a few can stand for billions. Not
# ``bounds.MAX_COLUMNS``: tables that were declared with more stay readable.
MAX_FIELDS = 10_000
# Messages inside of each other, the outermost one counted.
MAX_LEVELS = 50
TIME = pa.timestamp("us", tz="UTC")
# Seconds with nine digits behind the point: a Duration has at most 10,000 years.
DURATION = pa.decimal128(21, 9)
# A kind -> the type of its column.
ARROW: dict[str, pa.DataType] = {
    "int": pa.int32(),
    "uint": pa.int64(),
    "long": pa.int64(),
    "ulong": pa.decimal128(20, 0),
    "float": pa.float32(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.utf8(),
    "bytes": pa.binary(),
    "enum": pa.utf8(),
    "timestamp": TIME,
    "duration": DURATION,
    "json": pa.utf8(),
}
_SCALARS = {
    FieldDescriptor.TYPE_INT32: "int",
    FieldDescriptor.TYPE_SINT32: "int",
    FieldDescriptor.TYPE_SFIXED32: "int",
    FieldDescriptor.TYPE_UINT32: "uint",
    FieldDescriptor.TYPE_FIXED32: "uint",
    FieldDescriptor.TYPE_INT64: "long",
    FieldDescriptor.TYPE_SINT64: "long",
    FieldDescriptor.TYPE_SFIXED64: "long",
    FieldDescriptor.TYPE_UINT64: "ulong",
    FieldDescriptor.TYPE_FIXED64: "ulong",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_ENUM: "enum",
}
_GOOGLE = "google.protobuf."
# https://protobuf.dev/reference/protobuf/google.protobuf/
WRAPPERS = {
    f"{_GOOGLE}BoolValue": "bool",
    f"{_GOOGLE}BytesValue": "bytes",
    f"{_GOOGLE}DoubleValue": "double",
    f"{_GOOGLE}FloatValue": "float",
    f"{_GOOGLE}Int32Value": "int",
    f"{_GOOGLE}Int64Value": "long",
    f"{_GOOGLE}StringValue": "string",
    f"{_GOOGLE}UInt32Value": "uint",
    f"{_GOOGLE}UInt64Value": "ulong",
}
TIMESTAMP, LENGTH_OF_TIME = f"{_GOOGLE}Timestamp", f"{_GOOGLE}Duration"
STRUCT, VALUE, LIST_VALUE = f"{_GOOGLE}Struct", f"{_GOOGLE}Value", f"{_GOOGLE}ListValue"
# Messages whose columns are texts of JSON: what is in them has no fields that are known.
_JSON = frozenset({STRUCT, VALUE, LIST_VALUE, f"{_GOOGLE}Any"})


@dataclass(frozen=True)
class Field:
    """A column of a message's field. ``number``: as on the wire; ``by_number``: whether that says which field
    of a writer is the column's, as of a table that follows its records' schemas, or the name does."""

    name: str
    number: int
    type: Type
    by_number: bool = False

    def source(self, writer: Descriptor) -> FieldDescriptor | None:
        """The field of a writer's message that the column has; None without one."""
        return (
            writer.fields_by_number.get(self.number)
            if self.by_number
            else writer.fields_by_name.get(self.name)
        )


@dataclass(frozen=True)
class Type:
    """What a field is in a table.

    ``kind``: one of ARROW, or struct, list, map. ``arrow``: its column's type. ``fields``: of a struct.
    ``key``: of a map; ``item``: the elements of a list, the values of a map.
    """

    kind: str
    arrow: pa.DataType
    fields: tuple[Field, ...] = ()
    key: Type | None = None
    item: Type | None = None

    @property
    def inner(self) -> Type:
        """``item``, of a type that has it."""
        assert self.item is not None  # noqa: S101  (narrows the type)
        return self.item


def scalar_kind(field: FieldDescriptor) -> str:
    """The kind of one value of a field; "struct" of a message that is none of Google's well-known ones."""
    if (message := field.message_type) is None:
        return _SCALARS[field.type]
    name = message.full_name
    if name == TIMESTAMP:
        return "timestamp"
    if name == LENGTH_OF_TIME:
        return "duration"
    if name in _JSON:
        return "json"
    return WRAPPERS.get(name, "struct")


def _is_again(field: FieldDescriptor, outer: Collection[str]) -> bool:
    """Whether its message, or the one of its map's values, is inside of another one of its kind."""
    one = field.message_type.fields_by_number[2] if is_map(field) else field
    return one.message_type is not None and one.message_type.full_name in outer


def is_map(field: FieldDescriptor) -> bool:
    message = field.message_type
    return bool(field.is_repeated and message is not None and message.GetOptions().map_entry)


def struct_of(fields: Iterable[Field]) -> Type:
    found = tuple(fields)
    return Type("struct", pa.struct([pa.field(one.name, one.type.arrow) for one in found]), found)


def list_of(item: Type) -> Type:
    return Type("list", pa.list_(item.arrow), item=item)


def map_of(key: Type, item: Type) -> Type:
    return Type("map", pa.map_(key.arrow, item.arrow), key=key, item=item)


def type_of(
    message: Descriptor,
    as_text: Collection[str] = (),
    *,
    recursive_as_text: bool = False,
    by_number: bool = False,
) -> Type:
    """The type of a message as a row. ``as_text``: paths of fields, with points between the names, which are
    kept as the text of JSON, whatever they have; ``recursive_as_text``: so are those whose message is inside
    of another one of its kind; ``by_number``: as Field has it. Raises UnsupportedMessage naming the path: for
    a message without fields, one that contains itself, more than MAX_FIELDS fields or MAX_LEVELS levels, and
    a path that there is not."""
    found = Types(frozenset(as_text), recursive_as_text=recursive_as_text, by_number=by_number)
    row = found.struct(message, "", ())
    if not row.fields:
        raise UnsupportedMessage(f"{message.full_name} has no fields: it has no columns")
    if unused := sorted(set(as_text) - found.used):
        raise UnsupportedMessage(f"{message.full_name} has no field {unused[0]!r}, which is to be a text")
    return row


class Types:
    """The types of fields, of which there are not more than MAX_FIELDS. ``used``: the paths of ``as_text``
    that were found."""

    def __init__(
        self, as_text: frozenset[str], *, recursive_as_text: bool = False, by_number: bool = False
    ) -> None:
        self._as_text, self.used, self._fields = as_text, set[str](), 0
        self._recursive_as_text, self._by_number = recursive_as_text, by_number

    def struct(self, message: Descriptor, path: str, outer: tuple[str, ...]) -> Type:
        inside = (*outer, message.full_name)
        return struct_of(
            self.field(field, f"{path}.{field.name}" if path else field.name, inside)
            for field in message.fields
        )

    def field(self, field: FieldDescriptor, path: str, outer: tuple[str, ...]) -> Field:
        """The column of a field. ``outer``: the names of the messages that it is in. Raises
        UnsupportedMessage."""
        self._fields += 1
        if self._fields > MAX_FIELDS:
            raise UnsupportedMessage(f"it has more than {MAX_FIELDS} fields, with those of its messages")
        return Field(field.name, field.number, self._of(field, path, outer), self._by_number)

    def _of(self, field: FieldDescriptor, path: str, outer: tuple[str, ...]) -> Type:
        if path in self._as_text:
            self.used.add(path)
            return Type("json", ARROW["json"])
        if self._recursive_as_text and _is_again(field, outer):
            return Type("json", ARROW["json"])
        if is_map(field):
            of_key, of_value = (field.message_type.fields_by_number[number] for number in (1, 2))
            return map_of(self._single(of_key, path, outer), self._single(of_value, path, outer))
        one = self._single(field, path, outer)
        return list_of(one) if field.is_repeated else one

    def _single(self, field: FieldDescriptor, path: str, outer: tuple[str, ...]) -> Type:
        kind = scalar_kind(field)
        if kind != "struct":
            return Type(kind, ARROW[kind])
        message = field.message_type
        if len(outer) == MAX_LEVELS:
            raise UnsupportedMessage(
                f"{path} is inside of {MAX_LEVELS} messages: no table has so many levels. Fix: name a field "
                "that it is in, in json_fields of [records]"
            )
        if message.full_name in outer:
            raise UnsupportedMessage(
                f"{path} is a {message.full_name} inside of another one: no table has such columns. Fix: "
                f"name {path!r}, or a field that it is in, in json_fields of [records], or set "
                'recursive_fields = "json"'
            )
        # Without a field there is no column: it is a text, or null.
        return self.struct(message, path, outer) if message.fields else Type("json", ARROW["json"])
