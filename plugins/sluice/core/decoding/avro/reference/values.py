"""Values of one body by fastavro, for the reference.

What fastavro would lose is asked of it in another way, which has the same bytes: a map's entries as an array,
a branch of a union of several types as a record whose field says which one, and logical types as what they
are made of, since not all of their values are values of Python.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from decimal import Decimal
from itertools import count
from types import MappingProxyType
from typing import Any

import fastavro

from sluice.core.decoding.avro.types import AGAIN, RECURSIVE, Type
from sluice.core.decoding.avro.unknown.json_values import joined, text_of

_MILLIS = ("timestamp-millis", "local-timestamp-millis")


class ValueReader:
    """Reads bodies of one type, which are laid out as it says."""

    def __init__(self, record: Type) -> None:
        self._names = count()
        # What a recursive type defines, by its names -> the names here.
        self._known: dict[str, str] = {}
        self._schema = fastavro.parse_schema(self._rewritten(record))

    def read(self, value: bytes) -> Any:
        """A value in the form of this module: a map is a list of ``{"key": …, "value": …}``, a value of a
        union of several types ``{"member1": …}``."""
        return fastavro.schemaless_reader(io.BytesIO(value), self._schema, None)

    def _rewritten(self, kind: Type) -> Any:
        if kind.kind == RECURSIVE:
            self._known = {}
            return self._rewritten(kind.item)
        if kind.kind == AGAIN:
            return self._known[kind.name]
        if kind.kind == "record":
            return self._record({field.name: field.type for field in kind.fields}, kind.name)
        if kind.kind == "array":
            return {"type": "array", "items": self._rewritten(kind.item)}
        if kind.kind == "map":
            return {"type": "array", "items": self._record({"key": Type("string"), "value": kind.item})}
        if kind.kind == "union":
            members = {id(branch): f"member{n}" for n, branch in enumerate(kind.values)}
            return [
                branch.kind
                if branch.kind == "null"
                else self._record({members[id(branch)]: branch})
                if len(members) > 1
                else self._rewritten(branch)
                for branch in kind.branches
            ]
        if kind.kind == "fixed":
            return {"type": "fixed", "name": self._name(kind.name), "size": kind.size}
        if kind.kind == "enum":
            return {"type": "enum", "name": self._name(kind.name), "symbols": list(kind.symbols)}
        return kind.kind

    def _record(self, fields: dict[str, Type], of: str = "") -> Any:
        # Before its fields, which may have it.
        name = self._name(of)
        named = [{"name": one, "type": self._rewritten(kind)} for one, kind in fields.items()]
        return {"type": "record", "name": name, "fields": named}

    def _name(self, of: str = "") -> str:
        found = self._known[of] = f"Type{next(self._names)}"
        return found


def arrow_value(kind: Type, value: Any) -> Any:
    """A value as PyArrow takes it for the type's column; times as their numbers. Raises OverflowError for one
    that is beyond the type."""
    kind = kind.optional
    if value is None:
        return None
    if kind.kind == RECURSIVE:
        return json_text(kind.item, value, kind.definitions)
    if kind.kind == "union":
        ((member, one),) = value.items()
        found = arrow_value(kind.values[int(member.removeprefix("member"))], one)
        return found if kind.is_widened else {member: found}
    if kind.kind == "record":
        return {field.name: arrow_value(field.type, value[field.name]) for field in kind.fields}
    if kind.kind == "array":
        return [arrow_value(kind.item, one) for one in value]
    if kind.kind == "map":
        return [(entry["key"], arrow_value(kind.item, entry["value"])) for entry in value]
    if kind.logical == "decimal":
        number, (precision, scale) = int.from_bytes(value, "big", signed=True), kind.digits
        if not value or abs(number) >= 10**precision:
            raise OverflowError
        return Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))
    if kind.logical in _MILLIS:
        if not -(2**63) <= value * 1000 < 2**63:
            raise OverflowError
        return value * 1000
    return value


def json_text(kind: Type, value: Any, known: Mapping[str, Type] = MappingProxyType({})) -> str:
    """A value as the text of JSON, as ``unknown`` has it. ``known``: what names stand for. Raises
    OverflowError for a part that is beyond its type."""
    if value is None:
        return "null"
    kind = kind.optional
    if kind.kind == AGAIN:
        kind = known[kind.name]
    # A value may have a hundred records inside of each other: one call for each.
    members: list[tuple[str, str]] = []
    if kind.kind == "union" and not kind.is_widened:
        ((member, one),) = value.items()
        return json_text(kind.values[int(member.removeprefix("member"))], one, known)
    if kind.kind == "record":
        for field in kind.fields:
            members.append((field.name, json_text(field.type, value[field.name], known)))
        return joined(members)
    if kind.kind == "map":
        for entry in value:
            members.append((entry["key"], json_text(kind.item, entry["value"], known)))
        return joined(members)
    if kind.kind == "array":
        items: list[str] = []
        for one in value:
            items.append(json_text(kind.item, one, known))
        return f"[{','.join(items)}]"
    return text_of(kind)(arrow_value(kind, value))
