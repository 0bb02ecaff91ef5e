"""Types of an Avro schema, with names resolved, and their types in Arrow.

The types in Arrow are those that Spark's ``from_avro`` gives, since the tables exist with them
(``SchemaConverters.toSqlType`` in https://github.com/apache/spark).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from sluice.core.decoding.avro import trees
from sluice.core.error_codes import ErrorCode

PRIMITIVES = trees.PRIMITIVES
NO_DEFAULT: Any = object()
# A value whose type contains itself, and a use of a name within such a type; a text of JSON, of a table.
RECURSIVE, AGAIN, JSON = "recursive", "again", "json"
# A table's schema has it where a field is kept as the text of JSON; other readers have a text.
JSON_TEXT = "sluice-json"
# Spark's and Iceberg's most digits of a decimal; and those of one that records have and no column.
MAX_PRECISION, MAX_WRITTEN_PRECISION = 38, 76
# Logical types by their underlying type; others are read as that, as Avro's specification says.
TIMES = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_ARROW = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.utf8(),
    "enum": pa.utf8(),
    RECURSIVE: pa.utf8(),
    JSON: pa.utf8(),
}


@dataclass(frozen=True)
class Type:
    """A type of a schema; of ``kind`` depends what else it has.

    ``kind``: a primitive type's name, or record, enum, fixed, array, map, union, RECURSIVE, AGAIN, JSON.
    ``name``: the full name of a record, enum or fixed, of which AGAIN is a use, or which RECURSIVE is inside
    of. ``logical``: a logical type that is valid and has its own type in Arrow. ``digits``: precision and
    scale of a decimal. ``size``: bytes of a fixed. ``symbols``, ``default``: of an enum. ``fields``: of a
    record. ``items``: of an array, values of a map; of RECURSIVE its type, with each definition once.
    ``branches``: of a union. ``aliases``: full names that a writer's type may have instead. ``note``: what
    the schema says of a type's meaning that is no logical type here. ``most``: the largest
    absolute value of a number that is read at once, 0 for all.
    """

    kind: str
    name: str = ""
    logical: str = ""
    digits: tuple[int, int] = (0, 0)
    size: int = 0
    symbols: tuple[str, ...] = ()
    default: str | None = None
    fields: tuple[Field, ...] = ()
    items: Type | None = None
    branches: tuple[Type, ...] = ()
    aliases: tuple[str, ...] = ()
    note: str = ""
    most: int = 0

    @cached_property
    def by_name(self) -> Mapping[str, Field]:
        """The fields of a record, by their names."""
        return {one.name: one for one in self.fields}

    @property
    def values(self) -> tuple[Type, ...]:
        """The branches of a union that are not null."""
        return tuple(branch for branch in self.branches if branch.kind != "null")

    @property
    def is_widened(self) -> bool:
        """Whether it is a union that is read as the wider one of two types of numbers."""
        kinds = sorted(branch.kind for branch in self.values)
        return kinds in (["int", "long"], ["double", "float"])

    @property
    def optional(self) -> Type:
        """The only type of a union that is not null, or the type itself."""
        return self.values[0] if len(self.values) == 1 else self

    @cached_property
    def has_recursion(self) -> bool:
        """Whether a part of it is RECURSIVE."""
        parts = [*self.branches, *(one.type for one in self.fields), *([self.items] if self.items else [])]
        return self.kind == RECURSIVE or any(part.has_recursion for part in parts)

    @cached_property
    def definitions(self) -> Mapping[str, Type]:
        """The types that RECURSIVE defines, by their names."""
        found, parts = dict[str, Type](), [self.item]
        while parts:
            one = parts.pop()
            if one.name and one.kind != AGAIN:
                found[one.name] = one
            parts += [
                *one.branches,
                *(field.type for field in one.fields),
                *([one.items] if one.items else []),
            ]
        return found

    @property
    def item(self) -> Type:
        """``items``, of a type that has them."""
        assert self.items is not None  # noqa: S101  (narrows the type)
        return self.items


@dataclass(frozen=True)
class Field:
    """A field of a record. ``default``: as JSON has it."""

    name: str
    type: Type
    aliases: tuple[str, ...] = ()
    default: Any = NO_DEFAULT

    @property
    def has_default(self) -> bool:
        return self.default is not NO_DEFAULT


class UnsupportedSchema(ValueError):
    """A schema that no table can have, or that is none."""

    code = ErrorCode.INVALID_CONFIGURATION


@dataclass(frozen=True)
class Schema:
    """A schema. ``title``: the record's name, as its declaration has it. ``fingerprint``: 16 hex digits."""

    record: Type
    title: str
    fingerprint: str


def arrow_type(kind: Type) -> pa.DataType:
    """The type of its column, of which every part may be null."""
    if kind.logical == "decimal":
        # Numbers of more digits are for the reference.
        return pa.decimal128(*(min(each, MAX_PRECISION) for each in kind.digits))
    if kind.logical:
        return TIMES[kind.kind, kind.logical]
    if kind.kind == "record":
        return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in kind.fields])
    if kind.kind == "array":
        return pa.list_(arrow_type(kind.item))
    if kind.kind == "map":
        return pa.map_(pa.utf8(), arrow_type(kind.item))
    if kind.kind == "union":
        return _union_type(kind)
    return _ARROW[kind.kind]


def _union_type(kind: Type) -> pa.DataType:
    if kind.is_widened:
        return pa.int64() if kind.values[0].kind in ("int", "long") else pa.float64()
    if len(kind.values) == 1:
        return arrow_type(kind.values[0])
    if not kind.values:
        return pa.null()
    return pa.struct([pa.field(f"member{n}", arrow_type(branch)) for n, branch in enumerate(kind.values)])


def without_times(kind: pa.DataType) -> pa.DataType:
    """A type with the numbers of its dates and times in their place."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(without_times(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(without_times(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, without_times(kind.item_type))
    if pa.types.is_date(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def min_bytes(kind: Type) -> int:
    """How many bytes a value has at least."""
    if kind.kind in ("null", "fixed", AGAIN):
        return kind.size
    if kind.kind == RECURSIVE:
        return min_bytes(kind.item)
    if kind.kind in ("float", "double"):
        return 4 if kind.kind == "float" else 8
    if kind.kind == "record":
        return sum(min_bytes(field.type) for field in kind.fields)
    if kind.kind == "union":
        return 1 + min(map(min_bytes, kind.branches))
    return 1
