"""Rows of a table, with their further fields in columns; and the account of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from sluice.core.decoding.avro.types import without_times
from sluice.core.record_batches.cursor import Flags


@dataclass
class Filled:
    """What is made of a row's further fields."""

    values: dict[str, Any] = field(default_factory=dict)
    """Column -> its new value, as PyArrow takes it, times as numbers."""
    left: str | None = None
    """The text of what is left; None if nothing is."""
    fields: list[str] = field(default_factory=list)
    """Paths of the fields that went into columns: ``lines[].price``."""
    kept: list[tuple[str, str]] = field(default_factory=list)
    """Paths of fields that have a column and stay in the text, each with the reason."""


class Filler(Protocol):
    """How the rows of one table are filled. Can be pickled."""

    @property
    def type(self) -> pa.StructType:
        """The columns that may be filled, as the table must have them."""

    def fill(self, row: Mapping[str, Any], text: str) -> Filled:
        """``row``: its columns, in the form of ``Filled.values``; ``text``: its further fields."""


def lacking(wanted: pa.DataType, present: pa.DataType, path: str = "") -> list[str]:
    """Paths of the fields of ``wanted`` that a column of ``present`` does not have: their values would be
    lost."""
    if pa.types.is_struct(wanted) and pa.types.is_struct(present):
        found = list[str]()
        for one in wanted:
            inner = f"{path}.{one.name}" if path else one.name
            if one.name in present.names:
                found += lacking(one.type, present.field(one.name).type, inner)
            else:
                found.append(inner)
        return found
    if pa.types.is_list(wanted) and pa.types.is_list(present):
        return lacking(wanted.value_type, present.value_type, f"{path}[]")
    if pa.types.is_map(wanted) and pa.types.is_map(present):
        return lacking(wanted.item_type, present.item_type, f"{path}[]")
    return [] if without_times(wanted) == without_times(present) else [path]


def filled(rows: pa.RecordBatch, unknown: str, chosen: Flags, filler: Filler) -> Iterator[tuple[int, Filled]]:
    """The ``chosen`` rows that have further fields in the column ``unknown``: the place of each, and what is
    made of it. The columns of ``filler`` are there."""
    texts = rows.column(unknown)
    places = np.flatnonzero(chosen & texts.is_valid().to_numpy(zero_copy_only=False))
    if not len(places):
        return
    few = rows.take(pa.array(places))
    columns = _Columns(few, frozenset(filler.type.names))
    for number, (place, text) in enumerate(
        zip(places.tolist(), few.column(unknown).to_pylist(), strict=True)
    ):
        yield place, filler.fill(_Row(columns, number), text)


class _Columns:
    """Columns of rows, each as values of Python once it is asked for: a table may have 2,000 of them."""

    def __init__(self, rows: pa.RecordBatch, names: frozenset[str]) -> None:
        self.names, self._rows = names, rows
        self._values: dict[str, list[Any]] = {}

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self._values:
            column = self._rows.column(name)
            self._values[name] = column.cast(without_times(column.type)).to_pylist()
        return self._values[name]


class _Row(Mapping[str, Any]):
    def __init__(self, columns: _Columns, number: int) -> None:
        self._columns, self._number = columns, number

    def __getitem__(self, name: str) -> Any:
        if name not in self._columns.names:
            raise KeyError(name)
        return self._columns[name][self._number]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns.names)

    def __len__(self) -> int:
        return len(self._columns.names)

    def __contains__(self, name: object) -> bool:
        return name in self._columns.names


def with_columns(rows: pa.RecordBatch, unknown: str, found: Mapping[int, Filled]) -> pa.RecordBatch:
    """The rows, with what was made of those at some places. Raises Arrow's errors for a value that is none of
    its column's."""
    changed = {place: one for place, one in found.items() if one.fields}
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    of_columns: dict[str, dict[int, Any]] = {unknown: {place: one.left for place, one in changed.items()}}
    for place, one in changed.items():
        for name, value in one.values.items():
            of_columns.setdefault(name, {})[place] = value
    for name, values in of_columns.items():
        if values:
            columns[name] = _replaced(columns[name], values)
    return pa.RecordBatch.from_arrays([*columns.values()], schema=rows.schema)


def _replaced(column: pa.Array, values: Mapping[int, Any]) -> pa.Array:
    # No function of Arrow replaces values of lists, maps and records.
    new = pa.array([*values.values()], without_times(column.type)).cast(column.type)
    order = np.arange(len(column))
    order[[*values]] = len(column) + np.arange(len(values))
    return pa.concat_arrays([column, new]).take(pa.array(order))


@dataclass
class Account:
    """What became of further fields."""

    rows: int = 0
    """Number of rows of which at least one went into a column."""
    fields: Counter[str] = field(default_factory=Counter)
    """Path -> number of values that went into its column."""
    columns: set[str] = field(default_factory=set)
    """Those that have a value that went into them."""
    kept: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Path and reason -> number of values that stay, though the table has a column."""
    first: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """The same -> partition and offset of the first of them."""

    def add(self, one: Filled, place: tuple[int, int]) -> None:
        """``place``: partition and offset of the row."""
        self.rows += bool(one.fields)
        # A field in each item of a list is one of the row's.
        self.fields.update(set(one.fields))
        self.columns |= one.values.keys()
        for each in dict.fromkeys(one.kept):
            self.kept[each] += 1
            self.first[each] = min(place, self.first.get(each, place))
