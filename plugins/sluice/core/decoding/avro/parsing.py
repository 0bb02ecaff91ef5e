"""Texts of Avro schemas as types: names are resolved, and what no table can have is refused with its path."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastavro.schema import SchemaParseException, UnknownType, fingerprint, to_parsing_canonical_form

from sluice.core.decoding.avro import trees
from sluice.core.decoding.avro.names import NAMED, definitions, full_name, namespace_of, qualified
from sluice.core.decoding.avro.types import (
    AGAIN,
    JSON,
    JSON_TEXT,
    MAX_PRECISION,
    MAX_WRITTEN_PRECISION,
    NO_DEFAULT,
    PRIMITIVES,
    RECURSIVE,
    TIMES,
    Field,
    Schema,
    Type,
    UnsupportedSchema,
    min_bytes,
)

# Fields that are parsed again, since they are inside of other records there, and definitions of recursive
# ones: a few records that have each other stand for billions of paths.
_MAX_AGAIN = 50_000


def parsed(text: str) -> Schema:
    """Parse a table's schema. Raises UnsupportedSchema if it is none, is no record, is recursive, has a union
    or enum of nothing, an array whose items take no bytes, or a decimal of more than 38 digits."""
    found = declared(text)
    if at := recursion(found.record):
        raise UnsupportedSchema(f"the Avro schema is recursive: {at}")
    return found


def declared(text: str) -> Schema:
    """As :func:`parsed`; it may be recursive."""
    return _parsed(text, _Parser())


def recursion(kind: Type, path: str = "") -> str:
    """The first part that is RECURSIVE, with its path; empty without one."""
    if kind.kind == RECURSIVE:
        return f"{path} is a {kind.name} inside of another one, and no table has such columns"
    parts = [*kind.branches, *([kind.items] if kind.items else [])]
    inner = [(part, f"{path}[]" if kind.items else path) for part in parts]
    inner += [(one.type, f"{path}.{one.name}" if path else one.name) for one in kind.fields]
    return next((recursion(*one) for one in inner if one[0].has_recursion), "")


def written(text: str) -> Schema:
    """Parse a schema that records are written with: as :func:`parsed`, but what no reader uses of it may be
    wrong, as defaults, and a decimal that no column can have is one, or bytes with a note."""
    return _parsed(text, _Parser(is_writers=True))


def _parsed(text: str, parser: _Parser) -> Schema:
    try:
        tree = trees.without_braces(json.loads(text))
        tree = trees.used(tree) if parser.is_writers else tree
        checked = trees.without_meaning(tree) if parser.is_writers else tree
        crc = fingerprint(to_parsing_canonical_form(checked), "CRC-64-AVRO")
        record = parser.schema(tree)
    except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, UnsupportedSchema):
            raise
        raise UnsupportedSchema(f"not an Avro schema: {type(error).__name__}: {error}") from error
    if record.kind != "record":
        raise UnsupportedSchema(f"an Avro schema of type {record.kind}, not of a record: it has no columns")
    return Schema(record, tree["name"], crc)


def _use_of(kind: Type) -> str:
    """The name of the record that a field's type has, or its items or branches, and that the field is in."""
    if kind.kind == AGAIN:
        return kind.name
    parts = [*kind.branches, *([kind.items] if kind.items and kind.kind != RECURSIVE else [])]
    return next(filter(None, map(_use_of, parts)), "")


class _Parser:
    """Resolves the names of one schema. ``is_writers``: it is one that records are written with. ``every``:
    of a type that contains itself, the definitions of its schema; each is then made once."""

    def __init__(self, *, is_writers: bool = False, every: Mapping[str, Any] | None = None) -> None:
        self.is_writers, self._every = is_writers, every
        self._root: Any = None
        self._named: dict[str, Type] = {}
        # Those that are not defined to their ends: a use of such a name is recursive.
        self._open: list[str] = []
        self._trees: dict[str, Mapping[str, Any]] = {}
        self._wholes: dict[tuple[str | int, str], Type] = {}
        self._again = 0
        # Names of the fields that are read.
        self._at: list[str] = []

    def schema(self, tree: Any) -> Type:
        """The type of a whole schema."""
        self._root = tree
        try:
            return self.type_of(tree, "")
        except UnsupportedSchema as error:
            # Those that are not at their ends yet.
            raise UnsupportedSchema(
                f"{error} (at {'.'.join(self._at)})" if self._at else str(error)
            ) from error

    def type_of(self, tree: Any, namespace: str) -> Type:
        if isinstance(tree, list):
            found = Type("union", branches=tuple(self.type_of(branch, namespace) for branch in tree))
            names = {branch.name or branch.kind for branch in found.branches}
            if not tree or len(names) < len(tree) or "union" in names:
                raise UnsupportedSchema(
                    "the Avro schema has a union of nothing, of a union, or of a type twice"
                )
            # Spark reads these numbers as such.
            plain = tuple(
                replace(branch, logical="", note=branch.logical or branch.note) for branch in found.branches
            )
            return replace(found, branches=plain) if found.is_widened else found
        if isinstance(tree, str):
            return Type(tree) if tree in PRIMITIVES else self._lookup(tree, namespace)
        kind = tree["type"]
        if kind in ("array", "map"):
            items = self.type_of(tree["items" if kind == "array" else "values"], namespace)
            if kind == "array" and not min_bytes(items):
                raise UnsupportedSchema("an array in the Avro schema has items that take no bytes")
            return Type(kind, items=items)
        if kind in NAMED:
            return self._definition(tree, kind, namespace)
        if kind == "string" and tree.get("logicalType") == JSON_TEXT and not self.is_writers:
            return Type(JSON)
        return Type(kind, **self._logical(tree, kind))

    def _lookup(self, name: str, namespace: str) -> Type:
        known = self._trees if self._every is None else self._every
        full = qualified(name, namespace)
        full = full if full in known else name
        if full not in known:
            raise UnsupportedSchema(f"the Avro schema does not define its type {name}")
        if full in self._open:
            # It has a union, an array or a map: without one it has no end.
            return Type(AGAIN, full, size=1)
        found = self._named.get(full)
        if found is not None and not found.has_recursion and self._every is None:
            return found
        return self._definition(known[full], known[full]["type"], namespace_of(full))

    def _definition(self, tree: Mapping[str, Any], kind: str, namespace: str) -> Type:
        name = full_name(tree, namespace)
        if self._every is not None and (known := self._named.get(name)) is not None:
            return Type(AGAIN, name, size=min_bytes(known))
        if name in self._open:
            return Type(AGAIN, name, size=1)
        if name in self._trees:
            self._count(len(tree.get("fields", ())))
        self._trees[name] = tree
        self._open.append(name)
        found = self._named[name] = self._defined(tree, kind, name)
        self._open.pop()
        return found

    def _field(self, tree: Mapping[str, Any], namespace: str) -> Field:
        name = tree["name"]
        self._at.append(str(name))
        kind = self._field_type(tree["type"], namespace)
        self._at.pop()
        return Field(name, kind, tuple(tree.get("aliases", ())), tree.get("default", NO_DEFAULT))

    def _field_type(self, tree: Any, namespace: str) -> Type:
        found = self.type_of(tree, namespace)
        again = _use_of(found)
        if not again or self._every is not None:
            return found
        # A tree is as long there as its root.
        key = tree if isinstance(tree, str) else id(tree), namespace
        whole = self._wholes.get(key)
        if whole is None:
            every = dict(definitions(self._root))
            whole = _Parser(is_writers=self.is_writers, every=every).type_of(tree, namespace)
            whole = self._wholes[key] = Type(RECURSIVE, again, items=whole)
        self._count(len(whole.definitions))
        return whole

    def _count(self, number: int) -> None:
        self._again += number
        if self._again > _MAX_AGAIN:
            raise UnsupportedSchema(
                f"the Avro schema has more than {_MAX_AGAIN} fields, with those of records inside of each "
                "other"
            )

    def _defined(self, tree: Mapping[str, Any], kind: str, name: str) -> Type:
        inner = namespace_of(name)
        aliases = tuple(qualified(alias, inner) for alias in tree.get("aliases", ()))
        if kind == "enum":
            symbols = tuple(tree["symbols"])
            if not symbols:
                raise UnsupportedSchema(f"the Avro schema has an enum without symbols: {name}")
            found = Type(kind, name, symbols=symbols, default=tree.get("default"), aliases=aliases)
        elif kind == "fixed":
            size = int(tree["size"])
            if size < 0:
                raise UnsupportedSchema(f"the Avro schema has a fixed type of {size} bytes")
            found = Type(kind, name, size=size, aliases=aliases, **self._logical(tree, kind))
        else:
            fields = tuple(self._field(field, inner) for field in tree["fields"])
            names = {one.name for one in fields if isinstance(one.name, str) and one.name}
            if len(names) < len(fields):
                raise UnsupportedSchema(
                    f"the Avro schema has a record with a field twice, or without a name: {name}"
                )
            found = Type("record", name, fields=fields, aliases=aliases)
        return found

    def _logical(self, tree: Mapping[str, Any], kind: str) -> dict[str, Any]:
        """What a Type has of a logical type. One that is not valid is none, as Avro's specification says."""
        logical, digits = tree.get("logicalType"), trees.digits(tree, kind)
        if isinstance(logical, str) and (kind, logical) in TIMES:
            return {"logical": logical}
        if digits[0] > MAX_PRECISION and not self.is_writers:
            raise UnsupportedSchema(
                f"the Avro schema has a decimal of {digits[0]} digits, more than a table's {MAX_PRECISION}"
            )
        is_decimal = 0 < digits[0] <= MAX_WRITTEN_PRECISION
        return {"logical": logical, "digits": digits} if is_decimal else {"note": trees.note(tree)}
