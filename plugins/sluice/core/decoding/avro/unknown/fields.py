"""What a writer's schema has that the table's schema lacks, of all records or of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.decoding.avro.reference.resolution import Unresolvable, branch_of, writers_field
from sluice.core.decoding.avro.reference.values import arrow_value
from sluice.core.decoding.avro.types import Type, without_times
from sluice.core.decoding.avro.unknown.json_values import joined, text_of, texts_of

# From a value in the form of `arrow_value` to the JSON text of what is lacking of it; None if nothing is.
Lacking = Callable[[Any], str | None]


class UnknownFields:
    """The fields of records of ``writer`` that ``reader`` lacks."""

    def __init__(self, writer: Type, reader: Type) -> None:
        self._writer = writer
        self._fields = [
            (place, field.name, text_of(field.type), texts_of(field.type))
            for place, field in enumerate(writer.fields)
            if field.name not in _known(writer, reader)
        ]
        self._parts = _parts(writer, reader)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._fields or self._parts)

    def text(self, record: Any) -> str | None:
        """The text of one record, in the form of ``reference.values``; None without a further field."""
        found: dict[str, Any] = arrow_value(self._writer, record)
        members = [(name, text(found[name])) for _, name, text, _ in self._fields]
        members += [(name, text) for name, of in self._parts if (text := of(found[name])) is not None]
        return joined(members) if members else None

    def texts(self, records: pa.StructArray) -> pa.StringArray:
        """The texts of records, as a column of them; none of them is null itself."""
        if not self:
            return pa.nulls(len(records), pa.utf8())
        # Each member with a comma before it, of which the first is cut off.
        members = [
            pc.binary_join_element_wise(f",{_begin(name)}", texts(records.field(place)), "")
            for place, name, _, texts in self._fields
        ]
        # A record may lack nothing of a part.
        members += [pc.fill_null(self._of_part(records, name, of), "") for name, of in self._parts]
        inner = pc.binary_join_element_wise(*members, "")
        whole = pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(inner, 1), "}", "")
        return whole if self._fields else pc.if_else(pc.equal(inner, ""), None, whole)

    def _of_part(self, records: pa.StructArray, name: str, of: Lacking) -> pa.StringArray:
        column = records.field([field.name for field in self._writer.fields].index(name))
        values = column.cast(without_times(column.type)).to_pylist()
        prefix = f",{_begin(name)}"
        found = [None if (text := of(value)) is None else prefix + text for value in values]
        return pa.array(found, pa.utf8(), size=len(found))


def _begin(name: str) -> str:
    """A member without its value."""
    return joined([(name, "")])[1:-1]


def _known(writer: Type, reader: Type) -> set[str]:
    """The writer's fields that a field of the reader is read from."""
    return {source.name for field in reader.fields if (source := writers_field(field, writer)) is not None}


def _parts(writer: Type, reader: Type) -> list[tuple[str, Lacking]]:
    """What the reader's fields lack of those that both have."""
    found = []
    for field in reader.fields:
        source = writers_field(field, writer)
        lacking = None if source is None else _lacking(source.type, field.type)
        if source is not None and lacking is not None:
            found.append((source.name, lacking))
    return found


def _lacking(writer: Type, reader: Type) -> Lacking | None:
    """None if the reader's type lacks nothing."""
    if writer == reader:
        return None
    writer = writer.optional
    if writer.kind == "union":
        return _of_union(writer, reader)
    if reader.kind == "union":
        try:
            reader = branch_of(writer, reader)
        except Unresolvable:
            return None
    if writer.kind != reader.kind:
        return None
    if writer.kind == "record":
        return _of_record(writer, reader)
    if writer.kind in ("array", "map"):
        return _of_items(writer, reader)
    if writer.kind == "enum" and not set(writer.symbols) <= set(reader.symbols):
        return _of_enum(writer, reader)
    return None


def _of_enum(writer: Type, reader: Type) -> Lacking:
    """A symbol that is read as the default of the table's enum."""
    text = text_of(writer)
    return lambda value: None if value is None or value in reader.symbols else text(value)


def _of_record(writer: Type, reader: Type) -> Lacking | None:
    known = _known(writer, reader)
    whole = [(field.name, text_of(field.type)) for field in writer.fields if field.name not in known]
    parts = _parts(writer, reader)
    if not whole and not parts:
        return None

    def lacking(value: Any) -> str | None:
        if value is None:
            return None
        members = [(name, text(value[name])) for name, text in whole]
        members += [(name, text) for name, of in parts if (text := of(value[name])) is not None]
        return joined(members) if members else None

    return lacking


def _of_items(writer: Type, reader: Type) -> Lacking | None:
    item = _lacking(writer.item, reader.item)
    if item is None:
        return None

    def of_array(value: Any) -> str | None:
        found = [item(one) for one in value or ()]
        return f"[{','.join(text or 'null' for text in found)}]" if any(found) else None

    def of_map(value: Any) -> str | None:
        found = [(key, text) for key, one in value or () if (text := item(one)) is not None]
        return joined(found) if found else None

    return of_array if writer.kind == "array" else of_map


def _of_union(writer: Type, reader: Type) -> Lacking | None:
    found = {f"member{n}": _lacking(branch, reader) for n, branch in enumerate(writer.values)}
    if writer.is_widened or not any(found.values()):
        return None

    def lacking(value: Any) -> str | None:
        for name, of in found.items():
            if value is not None and value.get(name) is not None and of is not None:
                return of(value[name])
        return None

    return lacking
