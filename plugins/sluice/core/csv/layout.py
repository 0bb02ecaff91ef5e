"""How the records below a header become Avro bodies of a schema, or are rejected, each with a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.csv.columns import kinds
from sluice.core.csv.columns.bodies import Extra, encode
from sluice.core.csv.columns.kinds import Kind, UnsupportedType, kind_of_field
from sluice.core.csv.columns.numbers import mask, valid
from sluice.core.csv.columns.values import Converter, IsWritten, arrow_nulls
from sluice.core.csv.form import Dialect, Rules
from sluice.core.csv.header import InvalidHeader, same, separator_hint
from sluice.core.csv.records.cells import columns
from sluice.core.csv.records.cut import Records
from sluice.core.csv.records.quotes import Ints, Mask
from sluice.core.csv.records.written import WrittenCells
from sluice.core.messages import quoted

# Characters of a cell in a reason.
MAX_CELL = 80
NOT_UTF8 = "the row is not UTF-8"
# Columns that a row's reason names, between these words, and what follows if more of them are wrong.
MAX_COLUMNS = 5
BETWEEN, MORE_COLUMNS = "; ", "and more columns"


@dataclass(frozen=True)
class Column:
    """The field ``name`` of a record. ``position``: in the file's records; None if they do not have it."""

    name: str
    kind: Kind
    position: int | None


@dataclass(frozen=True)
class Rows:
    """Records of a block. ``bodies``: of the good ones in their order; ``is_good``: which these are;
    ``reasons``: why the others are rejected, by their number in the block, if that was asked; of one with
    several wrong columns, each of the first MAX_COLUMNS."""

    bodies: pa.BinaryArray
    is_good: Mask
    reasons: dict[int, str] = field(default_factory=dict)


class _Found:
    """Which records are good so far, and why the others are not: the first reason counts, and with it those
    of other columns."""

    def __init__(self, count: int, with_reasons: bool) -> None:
        self.is_good, self.reasons = np.ones(count, bool), dict[int, str]()
        self._with_reasons = with_reasons
        # How many columns of each record are wrong.
        self._columns = np.zeros(count, np.int64)

    def reject(self, numbers: Ints, text: Callable[[int], str]) -> None:
        """``text``: the reason of the n-th of ``numbers``."""
        new = np.flatnonzero(self.is_good[numbers])
        self.is_good[numbers] = False
        if self._with_reasons:
            self.reasons |= {int(numbers[n]): text(n) for n in new.tolist()}

    def reject_column(self, numbers: Ints, text: Callable[[int], str]) -> None:
        """As :meth:`reject`, of one column of records that are well-formed."""
        self.is_good[numbers] = False
        if not self._with_reasons:
            return
        before = self._columns[numbers]
        for n in np.flatnonzero(before <= MAX_COLUMNS).tolist():
            said = text(n) if before[n] < MAX_COLUMNS else MORE_COLUMNS
            number = int(numbers[n])
            self.reasons[number] = f"{self.reasons[number]}{BETWEEN}{said}" if before[n] else said
        self._columns[numbers] += 1


@dataclass(frozen=True)
class Layout:
    """``width``: number of the header's columns. ``columns``: of the schema, in its order. ``rest``: the name
    of its map, with ``extra``: the file's columns that go there, as (name, position). ``rules``, ``dialect``:
    as declared. ``max_value_bytes``: of a body that is sent; ``limit``: what a reason says of that."""

    width: int
    columns: tuple[Column, ...]
    rest: str
    extra: tuple[tuple[str, int], ...]
    rules: Rules
    dialect: Dialect
    max_value_bytes: int
    limit: str = ""

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        schema: Mapping[str, Any],
        rest: str,
        rules: Rules,
        dialect: Dialect,
        where: str,
        max_value_bytes: int,
        limit: str = "",
    ) -> Layout:
        """Match a header's ``names`` (``header.names_of``) with an Avro ``schema``. ``rest``: its map of
        strings for columns that it does not name, or "".

        Names are compared as ``header.same`` says. A column of the schema alone is null, one of the header
        alone is an entry of the map. Raises InvalidHeader, naming ``where``, for a required column that is
        missing, or an extra one without a map; UnsupportedType for a field that no cell can be.
        """
        at = {same(name): position for position, name in enumerate(names)}
        known = {name: kind_of_field(one) for one in schema["fields"] for name in (one["name"],)}
        fields = {name: kind for name, kind in known.items() if not (name == rest and kind.name == kinds.MAP)}
        for name, kind in fields.items():
            if kind.name == kinds.MAP and same(name) in at:
                raise UnsupportedType(f"field {name!r} is a map. Fix: name it as [csv] extra_columns")
            if kind.is_required and same(name) not in at:
                raise InvalidHeader(
                    f"{where}: column {name!r} is required and missing in the header: "
                    f"{quoted(', '.join(names))}. Fix: correct the file{separator_hint(names, dialect)}"
                )
        taken = {same(name) for name in fields}
        if fields and not taken & set(at):
            # An optional column may be missing, and with a map any may be there: but not both of all.
            raise InvalidHeader(
                f"{where}: no column of the header is one of the schema: {quoted(', '.join(names))}. Fix: "
                f"correct the file{separator_hint(names, dialect)}"
            )
        extra = tuple((name, n) for n, name in enumerate(names) if same(name) not in taken)
        if extra and len(fields) == len(known):
            raise InvalidHeader(
                f"{where}: column {quoted(extra[0][0])} of the header is not in the schema. Fix: add it, or "
                f"name a map of strings of the schema as [csv] extra_columns (now {rest!r})"
                f"{separator_hint(names, dialect)}"
            )
        columns = tuple(
            Column(name, kind, at.get(same(name)) if name in fields else None) for name, kind in known.items()
        )
        return cls(len(names), columns, rest, extra, rules, dialect, max_value_bytes, limit)

    def rows(self, records: Records, with_reasons: bool = True, wanted: Mask | None = None) -> Rows:
        """Type the records of a block. Without ``with_reasons`` none are written: those of 100,000
        rejected rows take longer than all else. Those that are not ``wanted`` are not good, without a reason.
        """
        found = _Found(len(records), with_reasons)
        if wanted is not None:
            found.is_good &= wanted
        faults = np.array(list(records.faults), np.int64)
        found.reject(faults, lambda n: records.faults[int(faults[n])])
        longer, filled = records.widths > self.width, None
        if longer.any() and (self.dialect.trailing_empty or with_reasons):
            filled = records.filled(self.width, self.dialect)
        wrong = records.widths < self.width
        wrong |= longer & filled if self.dialect.trailing_empty and filled is not None else longer
        wide = np.flatnonzero(wrong)
        found.reject(wide, lambda n: self._says_width(records, int(wide[n]), filled))
        # Only an object with such bytes has any.
        found.reject(np.flatnonzero(records.not_utf8()), lambda _: NOT_UTF8)
        numbers = np.flatnonzero(found.is_good)
        is_regular = found.is_good.copy()
        is_cut = (longer & is_regular).any()
        data = records.first_cells(is_regular, self.width) if is_cut else records.only(is_regular)
        cells = columns(data, self.width, len(numbers), self.dialect)
        written = WrittenCells(records, numbers, self.dialect) if records.is_quoted else None
        bodies = self._bodies(cells, written, numbers, found)
        good = found.is_good[numbers]
        return Rows(bodies if good.all() else bodies.filter(pa.array(good)), found.is_good, found.reasons)

    def _says_width(self, records: Records, number: int, filled: Mask | None) -> str:
        width = int(records.widths[number])
        said, more = f"the row has {width} columns, the header names {self.width}", width - self.width
        if more <= 0 or filled is None or filled[number]:
            return said
        return f"{said}, and {'the last is' if more == 1 else f'the last {more} are'} empty"

    def _bodies(
        self, cells: Sequence[pa.StringArray], written: WrittenCells | None, numbers: Ints, found: _Found
    ) -> pa.BinaryArray:
        """Bodies of records with these numbers; ``found`` gets those of them that are wrong. ``written``: of
        a block with quotes or escapes."""
        converter, count = Converter(self.rules, self.dialect.escape), len(numbers)
        values = list[pa.Array | Extra]()

        def reject(wrong: Mask, text: Callable[[int], str]) -> None:
            at = np.flatnonzero(wrong)
            found.reject_column(numbers[at], lambda n: text(int(at[n])))

        def is_written(position: int) -> IsWritten | None:
            if written is None:
                return None
            quoted = self.rules.quoted_nulls
            return lambda text, rows, trim: written.are(text, position, rows, quoted, trim)

        for column in self.columns:
            if column.kind.name == kinds.MAP:
                extra = self.extra if column.name == self.rest else ()
                values.append(
                    Extra(
                        tuple(name for name, _ in extra),
                        tuple(converter.texts(cells[n], is_written(n)) for _, n in extra),
                    )
                )
            elif column.position is None:
                values.append(arrow_nulls(column.kind, count))
            else:
                texts = cells[column.position]
                typed, wrong = converter.convert(texts, column.kind, is_written(column.position))
                values.append(typed)
                reject(wrong, partial(self._says_value, column, texts))
                if column.kind.is_required and typed.null_count:
                    reject(~valid(typed) & ~wrong, partial(self._says_empty, column))
        bodies = encode(values, [column.kind for column in self.columns], count)
        sizes = pc.binary_length(bodies)
        large = np.flatnonzero(mask(pc.greater(sizes, self.max_value_bytes)))
        found.reject(
            numbers[large],
            lambda n: (
                f"too large: the record's value has {sizes[int(large[n])].as_py()} bytes, the topic takes "
                f"{self.max_value_bytes}{self.limit}"
            ),
        )
        return bodies

    @staticmethod
    def _says_value(column: Column, texts: pa.StringArray, number: int) -> str:
        cell = texts[number].as_py()
        shown = cell if len(cell) <= MAX_CELL else f"{cell[:MAX_CELL]}…"
        return f"column {column.name}: '{shown}' is not {column.kind.title}"

    @staticmethod
    def _says_empty(column: Column, _: int) -> str:
        return f"column {column.name} is empty"
