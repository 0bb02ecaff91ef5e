"""A table's schema against a registered one: what the table lacks of it, by its path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from sluice.core.decoding.avro.following.conflicts import Conflict, Fix
from sluice.core.decoding.avro.parsing import written
from sluice.core.decoding.avro.types import Schema, UnsupportedSchema, arrow_type
from sluice.core.decoding.protobuf.decoder import TableMessage
from sluice.core.decoding.protobuf.schema import Compile, NotCompiled, UnsupportedMessage
from sluice.core.decoding.registered.protobuf import combined, schema_of
from sluice.core.decoding.registered.unfollowed import Following
from sluice.core.decoding.texts import printable
from sluice.core.registry.schemas import RegisteredSchema

# Characters of a type.
_MAX_SHOWN = 200


class Kind(StrEnum):
    """How the schema differs."""

    MISSING = "missing in the table"
    WIDER = "wider in the schema"
    UNFOLLOWED = "cannot be followed"


@dataclass(frozen=True)
class Difference:
    """At a ``path`` of the schema, of a ``kind``; ``table`` and ``schema``: what both have there, as texts,
    empty for nothing; ``fix``: what to do about it, empty if the table does it by itself."""

    path: str
    kind: Kind
    table: str
    schema: str
    fix: str = ""

    def __str__(self) -> str:
        if self.kind is Kind.MISSING:
            return f"{self.path}: {self.kind} ({self.schema})"
        fix = f". Fix: {self.fix}" if self.fix else ""
        return f"{self.path}: {self.kind}: the table has {self.table}, the schema {self.schema}{fix}"


def differences(table: Schema, text: str, following: Following) -> list[Difference]:
    """What a table lacks of an Avro schema, in its order; if a part cannot be followed, such parts alone:
    nothing of the others is then. ``following``: how the table follows schemas, if it does."""
    try:
        merged = following.merged(table, written(text))
    except (UnsupportedSchema, ValueError, TypeError, LookupError, RecursionError) as error:
        said = "more levels than can be read" if isinstance(error, RecursionError) else str(error)
        return [_whole(said)]
    return _between(arrow_type(table.record), arrow_type(merged.schema.record), merged.conflicts)


def differences_of_messages(
    table: TableMessage, latest: RegisteredSchema, compiled: Compile, following: Following
) -> list[Difference]:
    """As :func:`differences`, of the message of the table's name in a registered schema of Protobuf."""
    try:
        merged = combined(following, table, schema_of(latest, compiled).message(table.name))
    except (NotCompiled, UnsupportedMessage) as error:
        return [_whole(str(error))]
    return _between(table.type.arrow, merged.schema.arrow, merged.conflicts)


def _whole(said: str) -> Difference:
    return Difference("the whole schema", Kind.UNFOLLOWED, "columns", said, Fix.SCHEMA)


def _refusal(one: Conflict) -> Difference:
    return Difference(one.path, Kind.UNFOLLOWED, one.table, one.schema, one.fix)


def _between(before: pa.DataType, after: pa.DataType, conflicts: Iterable[Conflict]) -> list[Difference]:
    """What a table of the type ``before`` lacks of the one that it would have ``after``."""
    if refused := [*map(_refusal, conflicts)]:
        return refused
    had = dict(_paths(before))
    found = list[Difference]()
    inside_new = list[str]()
    for path, kind in _paths(after):
        if path not in had:
            if not path.startswith(tuple(inside_new)):
                found.append(Difference(path, Kind.MISSING, "", _shown(kind)))
                inside_new += [f"{path}.", f"{path}["]
        elif not pa.types.is_nested(kind) and not kind.equals(had[path]):
            found.append(Difference(path, Kind.WIDER, _shown(had[path]), _shown(kind)))
    return found


def _paths(kind: pa.DataType, path: str = "") -> Iterator[tuple[str, pa.DataType]]:
    """Each field in a type, its path as in messages of what cannot be followed."""
    if path:
        yield path, kind
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _paths(field.type, f"{path}.{field.name}" if path else field.name)
    elif pa.types.is_list(kind):
        yield from _paths(kind.value_type, f"{path}[]")
    elif pa.types.is_map(kind):
        yield from _paths(kind.item_type, f"{path}[]")


def _shown(kind: pa.DataType) -> str:
    text = printable(str(kind))
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
