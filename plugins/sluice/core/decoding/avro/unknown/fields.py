"""What a writer's schema has that the table's schema lacks, of all records or of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.decoding.avro.reference.resolution import Unresolvable, branch_of, writers_field
from sluice.core.decoding.avro.reference.values import arrow_value
from sluice.core.decoding.avro.types import Type, without_times
from sluice.core.decoding.avro.unknown.columns import Texts, begin, in_lists, texts_of
from sluice.core.decoding.avro.unknown.json_values import joined, text_of

# From a value in the form of `arrow_value` to the JSON text of what is lacking of it; None if nothing is.
Lacking = Callable[[Any], str | None]


class UnknownFields:
    """The fields of records of ``writer`` that ``reader`` lacks."""

    def __init__(self, writer: Type, reader: Type) -> None:
        self._writer, known = writer, _known(writer, reader)
        self._fields = [
            (place, field.name, text_of(field.type), texts_of(field.type))
            for place, field in enumerate(writer.fields)
            if field.name not in known
        ]
        self._parts = [(name, one, _column_of(*types)) for name, one, types in _parts(writer, reader)]

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._fields or self._parts)

    @property
    def names(self) -> list[str]:
        """The writer's fields that are lacking, and those of which a part is."""
        return [*(name for _, name, _, _ in self._fields), *(name for name, _, _ in self._parts)]

    def text(self, record: Any) -> str | None:
        """The text of one record, in the form of ``reference.values``; None without a further field."""
        return self.of_value(arrow_value(self._writer, record))

    def of_value(self, found: Mapping[str, Any]) -> str | None:
        """As :meth:`text`, of a record in the form of ``arrow_value``."""
        members = [(name, text(found[name])) for _, name, text, _ in self._fields]
        members += [(name, text) for name, of, _ in self._parts if (text := of(found[name])) is not None]
        return joined(members) if members else None

    def texts(self, records: pa.StructArray) -> pa.StringArray:
        """The texts of records, as a column of them; none of them is null itself."""
        if not self:
            return pa.nulls(len(records), pa.utf8())
        # Each member with a comma before it, of which the first is cut off.
        members = [
            pc.binary_join_element_wise(f",{begin(name)}", texts(records.field(place)), "")
            for place, name, _, texts in self._fields
        ]
        # A record may lack nothing of a part.
        members += [pc.fill_null(self._of_part(records, *part), "") for part in self._parts]
        inner = pc.binary_join_element_wise(*members, "")
        whole = pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(inner, 1), "}", "")
        return whole if self._fields else pc.if_else(pc.equal(inner, ""), None, whole)

    def _of_part(
        self, records: pa.StructArray, name: str, one: Lacking, texts: Texts | None
    ) -> pa.StringArray:
        column = records.field([field.name for field in self._writer.fields].index(name))
        if texts is not None:
            found = texts(column)
        else:
            values = column.cast(without_times(column.type)).to_pylist()
            found = pa.array(map(one, values), pa.utf8(), size=len(values))
        return pc.binary_join_element_wise(f",{begin(name)}", found, "")


def _known(writer: Type, reader: Type) -> set[str]:
    """The writer's fields that a field of the reader is read from."""
    return {name for name, _, _ in _shared(writer, reader)}


def _shared(writer: Type, reader: Type) -> Iterator[tuple[str, Type, Type]]:
    """The writer's fields that a field of the reader is read from: name, type and the reader's type."""
    for field in reader.fields:
        source = writers_field(field, writer)
        if source is not None:
            yield source.name, source.type, field.type


def _parts(writer: Type, reader: Type) -> list[tuple[str, Lacking, tuple[Type, Type]]]:
    """What the reader's fields lack of those that both have, with both types."""
    found = ((name, _lacking(*types), types) for name, *types in _shared(writer, reader))
    return [(name, lacking, (types[0], types[1])) for name, lacking, types in found if lacking is not None]


def _column_of(writer: Type, reader: Type) -> Texts | None:
    """As :func:`_lacking`, of a column: a text for each value, null if nothing is lacking of it. None for
    types of which it is told one by one."""
    writer, reader = writer.optional, reader.optional
    if writer.kind != reader.kind or writer.kind not in ("record", "array"):
        return None
    if writer.kind == "record":
        fields = UnknownFields(writer, reader)
        return lambda column: pc.if_else(column.is_valid(), fields.texts(column), None)
    item = _column_of(writer.item, reader.item)
    if item is None:
        return None

    def texts(column: pa.ListArray) -> pa.StringArray:
        found = item(column.flatten())
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
        lists = np.repeat(np.arange(len(column)), lengths)
        is_lacking = np.zeros(len(column), np.bool_)
        is_lacking[lists[found.is_valid().to_numpy(zero_copy_only=False)]] = True
        whole = in_lists(column, pc.fill_null(found, "null"))
        return pc.if_else(pa.array(is_lacking), whole, None)

    return texts


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
    fields = UnknownFields(writer, reader)
    return (lambda value: None if value is None else fields.of_value(value)) if fields else None


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
