"""A type as the JSON text of an Avro schema."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from sluice.core.decoding.avro.trees import MEANING
from sluice.core.decoding.avro.types import JSON, JSON_TEXT, Type

_NULL = Type("null")


def optional(kind: Type) -> Type:
    """The type, or null, which is its first branch."""
    if kind.kind == "union":
        return replace(kind, branches=(_NULL, *(one for one in kind.branches if one.kind != "null")))
    return kind if kind.kind == "null" else Type("union", branches=(_NULL, kind))


def schema_text(record: Type) -> str:
    """The schema of a record. The same type has the same text; what ``types.parsed`` makes of it is the same
    type, but for names of types that stand for two: the second has another name, and its own as an alias."""
    return json.dumps(_Writer().of(record), ensure_ascii=False)


class _Writer:
    """Writes each definition once, and its name afterwards."""

    def __init__(self) -> None:
        self._defined: dict[str, Type] = {}
        # Name -> the types that have it, with the names that they are written with.
        self._renamed: dict[str, list[tuple[Type, str]]] = {}

    def of(self, kind: Type) -> Any:
        if kind.kind == "union":
            return [self.of(branch) for branch in kind.branches]
        if kind.kind == "array":
            return {"type": "array", "items": self.of(kind.item)}
        if kind.kind == "map":
            return {"type": "map", "values": self.of(kind.item)}
        if kind.kind in ("record", "enum", "fixed"):
            return self._named(kind)
        if kind.kind == JSON:
            return {"type": "string", "logicalType": JSON_TEXT}
        return {"type": kind.kind, **_logical(kind)} if kind.logical or kind.note else kind.kind

    def _named(self, kind: Type) -> Any:
        others = self._renamed.setdefault(kind.name, [])
        name = next((name for other, name in others if other == kind), kind.name)
        # A short name is looked for in the namespace around it first.
        if self._defined.get(name) == kind and "." in name:
            return name
        aliases = kind.aliases
        if name in self._defined:
            name = self._free(kind.name)
            others.append((kind, name))
            aliases = (*dict.fromkeys((*aliases, kind.name)),)
        self._defined[name] = kind
        tree: dict[str, Any] = {"type": kind.kind, "name": name}
        if "." not in name:
            tree["namespace"] = ""
        if aliases:
            tree["aliases"] = list(aliases)
        if kind.kind == "enum":
            tree["symbols"] = list(kind.symbols)
            return tree if kind.default is None else {**tree, "default": kind.default}
        if kind.kind == "fixed":
            return {**tree, "size": kind.size, **_logical(kind)}
        tree["fields"] = [self._field(field) for field in kind.fields]
        return tree

    def _field(self, field: Any) -> dict[str, Any]:
        found: dict[str, Any] = {"name": field.name, "type": self.of(field.type)}
        if field.aliases:
            found["aliases"] = list(field.aliases)
        return {**found, "default": field.default} if field.has_default else found

    def _free(self, name: str) -> str:
        number = 2
        while f"{name}_{number}" in self._defined:
            number += 1
        return f"{name}_{number}"


def _logical(kind: Type) -> dict[str, Any]:
    if not kind.logical:
        # Not as a logical type: readers may take it for one that they have.
        return {MEANING: kind.note} if kind.note else {}
    if kind.logical != "decimal":
        return {"logicalType": kind.logical}
    precision, scale = kind.digits
    return {"logicalType": "decimal", "precision": precision, "scale": scale}
