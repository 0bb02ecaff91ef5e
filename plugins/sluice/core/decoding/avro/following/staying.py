"""A table whose columns stay as they are declared: what they can have of other versions, and what not.

Which numbers a column can have is decided by each number, as of decimals and doubles: Connect declares 64
digits where a database says none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sluice.core.decoding.avro.following.conflicts import Conflict, Fix, described
from sluice.core.decoding.avro.following.written import optional
from sluice.core.decoding.avro.reference.resolution import (
    Unresolvable,
    branch_of,
    resolver,
    writers_field,
)
from sluice.core.decoding.avro.types import JSON, Type


def with_all_values(record: Type) -> Type:
    """The record that a table is read with, with all that its columns can have: null, and any text in the
    place of an enum's symbol, unless the enum has a default for that."""
    return replace(record, fields=tuple(replace(one, type=_column(one.type)) for one in record.fields))


def _column(kind: Type) -> Type:
    if kind.kind == "union":
        # A union with two texts: nothing tells which of them a value is.
        is_one = len(kind.values) == 1
        branches = (one if one.kind == "null" else _value(one, is_one=is_one) for one in kind.branches)
        return kind if kind.is_widened else optional(replace(kind, branches=tuple(branches)))
    return optional(_value(kind, is_one=True))


def _value(kind: Type, *, is_one: bool) -> Type:
    if kind.kind == "enum" and kind.default is None and is_one:
        return Type("string")
    if kind.kind == "record":
        return with_all_values(kind)
    return replace(kind, items=_column(kind.item)) if kind.items else kind


def beyond(writer: Type, column: Type, path: str = "") -> Iterator[Conflict]:
    """The parts of a writer's type with values that a column of the table cannot have, though it has others.
    ``column``: of :func:`with_all_values`; the writer's whole type can be resolved to it."""
    if writer == column or column.kind == JSON:
        return
    for branch in writer.values if writer.kind == "union" else (writer,):
        try:
            reader = branch_of(branch, column, path) if column.kind == "union" else column
            resolver(branch, reader, path)
        except Unresolvable:
            yield _conflict(branch, column, path)
            continue
        if branch.kind == reader.kind == "record":
            shared = ((one, writers_field(one, branch)) for one in reader.fields)
            for one, source in shared:
                if source is not None:
                    yield from beyond(source.type, one.type, f"{path}.{one.name}" if path else one.name)
        elif branch.kind == reader.kind and branch.kind in ("array", "map"):
            yield from beyond(branch.item, reader.item, f"{path}[]")
        elif branch.kind == reader.kind == "enum" and not _has_symbols(branch, reader):
            yield _conflict(branch, column, path)


def _has_symbols(writer: Type, reader: Type) -> bool:
    return reader.default is not None or {*writer.symbols} <= {*reader.symbols}


def _conflict(branch: Type, column: Type, path: str) -> Conflict:
    return Conflict(path, described(column.optional), described(branch), Fix.DECLARED)
