"""Avro schemas that use types of other ones: put into one, with each type where it is used first.

In a schema with references, a name that it does not define is one of a referenced schema:
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/serdes-avro.html
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from sluice.core.decoding.avro.names import NAMED, RECORDS, definitions, full_name, namespace_of, qualified
from sluice.core.decoding.avro.types import PRIMITIVES
from sluice.core.messages import quoted
from sluice.core.registry.errors import RefusedSchema
from sluice.core.registry.json_text import MAX_NESTING, read

# Most types of a schema, with those that each use of a name stands for: a few lines can stand for billions.
MAX_TYPES = 10_000


def self_contained(text: str, referenced: Iterable[str], what: str) -> str:
    """A schema's text with all types that it uses; its own text if it refers to no other.

    ``referenced``: texts of the schemas that it refers to, and of those that these refer to. Raises
    RefusedSchema, naming ``what``, if they are no schemas, define a name twice, or define not all names; and
    for more than MAX_TYPES.
    """
    tree = read(text, what)
    others = [read(other, f"a schema to which {what} refers") for other in referenced]
    try:
        resolved = _Resolver(what, tree, others).resolved(tree, "", 0)
        types = _Counter().count(resolved)
    # What is not of the form of a schema: a list for a name, a record without fields.
    except (KeyError, TypeError, AttributeError) as error:
        raise RefusedSchema(f"{what} is no Avro schema: {type(error).__name__}: {error}") from error
    if types > MAX_TYPES:
        raise RefusedSchema(f"{what} has more than {MAX_TYPES} types, with those that its names stand for")
    return json.dumps(resolved, ensure_ascii=False) if others else text


class _Resolver:
    """Puts definitions of ``others`` where a schema uses their names first."""

    def __init__(self, what: str, own: Any, others: Iterable[Any]) -> None:
        self._what = what
        self._others: dict[str, Any] = {}
        self._defined: set[str] = set()
        for other in others:
            for full, definition in definitions(other, ""):
                if self._others.setdefault(full, definition) != definition:
                    raise RefusedSchema(f"schemas to which {what} refers define {quoted(full)} differently")
        for full, _ in definitions(own, ""):
            if full in self._others:
                raise RefusedSchema(f"{what} defines {quoted(full)}, and so does a schema to which it refers")

    def resolved(self, tree: Any, namespace: str, depth: int, *, is_other: bool = False) -> Any:
        """A type as it is in the result. ``is_other``: it is one of another schema's."""
        if depth > MAX_NESTING:
            raise RefusedSchema(
                f"{self._what} is nested deeper than {MAX_NESTING} levels, with what it refers to"
            )
        if isinstance(tree, list):
            return [self.resolved(branch, namespace, depth + 1, is_other=is_other) for branch in tree]
        if isinstance(tree, str):
            return tree if tree in PRIMITIVES else self._use(tree, namespace, depth)
        kind = tree["type"]
        if isinstance(kind, dict | list) or (kind not in PRIMITIVES | NAMED | {"array", "map"}):
            # A type in braces of its own.
            return self.resolved(kind, namespace, depth + 1, is_other=is_other)
        if kind in ("array", "map"):
            key = "items" if kind == "array" else "values"
            return {**tree, key: self.resolved(tree[key], namespace, depth + 1, is_other=is_other)}
        if kind not in NAMED:
            return tree
        return self._define(full_name(tree, namespace), tree, depth, is_other=is_other)

    def _use(self, name: str, namespace: str, depth: int) -> Any:
        """What stands for a name: the name itself if it is defined before."""
        for full in dict.fromkeys((qualified(name, namespace), name)):
            if full in self._defined:
                return full
            if full in self._others:
                return self._define(full, self._others[full], depth, is_other=True)
        raise RefusedSchema(
            f"{self._what} uses the type {quoted(name)}, which no schema to which it refers "
            "defines, nor itself"
        )

    def _define(self, full: str, tree: Any, depth: int, *, is_other: bool) -> Any:
        if full in self._defined:
            if is_other:
                return full
            raise RefusedSchema(f"{self._what} defines {quoted(full)} twice")
        self._defined.add(full)
        # Its full name stands for itself wherever it is put.
        found = {key: value for key, value in tree.items() if key != "namespace"} | {"name": full}
        if not namespace_of(full):
            found["namespace"] = ""
        if tree["type"] in RECORDS:
            inner = namespace_of(full)
            found["fields"] = [
                {**field, "type": self.resolved(field["type"], inner, depth + 2, is_other=is_other)}
                for field in tree["fields"]
            ]
        return found


class _Counter:
    """Counts types as a reader has them that puts a definition at each use of its name."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def count(self, tree: Any) -> int:
        if isinstance(tree, list):
            return 1 + sum(self.count(branch) for branch in tree)
        if isinstance(tree, str):
            # Not counted to its end if it contains itself.
            return self._counts.get(tree, 1)
        kind = tree["type"]
        if kind in ("array", "map"):
            return 1 + self.count(tree["items" if kind == "array" else "values"])
        if kind not in RECORDS:
            return 1
        full = tree["name"]
        found = 1 + sum(self.count(field["type"]) for field in tree["fields"])
        # A number of thousands of digits says no more.
        self._counts[full] = min(found, MAX_TYPES + 1)
        return self._counts[full]
