"""Arrays of an earlier schema as arrays of the current one, all values at once: the usual cases of
:mod:`resolution`, which has the rules and all of the cases."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from sluice.core.decoding.avro.reference.resolution import (
    PROMOTIONS,
    default_value,
    is_same_name,
    is_wider_decimal,
    writers_field,
)
from sluice.core.decoding.avro.reference.values import arrow_value
from sluice.core.decoding.avro.types import Type, arrow_type

Convert = Callable[[pa.Array], pa.Array]


class Unusual(Exception):
    """Values of the two types are for the reference."""


def converter(writer: Type, reader: Type) -> Convert:
    """The function from arrays of ``writer`` to arrays of ``reader``. Raises Unusual if it may have no result
    for a value, or a branch of a union must be chosen by the value."""
    if writer == reader:
        return lambda array: array
    if writer.kind == "union" or reader.kind == "union":
        return _of_optional(writer, reader)
    if is_wider_decimal(writer, reader):
        digits = arrow_type(reader)
        return lambda array: array.cast(digits)
    if (writer.logical, writer.digits) != (reader.logical, reader.digits):
        # Columns of times have microseconds, whatever their records have.
        is_time = writer.logical.endswith("millis")
        if not is_time or reader.logical != writer.logical.replace("millis", "micros"):
            raise Unusual
        return lambda array: array
    if writer.kind != reader.kind:
        return _promoted(writer, reader)
    if writer.kind == "record":
        return _of_record(writer, reader)
    if writer.kind in ("array", "map"):
        return _of_list(writer, reader)
    if writer.kind == "enum" and not (
        is_same_name(writer, reader) and set(writer.symbols) <= set(reader.symbols)
    ):
        raise Unusual
    if writer.kind == "fixed" and not (is_same_name(writer, reader) and writer.size == reader.size):
        raise Unusual
    return lambda array: array


def _of_optional(writer: Type, reader: Type) -> Convert:
    had_null, has_null = (any(b.kind == "null" for b in kind.branches) for kind in (writer, reader))
    inner = writer.optional, reader.optional
    if (had_null and not has_null) or inner == (writer, reader) or "union" in (inner[0].kind, inner[1].kind):
        raise Unusual
    return converter(*inner)


def _promoted(writer: Type, reader: Type) -> Convert:
    # Bytes may be no text.
    usual = reader.kind in PROMOTIONS.get(writer.kind, ()) and reader.kind != "string"
    if not usual or writer.logical:
        raise Unusual
    found = arrow_type(reader)
    return lambda array: array.cast(found, safe=False)


def _of_record(writer: Type, reader: Type) -> Convert:
    found = arrow_type(reader)
    names = [field.name for field in writer.fields]
    parts: list[tuple[int, Convert]] = []
    for field in reader.fields:
        source = writers_field(field, writer)
        if source is None:
            default = arrow_value(field.type, default_value(field.type, field.default))
            parts.append((-1, _repeated(pa.array([default], arrow_type(field.type)))))
        else:
            parts.append((names.index(source.name), converter(source.type, field.type)))

    def convert(array: pa.Array) -> pa.Array:
        children = [part(array if place < 0 else array.field(place)) for place, part in parts]
        return pa.Array.from_buffers(found, len(array), array.buffers()[:1], children=children)

    return convert


def _repeated(one: pa.Array) -> Convert:
    return lambda array: one.take(pa.array(np.zeros(len(array), np.int32)))


def _of_list(writer: Type, reader: Type) -> Convert:
    found, item = arrow_type(reader), converter(writer.item, reader.item)

    def convert(array: pa.Array) -> pa.Array:
        if writer.kind == "array":
            children = [item(array.values)]
        else:
            entries = pa.struct([found.key_field, found.item_field])
            parts = [array.keys, item(array.items)]
            children = [pa.Array.from_buffers(entries, len(parts[0]), [None], children=parts)]
        return pa.Array.from_buffers(found, len(array), array.buffers()[:2], children=children)

    return convert
