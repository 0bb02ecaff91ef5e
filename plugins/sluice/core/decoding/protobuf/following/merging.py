"""A table's message with what a further version of it adds and widens, by the numbers of fields."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from sluice.core.decoding.avro.following.conflicts import (
    MAX_COLUMNS,
    NO_COLUMN,
    Combined,
    Conflict,
    Fix,
    Names,
    too_many,
)
from sluice.core.decoding.protobuf.schema import UnsupportedMessage
from sluice.core.decoding.protobuf.types import (
    ARROW,
    Field,
    Type,
    Types,
    is_map,
    list_of,
    map_of,
    scalar_kind,
    struct_of,
)
from sluice.core.decoding.protobuf.values import words, words_of_table

# Kinds of a column -> those of a field that goes on in it, beside its own. Fewer than can be read by names:
# to Protobuf, a number with a type of other bytes is another field.
_READ: dict[str, set[str]] = {
    "uint": {"int", "long"},
    "long": {"int", "uint"},
    "ulong": {"int", "uint", "long"},
}
# Kinds of a column, and of a field -> the kind whose column has the values of both. None of unsigned 64 bits:
# a decimal, which no column of whole numbers becomes.
_WIDER = {("int", "uint"): "long", ("int", "long"): "long"}


def merge(
    table: Type,
    other: Descriptor,
    as_text: Collection[str] = (),
    names: Names | None = None,
    *,
    recursive_as_text: bool = False,
) -> Combined[Type]:
    """The row ``table`` with what messages of ``other`` have beside and beyond it. ``as_text``,
    ``recursive_as_text``: as ``type_of`` has them; ``names``: those that columns may not have."""
    merging = _Merging(
        Types(frozenset(as_text), recursive_as_text=recursive_as_text, by_number=True),
        frozenset(as_text),
        names or Names(),
    )
    row = merging.struct(table, other, "", ())
    if not merging.conflicts and row != table and (columns := _count(row)) > MAX_COLUMNS:
        merging.conflicts.append(too_many(columns))
    if merging.conflicts:
        return Combined(table, conflicts=tuple(merging.conflicts))
    return Combined(row, is_new=row != table)


class _Merging:
    """Merges two messages; ``conflicts``: what was found so far."""

    def __init__(self, types: Types, as_text: frozenset[str], names: Names) -> None:
        self.conflicts: list[Conflict] = []
        self._types, self._as_text, self._names = types, as_text, names

    def struct(self, table: Type, other: Descriptor, path: str, outer: tuple[str, ...]) -> Type:
        inside = (*outer, other.full_name)
        fields = [self._kept(one, other, path, inside) for one in table.fields]
        numbers = {one.number for one in table.fields}
        taken = {one.name.lower(): one for one in table.fields}
        for new in (one for one in other.fields if one.number not in numbers):
            inner = _at(path, new.name)
            if (same := taken.get(new.name.lower())) is not None:
                own = f"a column {same.name} of the field {same.number}"
                self._conflict(inner, own, f"the field {new.number} of the name", Fix.NAME)
                continue
            try:
                added = self._types.field(new, inner, inside)
            except UnsupportedMessage as error:
                what, _, _ = str(error).partition(". Fix: ")
                self._conflict(inner, NO_COLUMN, what, Fix.AS_TEXT)
                continue
            if not path and (own := self._names.in_place_of(new.name, added.type.arrow)):
                self._conflict(inner, own, words(new), Fix.NAME)
            self._check_names(added, inner)
            taken[new.name.lower()] = added
            fields.append(added)
        return struct_of(fields)

    def _kept(self, table: Field, other: Descriptor, path: str, outer: tuple[str, ...]) -> Field:
        source = table.source(other)
        if source is None:
            return table
        return replace(table, type=self._field(table.type, source, _at(path, table.name), outer))

    def _field(self, table: Type, source: FieldDescriptor, path: str, outer: tuple[str, ...]) -> Type:
        if table.kind == "json":
            return table
        if path in self._as_text:
            said = "a text of JSON, as json_fields says"
            self._conflict(path, words_of_table(table), said, Fix.JSON)
            return table
        if is_map(source) and table.kind == "map" and table.key is not None:
            of_key, of_item = (source.message_type.fields_by_number[number] for number in (1, 2))
            if not _goes_on(scalar_kind(of_key), table.key.kind):
                self._conflict(f"a key of {path}", words_of_table(table.key), words(of_key))
            return map_of(table.key, self._single(table.inner, of_item, path, outer))
        if is_map(source) or table.kind == "map" or source.is_repeated != (table.kind == "list"):
            self._conflict(path, words_of_table(table), words(source))
            return table
        if source.is_repeated:
            return list_of(self._single(table.inner, source, path, outer))
        return self._single(table, source, path, outer)

    def _single(self, table: Type, source: FieldDescriptor, path: str, outer: tuple[str, ...]) -> Type:
        kind = scalar_kind(source)
        if kind == table.kind == "struct":
            return self.struct(table, source.message_type, path, outer)
        if table.kind == "json" or _goes_on(kind, table.kind):
            return table
        if (wider := _WIDER.get((table.kind, kind))) is not None:
            return Type(wider, ARROW[wider])
        self._conflict(path, words_of_table(table), words(source))
        return table

    def _check_names(self, added: Field, path: str) -> None:
        if why := self._names.problem(added.name):
            self._conflict(path, NO_COLUMN, why, Fix.NAME)
        for where, struct in _structs(added.type, path):
            seen: dict[str, str] = {}
            for one in struct.fields:
                if why := self._names.problem(one.name):
                    self._conflict(_at(where, one.name), NO_COLUMN, why, Fix.NAME)
                if (same := seen.setdefault(one.name.lower(), one.name)) != one.name:
                    two = f"{same} too, in another case"
                    self._conflict(_at(where, one.name), NO_COLUMN, two, Fix.NAME)

    def _conflict(self, path: str, table: str, schema: str, fix: Fix = Fix.NUMBER) -> None:
        self.conflicts.append(Conflict(path, table, schema, fix))


def _goes_on(kind: str, column: str) -> bool:
    return kind == column or kind in _READ.get(column, ())


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _structs(kind: Type, path: str) -> Iterator[tuple[str, Type]]:
    """The messages in a type, itself too, with their paths."""
    while kind.item is not None:
        kind = kind.item
    if kind.kind == "struct":
        yield path, kind
        for one in kind.fields:
            yield from _structs(one.type, _at(path, one.name))


def _count(kind: Type) -> int:
    return sum(len(struct.fields) for _, struct in _structs(kind, ""))
