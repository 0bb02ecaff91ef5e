"""A member of the text of further fields, merged into what its column has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.core.decoding.avro.reference.resolution import (
    Resolve,
    Unresolvable,
    branch_of,
    resolver,
    writers_field,
)
from sluice.core.decoding.avro.reference.values import arrow_value
from sluice.core.decoding.avro.types import Field, Type
from sluice.core.decoding.avro.unknown.fields import UnknownFields
from sluice.core.decoding.avro.unknown.json_values import joined
from sluice.core.decoding.filling.from_json import Members, NotWritten, Undecided, raw, read, written

HAS_A_VALUE = "the column has a value already"


@dataclass
class Outcome:
    """What is made of one member."""

    value: Any
    """The column's new value, in the form of ``arrow_value``."""
    left: str | None
    """The text of what is left of it; None if nothing is."""
    fields: list[str] = field(default_factory=list)
    """Paths of the fields that went into columns: ``lines[].price``."""
    kept: list[tuple[str, str]] = field(default_factory=list)
    """Paths of fields that have a column and stay in the text, each with the reason."""

    def add(self, part: Outcome) -> None:
        """Say also what became of the fields of a part."""
        self.fields += part.fields
        self.kept += part.kept


def of_items(items: Sequence[Outcome]) -> Outcome:
    """A list's, of those of its items; what is left has null in the place of an item that is filled."""
    found = Outcome([one.value for one in items], None)
    for one in items:
        found.add(one)
    if any(one.left is not None for one in items):
        found.left = f"[{','.join(one.left or 'null' for one in items)}]"
    return found


@dataclass(frozen=True)
class Pair:
    """A field of a writer's record, and the table's that is read from it; None without one."""

    writer: Field
    reader: Field | None


class Merging:
    """Merges values of the types of some schemas, all of which are kept by the caller."""

    def __init__(self) -> None:
        # By identities: comparing types costs more than what is kept.
        self._tools: dict[tuple[int, int, str], tuple[Resolve, UnknownFields]] = {}
        self._pairs: dict[tuple[int, int, str], Pair] = {}

    def pair(self, writer: Type, reader: Type, name: str) -> Pair:
        """The writer's field ``name``, and what is read from it."""
        key = id(writer), id(reader), name
        if key not in self._pairs:
            sources = ((one, writers_field(one, writer)) for one in reader.fields)
            found = (one for one, source in sources if source is not None and source.name == name)
            self._pairs[key] = Pair(writer.by_name[name], next(found, None))
        return self._pairs[key]

    def _tools_of(self, writer: Field, reader: Field, path: str) -> tuple[Resolve, UnknownFields]:
        key = id(writer.type), id(reader.type), path
        if key not in self._tools:
            unknown = UnknownFields(_record(writer), _record(reader))
            self._tools[key] = resolver(writer.type, reader.type, path), unknown
        return self._tools[key]

    def merged(self, writer: Field, reader: Field, present: Any, value: Any, path: str) -> Outcome:
        """``present``: what the column has; ``value``: what the text has. Raises NotWritten if it is no value
        of the writer's, Unresolvable if it is none of the reader's, and Undecided."""
        if present is None:
            return self._whole(writer, reader, value, path)
        own, of = writer.type.optional, reader.type.optional
        if own.kind == "union" or of.kind == "union":
            return self._in_union(writer, reader, present, value, path)
        if own.kind == of.kind == "record" and isinstance(value, Members):
            return self._in_record(own, of, present, value, path)
        if own.kind == of.kind == "array" and isinstance(value, list):
            return self._in_array(own, of, present, value, path)
        if own.kind == of.kind == "map" and isinstance(value, Members):
            return self._in_map(own, of, present, value, path)
        return Outcome(present, written(value), kept=[(path, HAS_A_VALUE)])

    def _whole(self, writer: Field, reader: Field, value: Any, path: str) -> Outcome:
        found = raw(writer.type, value)
        resolve, unknown = self._tools_of(writer, reader, path)
        resolved = resolve(found)
        try:
            column = arrow_value(reader.type, resolved)
            beside = unknown.text({writer.name: found})
        except OverflowError as error:
            raise Unresolvable(f"{path} is beyond what its column can have") from error
        left = None if beside is None else written(read(beside)[0][1])
        return Outcome(column, left, [path])

    def _in_record(self, writer: Type, reader: Type, present: Any, value: Members, path: str) -> Outcome:
        values, rest, found = dict(present), list[tuple[str, str]](), Outcome(None, None)
        for name, one in value:
            if name not in writer.by_name:
                raise NotWritten
            pair = self.pair(writer, reader, name)
            if pair.reader is None:
                rest.append((name, written(one)))
                continue
            inner = f"{path}.{name}"
            of = self._or_kept(pair.writer, pair.reader, present.get(pair.reader.name), one, inner)
            values[pair.reader.name] = of.value
            found.add(of)
            if of.left is not None:
                rest.append((name, of.left))
        found.value, found.left = values, joined(rest) if rest else None
        return found

    def _or_kept(self, writer: Field, reader: Field, present: Any, value: Any, path: str) -> Outcome:
        """A part that has no value of its column stays, and the others are filled."""
        try:
            return self.merged(writer, reader, present, value, path)
        except (Undecided, Unresolvable) as error:
            return Outcome(present, written(value), kept=[(path, str(error))])

    def _in_array(self, writer: Type, reader: Type, present: Any, value: list[Any], path: str) -> Outcome:
        if len(value) != len(present):
            raise NotWritten
        items = [
            self._of_item(writer, reader, *each, f"{path}[]") for each in zip(present, value, strict=True)
        ]
        return of_items(items)

    def _in_map(self, writer: Type, reader: Type, present: Any, value: Members, path: str) -> Outcome:
        entries, parts = list(present), dict(value)
        if len(parts) < len(value) or len({key for key, _ in entries}) < len(entries):
            raise Undecided("a key of the map is there twice")
        if not parts.keys() <= {key for key, _ in entries}:
            raise NotWritten
        found, rest = Outcome(None, None), dict[str, str]()
        for place, (key, one) in enumerate(entries):
            if key not in parts:
                continue
            of = self._of_item(writer, reader, one, parts[key], f"{path}[]")
            entries[place] = (key, of.value)
            found.add(of)
            if of.left is not None:
                rest[key] = of.left
        found.value = entries
        found.left = joined((key, rest[key]) for key, _ in value if key in rest) if rest else None
        return found

    def _of_item(self, writer: Type, reader: Type, present: Any, value: Any, path: str) -> Outcome:
        """An item of which the text has what it lacks: null for nothing."""
        if value is None:
            return Outcome(present, None)
        if present is None:
            raise NotWritten
        return self._or_kept(Field("item", writer.item), Field("item", reader.item), present, value, path)

    def _in_union(self, writer: Field, reader: Field, present: Any, value: Any, path: str) -> Outcome:
        """Merge into a union of several types, on either side: by the branches that the column has."""
        found = dict[str, Outcome]()
        for branch in writer.type.values or (writer.type,):
            for member, of in _branches(branch, reader.type):
                inner = present.get(member) if member else present
                if inner is None:
                    continue
                try:
                    one = self.merged(Field("", branch), Field("", of), inner, value, path)
                except NotWritten:
                    continue
                if member:
                    one.value = {**present, member: one.value}
                found[repr(one)] = one
        if not found:
            raise NotWritten
        if len(found) > 1:
            raise Undecided(f"it may be of {len(found)} branches of the union")
        return next(iter(found.values()))


def _record(one: Field) -> Type:
    return Type("record", "one", fields=(one,))


def _branches(writer: Type, reader: Type) -> Iterator[tuple[str, Type]]:
    """The member of the reader's column that the writer's branch is in, and its type; "" without members."""
    try:
        of = branch_of(writer, reader) if reader.kind == "union" else reader
        resolver(writer, of)
    except Unresolvable:
        return
    if len(reader.values) > 1 and not reader.is_widened:
        yield f"member{reader.values.index(of)}", of
    else:
        yield "", of
