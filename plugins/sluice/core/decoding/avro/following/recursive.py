"""A schema as one that a table can have: where it contains itself, or a record has no fields, there is the
text of JSON. And a further field as far as there are columns for it."""

from __future__ import annotations

from dataclasses import replace

from sluice.core.decoding.avro.following.written import optional, schema_text
from sluice.core.decoding.avro.parsing import declared
from sluice.core.decoding.avro.types import JSON, MAX_PRECISION, RECURSIVE, Field, Type

_TEXT = optional(Type(JSON))


def unrolled(text: str) -> str:
    """A schema with a text in the place of each field that is inside of itself; the same without any.
    Raises UnsupportedSchema."""
    found = declared(text).record
    return schema_text(as_columns(found)) if found.has_recursion else text


def is_null(kind: Type) -> bool:
    """Whether it has null alone."""
    return kind.kind == "null" or (kind.kind == "union" and not kind.values)


def is_text(kind: Type) -> bool:
    """Whether values of a type that is no union are texts of JSON: no other column can have them."""
    return kind.kind in (RECURSIVE, JSON) or (
        kind.kind == "record" and all(is_null(one.type) for one in kind.fields)
    )


def with_columns(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """Fields, and those of records in them, but for such as no column can have: decimals of too many digits,
    lists of null, and what has nothing else. A table that keeps further fields keeps them there."""
    found = ((one, _with_columns(one.type)) for one in fields)
    return tuple(replace(one, type=kind) for one, kind in found if kind is not None)


def _with_columns(kind: Type) -> Type | None:
    if kind.digits[0] > MAX_PRECISION:
        return None
    if kind.kind == "record":
        fields = with_columns(kind.fields)
        return replace(kind, fields=fields) if fields or not kind.fields else None
    if kind.kind in ("array", "map"):
        item = _with_columns(kind.item)
        return None if item is None or is_null(item) else replace(kind, items=item)
    branches = tuple(one for one in map(_with_columns, kind.branches) if one is not None)
    return replace(kind, branches=branches) if len(branches) == len(kind.branches) else None


def as_columns(kind: Type, *, recursive_as_text: bool = True) -> Type:
    """A type as columns have it. Fields that have null alone have none; what has no column is a text."""
    if kind.kind == RECURSIVE and not recursive_as_text:
        return kind
    if is_text(kind):
        return Type(JSON)
    fields = []
    for one in kind.fields:
        if is_null(one.type):
            continue
        inner = as_columns(one.type, recursive_as_text=recursive_as_text)
        # Its default is none of a text.
        is_other = inner.kind == JSON and one.type.kind != JSON
        fields.append(Field(one.name, _TEXT, one.aliases, None) if is_other else replace(one, type=inner))
    branches = [as_columns(one, recursive_as_text=recursive_as_text) for one in kind.branches]
    items = as_columns(kind.items, recursive_as_text=recursive_as_text) if kind.items else None
    return replace(kind, fields=tuple(fields), items=items, branches=tuple(branches))
