"""How the records below a header become Avro bodies of a schema, or are rejected, each with a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.csv.columns import kinds
from sluice.core.csv.columns.bodies import Extra, encode
from sluice.core.csv.columns.kinds import Kind, UnsupportedType, kind_of_field
from sluice.core.csv.columns.numbers import mask, valid
from sluice.core.csv.columns.values import Converter, arrow_nulls
from sluice.core.csv.form import WHITE, Dialect, Rules
from sluice.core.csv.header import InvalidHeader, same, separator_hint
from sluice.core.csv.records.cells import columns
from sluice.core.csv.records.cut import Records
from sluice.core.csv.records.quotes import Mask, cells_of
from sluice.core.messages import quoted

# Characters of a cell in a reason.
MAX_CELL = 80
NOT_UTF8 = "the row is not UTF-8"


@dataclass(frozen=True)
class Column:
    """The field ``name`` of a record. ``position``: in the file's records; None if they do not have it."""

    name: str
    kind: Kind
    position: int | None


@dataclass(frozen=True)
class Rows:
    """Records of a block. ``bodies``: of the good ones in their order; ``is_good``: which these are;
    ``reasons``: why the others are rejected, by their number in the block."""

    bodies: pa.BinaryArray
    is_good: Mask
    reasons: dict[int, str] = field(default_factory=dict)


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

    def rows(self, records: Records) -> Rows:
        """Type the records of a block."""
        count = len(records)
        reasons = dict(records.faults)
        wrong_width = self._wrong_width(records)
        for number in np.flatnonzero(wrong_width).tolist():
            reasons.setdefault(number, self._says_width(records, number))
        # Only an object with such bytes has any.
        not_utf8 = records.not_utf8()
        for number in np.flatnonzero(not_utf8).tolist():
            reasons.setdefault(number, NOT_UTF8)
        regular = np.ones(count, bool)
        regular[list(reasons)] = False
        numbers, bodies = np.zeros(0, np.int64), list[pa.BinaryArray]()
        for width in np.unique(records.widths[regular]).tolist():
            chosen = np.flatnonzero(regular & (records.widths == width))
            cells = columns(records.only(_mask(chosen, count)), width, len(chosen), self.dialect)
            numbers = np.concatenate([numbers, chosen])
            for filled in (~mask(pc.equal(pc.utf8_trim(cell, WHITE), "")) for cell in cells[self.width :]):
                for number in chosen[filled].tolist():
                    reasons.setdefault(number, self._says_width(records, number))
            bodies.append(self._bodies(cells, chosen, reasons))
        is_good = np.ones(count, bool)
        is_good[list(reasons)] = False
        found = pa.concat_arrays(bodies) if len(bodies) > 1 else [*bodies, pa.array([], pa.binary())][0]
        if len(bodies) > 1:
            order = np.argsort(numbers)
            found, numbers = found.take(pa.array(order)), numbers[order]
        good = is_good[numbers]
        return Rows(found if good.all() else found.filter(pa.array(good)), is_good, reasons)

    def _wrong_width(self, records: Records) -> Mask:
        if self.dialect.trailing_empty:
            return records.widths < self.width
        return records.widths != self.width

    def _says_width(self, records: Records, number: int) -> str:
        said = f"the row has {records.widths[number]} columns, the header names {self.width}"
        behind = cells_of(records[number], self.dialect)[self.width :]
        if not behind or any(cell.strip(WHITE.encode()) for cell in behind):
            return said
        return f"{said}, and {'the last is' if len(behind) == 1 else f'the last {len(behind)} are'} empty"

    def _bodies(
        self, cells: Sequence[pa.StringArray], numbers: np.ndarray, reasons: dict[int, str]
    ) -> pa.BinaryArray:
        """Bodies of records with these numbers; ``reasons`` gets those of the ones that are wrong."""
        converter, count = Converter(self.rules), len(numbers)
        values = list[pa.Array | Extra]()
        for column in self.columns:
            if column.kind.name == kinds.MAP:
                extra = self.extra if column.name == self.rest else ()
                values.append(
                    Extra(
                        tuple(name for name, _ in extra), tuple(converter.texts(cells[n]) for _, n in extra)
                    )
                )
            elif column.position is None:
                values.append(arrow_nulls(column.kind, count))
            else:
                found, wrong = converter.convert(cells[column.position], column.kind)
                values.append(found)
                for n in np.flatnonzero(wrong).tolist():
                    reasons.setdefault(
                        int(numbers[n]), self._says_value(column, cells[column.position][n].as_py())
                    )
                if column.kind.is_required and found.null_count:
                    for n in np.flatnonzero(~valid(found)).tolist():
                        reasons.setdefault(int(numbers[n]), f"column {column.name} is empty")
        bodies = encode(values, [column.kind for column in self.columns], count)
        sizes = pc.binary_length(bodies)
        for n in np.flatnonzero(mask(pc.greater(sizes, self.max_value_bytes))).tolist():
            reasons.setdefault(
                int(numbers[n]),
                f"too large: the record's value has {sizes[n].as_py()} bytes, the topic takes "
                f"{self.max_value_bytes}{self.limit}",
            )
        return bodies

    @staticmethod
    def _says_value(column: Column, cell: str) -> str:
        shown = cell if len(cell) <= MAX_CELL else f"{cell[:MAX_CELL]}…"
        return f"column {column.name}: '{shown}' is not {column.kind.title}"


def _mask(numbers: np.ndarray, count: int) -> Mask:
    found = np.zeros(count, bool)
    found[numbers] = True
    return found
