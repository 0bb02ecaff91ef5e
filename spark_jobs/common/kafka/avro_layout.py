"""Avro schemas that read the same bytes as others, and lose nothing of them. Pure.

Avro's reader cuts a number that is too large for an int, takes any byte but 01 for false, and keeps one of a
map's equal keys. A long is encoded as an int, a fixed of one byte as a boolean, and an array of entries as a
map. So a body is read by such schemas, too: what is written again is then all that it says, in its order.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

# No schema has types with these names.
_BYTE = {"type": "fixed", "name": "Byte", "namespace": "sluice.raw", "size": 1}
_OWN = "SluiceRecord"


def with_entries(schema: Any) -> Any:
    """With each map as an array of its entries."""
    return _Rewriting(is_raw=False).of(schema)


def raw(schema: Any) -> Any:
    """As :func:`with_entries`, with each int as a long and each boolean as a byte, and without logical
    types."""
    return _Rewriting(is_raw=True).of(schema)


def has_blocks(schema: Any) -> bool:
    """Whether a body has maps or arrays, which a writer may cut into blocks, with or without their sizes."""
    if isinstance(schema, list):
        return any(map(has_blocks, schema))
    if not isinstance(schema, dict):
        return False
    if schema["type"] == "record":
        return any(has_blocks(field["type"]) for field in schema["fields"])
    return schema["type"] in ("map", "array") or has_blocks(schema["type"])


class _Rewriting:
    """Rewrites one schema: a type is defined where it is first used."""

    def __init__(self, *, is_raw: bool) -> None:
        self._is_raw, self._records = is_raw, count()
        self._bytes: Iterator[Any] = iter([_BYTE])

    def of(self, schema: Any) -> Any:
        if isinstance(schema, list):
            several = len([branch for branch in schema if branch != "null"]) > 1
            return [self._branch(branch) if several else self.of(branch) for branch in schema]
        if isinstance(schema, str):
            return self._primitive(schema)
        kind = schema["type"]
        if kind == "record":
            # Without defaults, which would have to be of the new types.
            fields = [{"name": field["name"], "type": self.of(field["type"])} for field in schema["fields"]]
            return {**schema, "fields": fields}
        if kind == "array":
            return {"type": "array", "items": self.of(schema["items"])}
        if kind == "map":
            fields = [{"name": "key", "type": "string"}, {"name": "value", "type": self.of(schema["values"])}]
            return {"type": "array", "items": self._record(fields)}
        if kind in ("enum", "fixed"):
            return {key: value for key, value in schema.items() if key != "logicalType" or not self._is_raw}
        return self.of(kind) if self._is_raw or isinstance(kind, dict | list) else schema

    def _branch(self, schema: Any) -> Any:
        """Rewrite a branch of a union of several types, each of which must stay another one: as a record of
        its own, which is encoded as its field."""
        found = self.of(schema)
        return found if found == schema else self._record([{"name": "value", "type": found}])

    def _record(self, fields: list[dict[str, Any]]) -> Any:
        # Without a namespace, which the names of its types would be looked up in.
        return {"type": "record", "name": f"{_OWN}{next(self._records)}", "fields": fields}

    def _primitive(self, name: str) -> Any:
        if not self._is_raw:
            return name
        if name == "boolean":
            return next(self._bytes, f"{_BYTE['namespace']}.{_BYTE['name']}")
        return "long" if name == "int" else name
