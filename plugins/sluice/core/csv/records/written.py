"""How cells are written in their file, which their texts do not tell: in quotes, with escapes."""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sluice.core.csv.form import Dialect
from sluice.core.csv.records.cut import Records
from sluice.core.csv.records.quotes import Ints, Mask

_BLANKS = b" \t"


def without_escapes(text: str, escape: str) -> str:
    """The text of a cell that is written so."""
    return re.sub(re.escape(escape) + "(.?)", r"\1", text, flags=re.DOTALL) if escape else text


class WrittenCells:
    """Cells of some records (``numbers``) of a block."""

    def __init__(self, records: Records, numbers: Ints, dialect: Dialect) -> None:
        self._records, self._numbers, self._dialect = records, numbers, dialect

    @cached_property
    def _first(self) -> Ints:
        """The place of each record's first separator."""
        return np.searchsorted(self._records.separators, self._records.starts[self._numbers])

    def are(self, text: str, position: int, rows: Ints, with_quoted: bool, trim: bool) -> Mask:
        """Which of the ``rows`` (of the cells' records) have a cell in this column that is written as
        ``text``. ``with_quoted``: between quotes too; ``trim``: also with blanks around."""
        chars, dialect = self._records.chars, self._dialect
        starts, ends = self._bounds(position, rows)
        if not dialect.quote:
            return _equal(chars, starts, ends, text.encode(), trim)
        last = len(chars) - 1
        is_quoted = (chars[np.minimum(starts, last)] == ord(dialect.quote)) & (ends > starts)
        found = ~is_quoted & _equal(chars, starts, ends, text.encode(), trim)
        if with_quoted:
            doubled = text.replace(dialect.quote, dialect.quote * 2).encode()
            found |= is_quoted & _equal(chars, starts + 1, ends - 1, doubled, trim)
        return found

    def _bounds(self, position: int, rows: Ints) -> tuple[Ints, Ints]:
        records, numbers = self._records, self._numbers[rows]
        separators, first = records.separators, self._first[rows]
        starts = separators[first + position - 1] + 1 if position else records.starts[numbers]
        ends = records.ends[numbers].copy()
        more = records.widths[numbers] > position + 1
        ends[more] = separators[first[more] + position]
        return starts, ends


def _equal(chars: NDArray[np.uint8], starts: Ints, ends: Ints, text: bytes, trim: bool) -> Mask:
    if trim:
        starts, ends = _trimmed(chars, starts.copy(), ends.copy())
    found: Mask = ends - starts == len(text)
    for offset, char in enumerate(text):
        found &= chars[np.minimum(starts + offset, len(chars) - 1)] == char
    return found


def _trimmed(chars: NDArray[np.uint8], starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    is_blank = np.zeros(256, bool)
    is_blank[list(_BLANKS)] = True
    last = len(chars) - 1
    while (more := (starts < ends) & is_blank[chars[np.minimum(starts, last)]]).any():
        starts += more
    while (more := (starts < ends) & is_blank[chars[np.clip(ends - 1, 0, last)]]).any():
        ends -= more
    return starts, ends
