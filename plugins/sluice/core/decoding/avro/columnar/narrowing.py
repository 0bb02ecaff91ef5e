"""A writer's type as the columnar way reads it for a reader's: numbers without the logical type that the
reader lacks, and with a bound if the reader has not all of them. What is beyond the bound is odd, and the
reference decides."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sluice.core.decoding.avro import meaning
from sluice.core.decoding.avro.reference.resolution import writers_field
from sluice.core.decoding.avro.types import Type

# Logical types of which each number is one: the other ones have bounds.
_PLAIN = ("date", "timestamp-micros", "local-timestamp-micros")


def narrowed(writer: Type, reader: Type) -> Type:
    """``writer`` with the same bodies; itself if there is nothing to bound."""
    if writer == reader:
        return writer
    if "union" in (writer.kind, reader.kind):
        return _optional(writer, reader)
    if writer.kind == reader.kind == "record":
        return _record(writer, reader)
    if writer.kind == reader.kind and writer.kind in ("array", "map"):
        return replace(writer, items=narrowed(writer.item, reader.item))
    if meaning.is_decimal(writer, reader):
        digits = min(writer.digits[0], reader.digits[0])
        return replace(writer, digits=(digits, writer.digits[1]))
    if not reader.logical and writer.logical in _PLAIN:
        writer = replace(writer, logical="")
    return replace(writer, most=meaning.exact(writer, reader))


def _optional(writer: Type, reader: Type) -> Type:
    """Narrow the type that a union has beside null; a union of several is as it is."""
    value, wanted = writer.optional, reader.optional
    if "union" in (value.kind, wanted.kind):
        return writer
    found = narrowed(value, wanted)
    if writer.kind != "union":
        return found
    return replace(writer, branches=tuple(found if one is value else one for one in writer.branches))


def _record(writer: Type, reader: Type) -> Type:
    sources = [(writers_field(field, writer), field.type) for field in reader.fields]
    wanted = {source.name: kind for source, kind in sources if source is not None}
    # Two columns of one field, by an alias, may have two bounds.
    count = Counter(source.name for source, _ in sources if source is not None)
    fields = tuple(
        replace(field, type=narrowed(field.type, wanted[field.name])) if count[field.name] == 1 else field
        for field in writer.fields
    )
    return replace(writer, fields=fields)
