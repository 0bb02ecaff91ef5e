"""JSON Schemas that use other ones: put into one, with the others among its definitions.

A ``$ref`` is a place in the schema itself, or the name of a reference, with a place in it. Nothing that it
names is ever fetched: https://json-schema.org/draft/2020-12/json-schema-core#section-8.2.3.1
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote, urljoin

from sluice.core.messages import quoted
from sluice.core.registry.errors import RefusedSchema
from sluice.core.registry.json_text import MAX_NESTING, read

# Most parts of a schema, with those that each $ref stands for: a few lines can stand for billions.
MAX_PARTS = 10_000
# Keywords whose values are schemas by name, and those whose values are data.
_BY_NAME = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)
_DATA = frozenset({"const", "enum", "default", "examples", "example"})
# They name places by other means than a path, which another schema around them changes.
_ANCHORS = ("$anchor", "$dynamicAnchor", "$recursiveAnchor", "$dynamicRef", "$recursiveRef")


def self_contained(text: str, referenced: Mapping[str, str], what: str) -> str:
    """A schema's text with all schemas that it uses; its own text if it refers to no other.

    ``referenced``: name of a reference -> text, also of those to which the others refer. Raises
    RefusedSchema, naming ``what``, for a ``$ref`` that is neither; and for more than MAX_PARTS.
    """
    tree = read(text, what)
    names = {name: f"reference-{number}" for number, name in enumerate(referenced, 1)}
    found = _Walk(what, names, _id(tree), "").rewritten(tree)
    if names and isinstance(found, dict):
        definitions = dict(found.get("$defs", {}))
        for name, key in names.items():
            if key in definitions:
                raise RefusedSchema(f"{what} has a definition {key}, the name that a reference gets")
            definitions[key] = _embedded(name, referenced[name], names, tree, what)
        found["$defs"] = definitions
    if _Counter(found, what).count(found, 0) > MAX_PARTS:
        raise RefusedSchema(f"{what} has more than {MAX_PARTS} parts, with those that its $refs stand for")
    return json.dumps(found, ensure_ascii=False) if names else text


def _embedded(name: str, text: str, names: Mapping[str, str], around: Any, what: str) -> Any:
    tree = read(text, f"reference {quoted(name)} of {what}")
    if not isinstance(tree, dict):
        return tree
    dialects = {str(one["$schema"]).rstrip("#") for one in (tree, around) if "$schema" in one}
    if len(dialects) > 1:
        raise RefusedSchema(f"{what} and its reference {quoted(name)} have different values of $schema")
    base = _id(tree) or name
    found = _Walk(what, names, base, f"/$defs/{names[name]}").rewritten(tree)
    return {key: value for key, value in found.items() if key not in ("$id", "id", "$schema")}


def _id(tree: Any) -> str:
    found = tree.get("$id", "") if isinstance(tree, dict) else ""
    return found.rstrip("#") if isinstance(found, str) else ""


def _parts(tree: Mapping[str, Any]) -> Iterator[Any]:
    """The schemas directly in a schema."""
    for key, value in tree.items():
        if key in _DATA:
            continue
        if key in _BY_NAME and isinstance(value, dict):
            yield from value.values()
        elif isinstance(value, list):
            yield from value
        else:
            yield value


class _Walk:
    """One schema, whose own places are below ``place`` in the result."""

    def __init__(self, what: str, names: Mapping[str, str], base: str, place: str) -> None:
        self._what, self._names, self._base, self._place = what, names, base, place

    def rewritten(self, tree: Any, *, is_root: bool = True) -> Any:
        if isinstance(tree, list):
            return [self.rewritten(item, is_root=False) for item in tree]
        if not isinstance(tree, dict):
            return tree
        if self._names:
            moved = [key for key in _ANCHORS if key in tree]
            moved += ["$id"] if "$id" in tree and not is_root else []
            if moved:
                raise RefusedSchema(
                    f"{self._what} has references, and the keyword {moved[0]}, which is not read"
                )
        found: dict[str, Any] = {}
        for key, value in tree.items():
            if key in ("$ref", "$dynamicRef", "$recursiveRef") and isinstance(value, str):
                found[key] = self._ref(value)
            elif key in _DATA:
                found[key] = value
            elif key in _BY_NAME and isinstance(value, dict):
                found[key] = {name: self.rewritten(one, is_root=False) for name, one in value.items()}
            else:
                found[key] = self.rewritten(value, is_root=False)
        return found

    def _ref(self, ref: str) -> str:
        where, _, place = ref.partition("#")
        if place and not place.startswith("/") and self._names:
            raise RefusedSchema(f"{self._what} has a $ref {quoted(ref)} to an anchor, which is not read")
        if where in ("", self._base):
            return f"#{self._place}{place}"
        for name in (where, urljoin(self._base, where)):
            if name in self._names:
                return f"#/$defs/{quote(self._names[name])}{place}"
        raise RefusedSchema(
            f"{self._what} has a $ref {quoted(ref)}, which is not one of its references: nothing else is "
            "fetched"
        )


class _Counter:
    """Counts parts as a reader has them that puts a definition at each $ref to it."""

    def __init__(self, root: Any, what: str) -> None:
        self._root, self._what = root, what
        self._counts: dict[str, int] = {}

    def count(self, tree: Any, depth: int) -> int:
        if depth > MAX_NESTING * 2:
            raise RefusedSchema(
                f"{self._what} is nested deeper than {MAX_NESTING * 2} levels, with its $refs"
            )
        if isinstance(tree, list):
            return sum(self.count(one, depth + 1) for one in tree)
        if not isinstance(tree, dict):
            return 1
        ref = tree.get("$ref")
        found = 1 + self._count_at(ref, depth) if isinstance(ref, str) else 1
        found += sum(self.count(one, depth + 1) for one in _parts(tree) if isinstance(one, dict | list))
        # A number of thousands of digits says no more.
        return min(found, MAX_PARTS + 1)

    def _count_at(self, ref: str, depth: int) -> int:
        place = ref.partition("#")[2]
        if place and not place.startswith("/"):
            # An anchor: its schema is counted where it is.
            return 1
        if ref not in self._counts:
            # Not counted to its end if it contains itself.
            self._counts[ref] = 1
            self._counts[ref] = self.count(self._at(place, ref), depth + 1)
        return self._counts[ref]

    def _at(self, place: str, ref: str) -> Any:
        found = self._root
        for step in unquote(place).split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            try:
                found = found[int(key)] if isinstance(found, list) else found[key]
            except (KeyError, IndexError, ValueError, TypeError) as error:
                raise RefusedSchema(f"{self._what} has a $ref {quoted(ref)}, which leads nowhere") from error
        return found
