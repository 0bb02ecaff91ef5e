"""A schema that contains itself as one that a table can have: where it does, there is the text of JSON."""

from __future__ import annotations

from dataclasses import replace

from sluice.core.decoding.avro.following.written import optional, schema_text
from sluice.core.decoding.avro.types import JSON, RECURSIVE, Field, Type, declared

_TEXT = optional(Type(JSON))


def unrolled(text: str) -> str:
    """A schema with a text in the place of each field that is inside of itself; as it was without any. Raises
    UnsupportedSchema."""
    found = declared(text).record
    return schema_text(with_texts(found)) if found.has_recursion else text


def with_texts(kind: Type) -> Type:
    """The type with such texts, which may be null."""
    if kind.kind == RECURSIVE:
        return _TEXT
    if not kind.has_recursion:
        return kind
    return replace(
        kind,
        fields=tuple(
            # Its default is none of a text.
            Field(one.name, _TEXT, one.aliases, None)
            if one.type.kind == RECURSIVE
            else replace(one, type=with_texts(one.type))
            for one in kind.fields
        ),
        items=with_texts(kind.items) if kind.items else None,
        branches=tuple(map(with_texts, kind.branches)),
    )
