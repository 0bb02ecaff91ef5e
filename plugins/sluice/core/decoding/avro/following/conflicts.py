"""What a table cannot follow: names that no column may have, and types that do not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

import pyarrow as pa

from sluice.core.decoding.avro.types import JSON, MAX_PRECISION, RECURSIVE, Type
from sluice.core.messages import quoted

T = TypeVar("T")
# Columns of a table, with the fields of records in them, and how deep these are.
MAX_COLUMNS, MAX_DEPTH = 2_000, 50
# Characters of a type in a message: a record may have a thousand fields; and of all conflicts, which leave
# space for what to do: health cuts a reason.
_MAX_SHOWN, _MAX_REASON = 200, 300
# What a table has where it can have nothing.
NO_COLUMN = "no such column"


class Fix(StrEnum):
    """What to do about a kind of conflict: a clause."""

    TYPE = "send the new type under another field name, or name a new table"
    MEANING = "send the numbers of another meaning under another field name, or name a new table"
    NUMBER = "send the new type under another number and field name, or name a new table"
    NAME = "give the field a name that the table can have"
    CASE = "spell the field as its column, or give it another name"
    MOVED = "give fields that are renamed new names, which no column has"
    TWICE = "send one of the two fields, and the other one under a new name"
    RECURSIVE = 'set recursive_fields = "json" under [records], and restart the consumer'
    KEPT = "name a column that keeps it, unknown_fields under [records], or send it as a text"
    AS_TEXT = "name the field, or one that it is in, in json_fields under [records]"
    JSON = "take the path out of json_fields under [records], or name a new table"
    BOUNDS = "send a part of it as one text of JSON, or in another topic"
    SCHEMA = "register a schema that the table can have"
    FOREIGN = "register it for the topic, or name its subject in subjects under [records]"
    DECLARED = 'set new_fields = "column" under [records], and restart the consumer, or name a new table'


@dataclass(frozen=True)
class Conflict:
    """``path``: in the schema; ``table``, ``schema``: what both have there, as texts."""

    path: str
    table: str
    schema: str
    fix: Fix

    def __str__(self) -> str:
        return f"{self.path}: the table has {self.table}, the schema {self.schema}"


@dataclass(frozen=True)
class Combined(Generic[T]):
    """``schema``: the table's, with what the other one adds and widens; ``is_new``: it is another one than
    before; ``conflicts``: why it cannot be followed, and then nothing of it is."""

    schema: T
    is_new: bool = False
    conflicts: tuple[Conflict, ...] = ()

    @property
    def reason(self) -> str:
        """Why the schema cannot be followed; empty if it can."""
        text = "; ".join(map(str, self.conflicts))
        return text if len(text) <= _MAX_REASON else f"{text[:_MAX_REASON]}…"

    @property
    def fix(self) -> str:
        """What to do about it, each kind once; empty if there is nothing."""
        return "; ".join(dict.fromkeys(one.fix for one in self.conflicts))

    @property
    def message(self) -> str:
        """The reason and the fix; empty if the schema can be followed. The same for the same conflicts."""
        return f"{self.reason}. Fix: {self.fix}" if self.conflicts else ""


@dataclass(frozen=True)
class Names:
    """Names that no column of a followed schema may have.

    ``allowed``: a pattern of the others; ``prefixes``: begins that are refused at any depth, in lower case;
    ``reserved``: whole names, likewise; ``own``: columns of the table that are not of the schema, in lower
    case; ``present``: columns that the schema had earlier, by their names in lower case; ``partitions``: the
    names of partitions that are no columns, as ``zip_trunc``.
    """

    allowed: str = r"[A-Za-z_][A-Za-z0-9_]*"
    prefixes: tuple[str, ...] = ()
    reserved: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    present: Mapping[str, pa.Field] = field(default_factory=dict)
    partitions: frozenset[str] = frozenset()

    def problem(self, name: str) -> str:
        """Why no field may have it; empty if one may."""
        if not re.fullmatch(self.allowed, name):
            return f"a name that no column can have, {quoted(name)}"
        if name.lower().startswith(self.prefixes) or name.lower() in self.reserved:
            return f"a name that is reserved, {quoted(name)}"
        return ""

    def in_place_of(self, name: str, kind: pa.DataType) -> str:
        """What the table has in the place of a new column; empty if it may be added."""
        known = name.lower()
        if known in self.own:
            return f"a column {known} of its own"
        if name in self.partitions:
            return f"a partition {name}"
        found = self.present.get(known)
        # Iceberg's columns differ in case, and Spark's queries do not.
        if found is None or (found.name == name and found.type.equals(kind)):
            return ""
        return f"an earlier column {found.name}, {found.type}"


def described(kind: Type) -> str:
    """A type for people."""
    text = _described(kind)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def _described(kind: Type) -> str:
    if kind.logical == "decimal":
        return f"decimal({kind.digits[0]}, {kind.digits[1]})"
    if kind.logical:
        return kind.logical
    if kind.kind == "record":
        return f"record {{{', '.join(f'{one.name}: {_described(one.type)}' for one in kind.fields)}}}"
    if kind.kind in ("array", "map"):
        return f"{kind.kind} of {_described(kind.item)}"
    if kind.kind == "union":
        return f"[{', '.join(map(_described, kind.branches))}]"
    if kind.kind == RECURSIVE:
        return f"a {kind.name} inside of another one"
    if kind.kind == JSON:
        return "a text of JSON"
    if kind.kind == "fixed":
        found = f"fixed of {kind.size} bytes"
    else:
        found = f"enum {kind.name}" if kind.kind == "enum" else kind.kind
    return f"{found} ({kind.note})" if kind.note else found


def without_column(kind: Type, path: str) -> Iterator[Conflict]:
    """The parts of a new type that no column can have."""
    inner = kind.optional
    if inner.kind == "null" or (inner.kind == "union" and not inner.values):
        yield Conflict(path, NO_COLUMN, "a type that has null alone", Fix.KEPT)
    elif inner.kind == RECURSIVE:
        yield Conflict(path, NO_COLUMN, described(inner), Fix.RECURSIVE)
    elif inner.digits[0] > MAX_PRECISION:
        what = f"{described(inner)}, more digits than {MAX_PRECISION}"
        yield Conflict(path, NO_COLUMN, what, Fix.KEPT)
    elif inner.kind == "record":
        for one in inner.fields:
            yield from without_column(one.type, f"{path}.{one.name}")
    elif inner.kind in ("array", "map"):
        yield from without_column(inner.item, f"{path}[]")
    elif inner.kind == "union":
        for branch in inner.values:
            yield from without_column(branch, path)


def records(kind: Type, path: str = "") -> Iterator[tuple[str, Type]]:
    """The records in a type, itself too, with their paths."""
    if kind.kind == "record":
        yield path, kind
        for one in kind.fields:
            yield from records(one.type, f"{path}.{one.name}" if path else one.name)
    elif kind.kind in ("array", "map"):
        yield from records(kind.item, f"{path}[]")
    elif kind.kind == "union":
        for branch in kind.branches:
            yield from records(branch, path)


def beyond_bounds(kind: Type) -> Conflict | None:
    """What is too much of a table's whole schema; None if nothing is."""
    columns = sum(len(record.fields) for _, record in records(kind))
    if columns > MAX_COLUMNS:
        return too_many(columns)
    return too_deep(kind)


def too_many(columns: int) -> Conflict:
    """What is too much of a whole schema that would make ``columns``."""
    limit = f"at most {MAX_COLUMNS:,} columns"
    return Conflict("the whole schema", limit, f"{columns:,} with its own", Fix.BOUNDS)


def too_deep(kind: Type) -> Conflict | None:
    """As :func:`beyond_bounds`, of its levels alone: the first part that is beyond them."""
    found = _beyond(kind, "", 1)
    return Conflict(found, f"at most {MAX_DEPTH} levels", "more of them", Fix.BOUNDS) if found else None


def _beyond(kind: Type, path: str, level: int) -> str:
    """The path; empty without one."""
    if kind.kind == "union":
        return next(filter(None, (_beyond(one, path, level) for one in kind.branches)), "")
    if level > MAX_DEPTH:
        return path
    if kind.kind == RECURSIVE:
        return ""
    if kind.items:
        return _beyond(kind.items, f"{path}[]", level + 1)
    inner = ((one.type, f"{path}.{one.name}" if path else one.name) for one in kind.fields)
    return next(filter(None, (_beyond(*one, level + 1) for one in inner)), "")
