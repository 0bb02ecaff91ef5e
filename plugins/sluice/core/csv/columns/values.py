"""Texts of a column as values of its type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.csv.columns import kinds, numbers, times
from sluice.core.csv.columns.kinds import Kind
from sluice.core.csv.columns.numbers import mask, trimmed, valid
from sluice.core.csv.columns.patterns import Pattern, patterns
from sluice.core.csv.form import Rules
from sluice.core.csv.records.quotes import Ints, Mask
from sluice.core.csv.records.written import without_escapes

# Which of these rows have a cell that is written as a text, perhaps with blanks around.
IsWritten = Callable[[str, Ints, bool], Mask]


@dataclass
class Converter:
    """Reads columns by ``rules``. Text in, values out: null for a null, and which texts are no value. Of
    cells with quotes or escapes, ``is_written`` tells how they stand in the file; without it they have
    none."""

    rules: Rules
    escape: str = ""
    _patterns: dict[str, list[Pattern]] = field(default_factory=dict)

    def convert(
        self, cells: pa.StringArray, kind: Kind, is_written: IsWritten | None = None
    ) -> tuple[pa.Array, Mask]:
        texts = self._nulls(cells, kind.name, is_written)
        given = valid(texts)
        values, wrong = self._values(texts, kind)
        return values, wrong & given

    def texts(self, cells: pa.StringArray, is_written: IsWritten | None = None) -> pa.StringArray:
        """The texts of an extra column."""
        return self._nulls(cells, kinds.TEXT, is_written)

    def _nulls(self, cells: pa.StringArray, kind: str, is_written: IsWritten | None) -> pa.StringArray:
        is_text = kind in (kinds.TEXT, kinds.ENUM)
        is_trimmed = is_text and self.rules.trim
        if is_trimmed:
            cells = pc.utf8_trim(cells, " \t")
        is_null = [self._is_null(cells, text, is_written, is_trimmed) for text in self.rules.null_texts]
        if kind != kinds.TEXT:
            # An empty cell can be a text alone.
            is_null.append(_are(cells, ""))
        found = _without(cells, is_null)
        if not is_text and self._has_blanks(found):
            # So are blanks, and a null's text with blanks around.
            bare = trimmed(found)
            found = _without(
                bare, [self._is_null(bare, text, is_written, True) for text in self.rules.null_texts]
            )
        return found

    def _is_null(
        self, texts: pa.StringArray, null: str, is_written: IsWritten | None, is_trimmed: bool
    ) -> pa.BooleanArray:
        """Which of these texts are of cells that are written as a null. An empty cell is one in quotes
        too."""
        if not null:
            return _are(texts, null)
        if is_written is None:
            # A text with an escape is written with one.
            return _are(texts, null) if not self.escape or self.escape not in null else _NONE
        found = mask(_are(texts, without_escapes(null, self.escape)))
        rows = np.flatnonzero(found)
        found[rows] = is_written(null, rows, is_trimmed)
        return pa.array(found)

    @staticmethod
    def _has_blanks(texts: pa.StringArray) -> bool:
        data = numbers.texts_data(texts)
        return b" " in data or b"\t" in data

    def _values(self, texts: pa.StringArray, kind: Kind) -> tuple[pa.Array, Mask]:
        name, none = kind.name, np.zeros(len(texts), bool)
        if name == kinds.TEXT:
            return texts, none
        if name == kinds.ENUM:
            found = pc.index_in(texts, pa.array(kind.symbols, pa.string()))
            return found, ~valid(found)
        if name == kinds.BOOLEAN:
            return self._booleans(texts)
        if name in (kinds.DATE, kinds.LOCAL_TIME, kinds.INSTANT):
            return self._times(texts, kind)
        wrong = none
        if self.rules.decimal_comma:
            wrong = mask(pc.match_substring(texts, "."))
            texts = pc.replace_substring(texts, ",", ".", max_replacements=1)
        values, no_number = self._numbers(texts, kind)
        return values, wrong | no_number

    def _numbers(self, texts: pa.StringArray, kind: Kind) -> tuple[pa.Array, Mask]:
        if kind.name == kinds.INT:
            return numbers.integers(texts, 32)
        if kind.name == kinds.LONG:
            return numbers.integers(texts, 64)
        if kind.name == kinds.DECIMAL:
            return numbers.decimals(texts, kind.precision, kind.scale)
        return numbers.floats(texts, _ARROW[kind.name])

    def _booleans(self, texts: pa.StringArray) -> tuple[pa.Array, Mask]:
        lower = pc.utf8_lower(pc.utf8_trim(texts, " \t"))
        is_true = pc.is_in(lower, pa.array(self.rules.true_texts, pa.string()))
        is_false = pc.is_in(lower, pa.array(self.rules.false_texts, pa.string()))
        found = pc.if_else(texts.is_valid(), is_true, pa.scalar(None, pa.bool_()))
        return found, ~mask(pc.or_(is_true, is_false))

    def _times(self, texts: pa.StringArray, kind: Kind) -> tuple[pa.Array, Mask]:
        found, wrong = times.timestamps(texts, self._formats(kind))
        given = valid(texts)
        if kind.name == kinds.DATE:
            return pa.array((found // times.DAY).astype(np.int32), pa.int32(), mask=~given), wrong
        wrong = wrong | (found % kind.unit != 0)
        return pa.array(found // kind.unit, pa.int64(), mask=~given), wrong

    def _formats(self, kind: Kind) -> Sequence[Pattern]:
        """Patterns that tell what the type has: a date no clock, an instant a zone, a local time none."""
        if kind.name not in self._patterns:
            all_of_them = [one for text in self.rules.time_formats for one in patterns(text)]
            if kind.name == kinds.DATE:
                chosen = [one for one in all_of_them if not one.has_clock]
            else:
                chosen = [one for one in all_of_them if one.has_zone == (kind.name == kinds.INSTANT)]
            self._patterns[kind.name] = chosen
        return self._patterns[kind.name]


_NONE = pa.scalar(False)


def _are(cells: pa.StringArray, text: str) -> pa.BooleanArray:
    return pc.equal(cells, text) if text else pc.equal(pc.binary_length(cells), 0)


def _without(cells: pa.StringArray, is_null: Sequence[pa.BooleanArray]) -> pa.StringArray:
    """Null in the place of some cells."""
    for one in is_null:
        cells = pc.if_else(one, pa.scalar(None, pa.string()), cells)
    return cells


_ARROW = {
    kinds.BOOLEAN: pa.bool_(),
    kinds.INT: pa.int32(),
    kinds.LONG: pa.int64(),
    kinds.FLOAT: pa.float32(),
    kinds.DOUBLE: pa.float64(),
    kinds.DATE: pa.int32(),
    kinds.LOCAL_TIME: pa.int64(),
    kinds.INSTANT: pa.int64(),
    kinds.ENUM: pa.int32(),
    kinds.TEXT: pa.string(),
}


def arrow_nulls(kind: Kind, count: int) -> pa.Array:
    """A column that the file does not have."""
    decimal = kind.name == kinds.DECIMAL
    return pa.nulls(count, pa.decimal128(kind.precision, kind.scale) if decimal else _ARROW[kind.name])
