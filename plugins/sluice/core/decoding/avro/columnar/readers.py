"""Readers of a type's values at many positions at once: each gives a column, and the positions behind it.

What is not regular marks its record as odd, and reading goes on: its values are then of no use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from sluice.core.decoding.avro.columnar import decimals
from sluice.core.decoding.avro.columnar.bodies import Bodies, Rows, selected
from sluice.core.decoding.avro.columnar.columns import Column, Nulls, Slices, Structs, Values, spread
from sluice.core.decoding.avro.columnar.lists import ListReader
from sluice.core.decoding.avro.types import MAX_PRECISION, Type, min_bytes
from sluice.core.record_batches.cursor import Ints

_MAX_VARINT = 10
_MAX_INT = (1 << 31) - 1
_MAX_LONG = (1 << 63) - 1
_MILLIS = ("timestamp-millis", "local-timestamp-millis")


class Reader(Protocol):
    """Reads values of one type. ``margin``: how many bytes it may pass the end of a record by."""

    margin: int

    def read(self, bodies: Bodies, rows: Rows, at: Ints) -> tuple[Column, Ints]:
        """Read a value at each position; ``rows``: the records that these belong to."""


def reader(kind: Type) -> Reader:
    """The reader of a type."""
    if kind.kind == "record":
        return _Record([reader(field.type) for field in kind.fields])
    if kind.kind == "array":
        return ListReader(reader(kind.item), min_bytes(kind.item))
    if kind.kind == "map":
        entry = _Record([_Bytes(), reader(kind.item)])
        return ListReader(entry, 1 + min_bytes(kind.item))
    if kind.kind == "union":
        return _Union(kind) if len(kind.values) != 1 else _optional(kind)
    if kind.logical == "decimal":
        return _Decimal(kind)
    if kind.kind in ("string", "bytes"):
        return _Bytes()
    if kind.kind == "fixed":
        return _Fixed(kind.size)
    if kind.kind in ("int", "long"):
        return _Number(kind)
    if kind.kind == "enum":
        return _Enum(len(kind.symbols))
    if kind.kind in ("float", "double"):
        return _Float(kind.kind)
    return _Bit() if kind.kind == "boolean" else _Null()


class _Null:
    margin = 0

    def read(self, bodies: Bodies, rows: Rows, at: Ints) -> tuple[Column, Ints]:
        return Nulls(len(at)), at


class _Bit:
    margin = 1

    def read(self, bodies: Bodies, rows: Rows, at: Ints) -> tuple[Column, Ints]:
        values = bodies.data.take(at)
        bodies.mark(rows, values > 1)
        return Values(values.view(np.bool_)), at + 1


class _Float:
    def __init__(self, kind: str) -> None:
        self._dtype = "<f4" if kind == "float" else "<f8"
        self.margin = np.dtype(self._dtype).itemsize

    def read(self, bodies: Bodies, rows: Rows, at: Ints) -> tuple[Column, Ints]:
        return Values(bodies.words(self._dtype)[at]), at + self.margin


class _Number:
    margin = _MAX_VARINT

    def __init__(self, kind: Type) -> None:
        self._is_int, self._is_millis = kind.kind == "int", kind.logical in _MILLIS
        self._most = kind.most

    def read(self, bodies: Bodies, rows: Rows, at: Ints) -> tuple[Column, Ints]:
        values, at = bodies.varints(rows, at)
        if self._most:
            bodies.mark(rows, (values > self._most) | (values < -self._most))
        if self._is_int:
            bodies.mark(rows, (values > _MAX_INT) | (values < ~_MAX_INT))
            return Values(values.astype(np.int32)), at
        if self._is_millis:
            most = _MAX_LONG // 1000
            bodies.mark(rows, (values > most) | (values < -most))
            values *= 1000
        return Values(values), at


class _Enum:
    margin = _MAX_VARINT

    def __init__(self, count: int) -> None:
        self._count = count

    def read(self, bodies: Bodies, rows: Rows, at: Ints) -> tuple[Column, Ints]:
        values, at = bodies.varints(rows, at)
        out = (values < 0) | (values >= self._count)
        bodies.mark(rows, out)
        return Values(np.where(out, 0, values).astype(np.int32)), at


class _Bytes:
    """Texts, too: whether they are UTF-8 is seen when they are an array of Arrow."""

    margin = _MAX_VARINT

    def read(self, bodies: Bodies, rows: Rows, at: Ints) -> tuple[Column, Ints]:
        lengths, at = bodies.sizes(rows, at)
        return Slices(at, lengths), at + lengths


class _Fixed:
    margin = 0

    def __init__(self, size: int) -> None:
        self._size = size

    def read(self, bodies: Bodies, rows: Rows, at: Ints) -> tuple[Column, Ints]:
        out = at > bodies.ends[rows] - self._size
        bodies.mark(rows, out)
        lengths = np.where(out, 0, self._size)
        return Slices(at, lengths), at + lengths


class _Decimal:
    def __init__(self, kind: Type) -> None:
        self._digits = min(kind.digits[0], MAX_PRECISION)
        # No column of 128 bits has it.
        self._is_odd = kind.digits[1] > MAX_PRECISION
        self._bytes = _Fixed(kind.size) if kind.kind == "fixed" else _Bytes()
        self.margin = self._bytes.margin

    def read(self, bodies: Bodies, rows: Rows, at: Ints) -> tuple[Column, Ints]:
        found, at = self._bytes.read(bodies, rows, at)
        assert isinstance(found, Slices)  # noqa: S101  (narrows the type)
        values, odd = decimals.numbers(bodies.data, found.starts, found.lengths, self._digits)
        bodies.mark(rows, odd | self._is_odd)
        return Values(values), at


class _Record:
    def __init__(self, fields: Sequence[Reader]) -> None:
        self._fields = fields
        self.margin = sum(field.margin for field in fields)

    def read(self, bodies: Bodies, rows: Rows, at: Ints) -> tuple[Column, Ints]:
        count, columns = len(at), list[Column]()
        for field in self._fields:
            column, at = field.read(bodies, rows, at)
            columns.append(column)
        return Structs(columns, count), at


def _optional(kind: Type) -> Reader:
    (place,) = (place for place, branch in enumerate(kind.branches) if branch.kind != "null")
    return _Optional(reader(kind.branches[place]), place, len(kind.branches))


class _Optional:
    """A union of one type and null, or of one type alone."""

    def __init__(self, value: Reader, place: int, count: int) -> None:
        self._value = value
        # Zigzag; it has no null branch if its only branch is the value's.
        self._has, self._none = 2 * place, 2 * (1 - place) if count > 1 else 2 * place
        self.margin = 1 + value.margin

    def read(self, bodies: Bodies, rows: Rows, at: Ints) -> tuple[Column, Ints]:
        branch = bodies.data.take(at)
        has = branch == self._has
        if not has.all():
            bodies.mark(rows, ~has & (branch != self._none))
        at = at + 1
        count = int(np.count_nonzero(has))
        if count == len(at):
            return self._value.read(bodies, rows, at)
        places = np.flatnonzero(has)
        column, behind = self._value.read(bodies, selected(rows, places), at.take(places))
        at[places] = behind
        return spread(column, places, len(at)), at


class _Union:
    """A union of several types, of which each is a field; of two types of numbers, the wider one."""

    def __init__(self, kind: Type) -> None:
        self._branches = [reader(branch) for branch in kind.branches]
        self._is_null = [branch.kind == "null" for branch in kind.branches]
        self._dtype = None
        if kind.is_widened:
            self._dtype = np.int64 if kind.values[0].kind in ("int", "long") else np.float64
        self.margin = 1 + _MAX_VARINT + max(branch.margin for branch in self._branches)

    def read(self, bodies: Bodies, rows: Rows, at: Ints) -> tuple[Column, Ints]:
        count = len(at)
        branch, at = bodies.varints(rows, at)
        bodies.mark(rows, (branch < 0) | (branch >= len(self._branches)))
        valid, columns = np.zeros(count, np.bool_), list[Column]()
        at = at.copy()
        for number, (value, is_null) in enumerate(zip(self._branches, self._is_null, strict=True)):
            if is_null:
                continue
            places = np.flatnonzero(branch == number)
            column, behind = value.read(bodies, selected(rows, places), at[places])
            at[places] = behind
            valid[places] = True
            columns.append(spread(column, places, count))
        if not columns:
            return Nulls(count), at
        if self._dtype is None:
            return Structs(columns, count, None if valid.all() else valid), at
        numbers = np.zeros(count, self._dtype)
        for column in columns:
            assert isinstance(column, Values) and column.valid is not None  # noqa: S101, PT018
            # What was read of an odd record may be no number.
            with np.errstate(invalid="ignore"):
                numbers[column.valid] = column.values[column.valid]
        return Values(numbers, valid), at
