"""A member of the text of further fields, merged into what its column has."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from sluice.core.decoding.avro.unknown.json_values import joined
from sluice.core.decoding.filling.from_json import Members, NotWritten, Undecided, written
from sluice.core.decoding.filling.merging import HAS_A_VALUE, Outcome, of_items
from sluice.core.decoding.filling.protobuf.numbers import Numbers, is_number
from sluice.core.decoding.filling.protobuf.texts import key, single
from sluice.core.decoding.protobuf.schema import UnsupportedMessage
from sluice.core.decoding.protobuf.types import Field, Type, is_map
from sluice.core.decoding.protobuf.values import Convert, field_of, single_of
from sluice.core.decoding.protobuf.well_known import time_of

NO_FIELD = "no schema of its record has such a field: its bytes alone are known"
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


class Merging:
    """Merges values of messages of one schema into those of a table, all types of which the caller keeps."""

    def __init__(self, numbers: Numbers | None) -> None:
        """``numbers``: reads fields of which the number is known; None if nothing does."""
        self._numbers = numbers
        # By the name of the field, and the identity of the column's type.
        self._converts: dict[tuple[Callable[..., Convert], str, int], Convert | str] = {}
        self._columns: dict[tuple[str, int], dict[str, Field]] = {}

    def columns(self, message: Descriptor, reader: Type) -> dict[str, Field]:
        """Name of a field of ``message`` -> its column in ``reader``."""
        place = message.full_name, id(reader)
        if place not in self._columns:
            sources = ((one.source(message), one) for one in reader.fields)
            self._columns[place] = {source.name: one for source, one in sources if source is not None}
        return self._columns[place]

    def merged(self, source: FieldDescriptor, reader: Type, present: Any, value: Any, path: str) -> Outcome:
        """``present``: what the column has; ``value``: what the text has. Raises NotWritten if it is no value
        of the field, and UnsupportedMessage if it is none of the column."""
        self._convert(field_of, source, reader, path)
        if reader.kind == "json":
            found = self._json(present, value, path)
        elif is_map(source):
            found = self._map(source, reader, present, value, path)
        elif source.is_repeated:
            found = self._list(source, reader, present, value, path)
        else:
            found = self._single(source, reader, present, value, path)
        if present is None:
            # All of it, not its parts.
            found.fields = [path]
        elif not found.fields:
            found.left = written(value)
        return found

    def _convert(self, of: Callable[..., Convert], source: FieldDescriptor, reader: Type, path: str) -> Any:
        place = of, source.full_name, id(reader)
        if place not in self._converts:
            try:
                self._converts[place] = of(source, reader, path)
            except UnsupportedMessage as error:
                self._converts[place] = str(error)
        found = self._converts[place]
        if isinstance(found, str):
            raise UnsupportedMessage(found)
        return found

    def _json(self, present: Any, value: Any, path: str) -> Outcome:
        """Such a column has the text, whatever the type of the field."""
        return Outcome(written(value), None, [path]) if present is None else _stays(present, value, path)

    def _single(self, source: FieldDescriptor, reader: Type, present: Any, value: Any, path: str) -> Outcome:
        if reader.kind == "json":
            return self._json(present, value, path)
        if reader.kind == "struct":
            return self._struct(source.message_type, reader, present, value, path)
        found = single(source, value)
        column, rest = self._convert(single_of, source, reader, path)(found), None
        if reader.kind == "timestamp":
            column = (column - _EPOCH) // _MICROSECOND
            rest = written(value) if time_of(found, path) % 1000 else None
        if present is None:
            return Outcome(column, rest, [path])
        # The nanoseconds of a time that the column has.
        is_rest = rest is not None and present == column
        return Outcome(present, rest) if is_rest else _stays(present, value, path)

    def _struct(self, message: Descriptor, reader: Type, present: Any, value: Any, path: str) -> Outcome:
        members = dict(_checked(value, Members))
        if len(members) < len(value):
            raise NotWritten
        found, rest = Outcome(dict(present or ()), None), list[tuple[str, str]]()
        for name, one in value:
            if is_number(name):
                continue
            if (source := message.fields_by_name.get(name)) is None:
                raise NotWritten
            if (column := self.columns(message, reader).get(name)) is None:
                rest.append((name, written(one)))
                continue
            inner = f"{path}.{name}"
            try:
                of = self.merged(source, column.type, found.value.get(column.name), one, inner)
            except UnsupportedMessage as error:
                if present is None:
                    raise
                of = Outcome(found.value.get(column.name), written(one), kept=[(inner, str(error))])
            found.value[column.name] = of.value
            found.add(of)
            rest += [(name, of.left)] if of.left is not None else []
        if present is None:
            found.value |= _unset(message, reader, members)
        numbered = {name: one for name, one in value if is_number(name)}
        rest += self.numbered(message, reader, found.value, numbered, found, path)
        found.left = joined(rest) if rest else None
        return found

    def numbered(
        self,
        message: Descriptor,
        reader: Type,
        row: MutableMapping[str, Any],
        given: dict[str, Any],
        to: Outcome,
        path: str,
    ) -> list[tuple[str, str]]:
        """Set columns of a ``row`` from fields that are known by their numbers; what is left as members.
        ``to``: where it is said."""
        rest = list[tuple[str, str]]()
        for name, value in given.items():
            inner = f"{path}.{name}" if path else name
            if self._numbers is None:
                to.kept += (
                    [(inner, NO_FIELD)] if any(str(one.number) == name for one in reader.fields) else []
                )
                rest.append((name, written(value)))
                continue
            try:
                of_numbers = {int(number): one for number, one in given.items()}
                found = self._numbers.read(message, reader, int(name), of_numbers, row)
            except Undecided as error:
                to.kept.append((inner, str(error)))
                found = None
            if found is None:
                rest.append((name, written(value)))
                continue
            column, row[column], left = found
            to.fields.append(f"{path}.{column}" if path else column)
            rest += left
        return rest

    def _list(self, source: FieldDescriptor, reader: Type, present: Any, value: Any, path: str) -> Outcome:
        inner, values = f"{path}[]", _checked(value, list)
        if present is None:
            items = [self._single(source, reader.inner, None, one, inner) for one in values]
        else:
            if not _has_parts(reader.inner, values):
                return _stays(present, value, path)
            if len(values) != len(present):
                raise NotWritten
            items = [
                self._item(source, reader.inner, *both, inner) for both in zip(present, values, strict=True)
            ]
        return of_items(items)

    def _map(self, source: FieldDescriptor, reader: Type, present: Any, value: Any, path: str) -> Outcome:
        of_key, of_item = (source.message_type.fields_by_number[number] for number in (1, 2))
        convert = self._convert(single_of, of_key, reader.key or reader, path)
        parts = {convert(key(of_key, name)): (name, one) for name, one in _checked(value, Members)}
        if present is not None and not _has_parts(reader.inner, [one for _, one in value]):
            return _stays(present, value, path)
        entries = dict.fromkeys(parts) if present is None else dict(present)
        if len(parts) < len(value) or not parts.keys() <= entries.keys():
            raise NotWritten
        found, rest = Outcome(None, None), list[tuple[str, str]]()
        for own, (name, one) in parts.items():
            merge = self._single if present is None else self._item
            of = merge(of_item, reader.inner, entries[own], one, f"{path}[]")
            entries[own] = of.value
            found.add(of)
            rest += [(name, of.left)] if of.left is not None else []
        found.value, found.left = [*entries.items()], joined(rest) if rest else None
        return found

    def _item(self, source: FieldDescriptor, reader: Type, present: Any, value: Any, path: str) -> Outcome:
        """An item of a list or a map, of which the text has what it lacks, null for nothing."""
        if value is None:
            return Outcome(present, None)
        if present is None:
            raise NotWritten
        return self._single(source, reader, present, value, path)


def _unset(message: Descriptor, reader: Type, members: dict[str, Any]) -> dict[str, None]:
    """The columns of a whole message that its text does not have: of what it can leave out, and did."""
    found = dict[str, None]()
    for column in reader.fields:
        source = column.source(message)
        if source is None:
            found[column.name] = None
        elif source.name not in members:
            if source.is_repeated or not source.has_presence:
                raise NotWritten
            found[column.name] = None
    return found


def _has_parts(inner: Type, values: Sequence[Any]) -> bool:
    """Whether a text may be what items of this type lack."""
    return inner.kind in ("struct", "timestamp") and any(one is not None for one in values)


def _stays(present: Any, value: Any, path: str) -> Outcome:
    return Outcome(present, written(value), kept=[(path, HAS_A_VALUE)])


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise NotWritten
    return value
