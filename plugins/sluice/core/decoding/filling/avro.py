"""Further fields of a row, as values of the columns that the table has by now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sluice.core.decoding.avro.parsing import parsed
from sluice.core.decoding.avro.parsing import written as writers_schema
from sluice.core.decoding.avro.reference.resolution import Unresolvable, resolver
from sluice.core.decoding.avro.types import Type, UnsupportedSchema, arrow_type
from sluice.core.decoding.avro.unknown.json_values import joined
from sluice.core.decoding.filling.batches import Filled
from sluice.core.decoding.filling.deciding import NO_COLUMN, NO_SCHEMA, only_one
from sluice.core.decoding.filling.from_json import NotWritten, Undecided, read, written
from sluice.core.decoding.filling.merging import Merging, Outcome, Pair


class AvroFiller:
    """A :class:`~sluice.core.decoding.filling.batches.Filler` of records in Avro."""

    def __init__(self, writers: Iterable[str], reader: str) -> None:
        """``writers``: the schemas that its records may be written with; ``reader``: the table's, each as
        JSON text. Raises UnsupportedSchema for a ``reader`` that no table can have. Writers' schemas that
        cannot be read as the table's wrote no row of it, but for those with its name: their rows may be of
        before the column that they do not fit."""
        self._reader, self._merging = parsed(reader).record, Merging()
        found, self._writers, self._unread = list[str](), list[Type](), list[Type]()
        for text in dict.fromkeys(writers):
            if (one := _record(text)) is None:
                continue
            is_read = _is_read(one, self._reader)
            # A registry may have many more than those.
            if is_read or one.name == self._reader.name:
                found.append(text)
                (self._writers if is_read else self._unread).append(one)
        self._given = tuple(found), reader
        # By the names of a text: name -> how its value may be read; None if no schema has all of them.
        self._known: dict[tuple[str, ...], Mapping[str, Sequence[Pair]] | None] = {}
        self._names = {name for one in self._reader.fields for name in (one.name, *one.aliases)}

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroFiller, self._given

    @property
    def type(self) -> pa.StructType:
        """As the protocol says."""
        return arrow_type(self._reader)

    def fill(self, row: Mapping[str, Any], text: str) -> Filled:
        """``row``: its columns, in the form of ``arrow_value``; ``text``: its further fields."""
        try:
            members = read(text)
        except NotWritten as error:
            return Filled(left=text, kept=[("", str(error))])
        pairs = self._pairs(tuple(name for name, _ in members))
        found, rest = Filled(), []
        for name, value in members:
            if pairs is None:
                rest.append((name, written(value)))
                found.kept += [(name, NO_SCHEMA)] if name in self._names else []
                continue
            columns = {pair.reader.name: None for pair in pairs[name] if pair.reader is not None}
            if not columns:
                rest.append((name, written(value)))
                continue
            column, of = self._member(name, value, row, pairs[name])
            found.fields += of.fields
            found.kept += of.kept
            if of.fields:
                found.values[column] = of.value
            if of.left is not None:
                rest.append((name, of.left))
        found.left = joined(rest) if rest else None
        return found

    def _pairs(self, names: tuple[str, ...]) -> Mapping[str, Sequence[Pair]] | None:
        if names not in self._known:
            writers = [one for one in self._writers if all(name in one.by_name for name in names)]
            writers += [one for one in self._unread if self._wrote(one, names)]
            found = {
                name: _distinct(self._merging.pair(one, self._reader, name) for one in writers)
                for name in names
            }
            self._known[names] = found if writers else None
        return self._known[names]

    def _wrote(self, writer: Type, names: tuple[str, ...]) -> bool:
        """Whether the table could have rows of a ``writer`` while it had no columns of these names, or not
        all of their parts."""
        if not all(name in writer.by_name for name in names):
            return False
        had = [one for one in self._reader.fields if not {one.name, *one.aliases} & {*names}]
        other = [one for one in writer.fields if one.name not in names]
        return _is_read(replace(writer, fields=tuple(other)), replace(self._reader, fields=tuple(had)))

    def _member(
        self, name: str, value: Any, row: Mapping[str, Any], pairs: Sequence[Pair]
    ) -> tuple[str, Outcome]:
        """The column of a member, and what all schemas that may have it make of it."""
        found, reasons = list[tuple[str, Outcome]](), list[str]()
        for pair in pairs:
            if pair.reader is None:
                reasons.append(NO_COLUMN)
                continue
            try:
                of = self._merging.merged(pair.writer, pair.reader, row.get(pair.reader.name), value, name)
            except NotWritten:
                continue
            except (Undecided, Unresolvable) as error:
                reasons.append(str(error))
                continue
            found.append((pair.reader.name, of))
        return only_one(name, value, found, reasons)


def _record(text: str) -> Type | None:
    try:
        return writers_schema(text).record
    except (UnsupportedSchema, RecursionError):
        return None


def _is_read(writer: Type, reader: Type) -> bool:
    try:
        resolver(writer, reader)
    except (Unresolvable, RecursionError):
        return False
    return True


def _distinct(pairs: Iterable[Pair]) -> list[Pair]:
    """One for each pair of types."""
    return list({(repr(one.writer.type), repr(one.reader)): one for one in pairs}.values())
