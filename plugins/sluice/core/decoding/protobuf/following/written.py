"""The row of a table that follows Protobuf as the text of JSON: each column with the number of its field."""

from __future__ import annotations

import json
from typing import Any

from sluice.core.decoding.protobuf.types import ARROW, Field, Type, list_of, map_of, struct_of

# The form of the document.
_FORM = 1


def row_text(message: str, row: Type) -> str:
    """The same row has the same text. ``message``: its full name."""
    found = {"form": _FORM, "message": message, "fields": _fields(row)}
    return json.dumps(found, ensure_ascii=False)


def row_of_text(text: str) -> tuple[str, Type]:
    """The message's full name, and the row, whose columns are found by their numbers. Raises ValueError for
    the text of another form."""
    found = json.loads(text)
    if not isinstance(found, dict) or found.get("form") != _FORM:
        raise ValueError(f"it is no document of form {_FORM}")
    return str(found["message"]), _struct(found["fields"])


def _fields(kind: Type) -> list[Any]:
    return [{"name": one.name, "number": one.number, "type": _written(one.type)} for one in kind.fields]


def _written(kind: Type) -> Any:
    if kind.kind == "struct":
        return {"kind": "struct", "fields": _fields(kind)}
    if kind.kind == "list":
        return {"kind": "list", "item": _written(kind.inner)}
    if kind.key is not None:
        return {"kind": "map", "key": _written(kind.key), "item": _written(kind.inner)}
    return kind.kind


def _struct(fields: Any) -> Type:
    return struct_of(Field(one["name"], one["number"], _read(one["type"]), by_number=True) for one in fields)


def _read(found: Any) -> Type:
    if isinstance(found, str):
        return Type(found, ARROW[found])
    if found["kind"] == "struct":
        return _struct(found["fields"])
    item = found["item"]
    return list_of(_read(item)) if found["kind"] == "list" else map_of(_read(found["key"]), _read(item))
