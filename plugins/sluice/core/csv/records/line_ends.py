"""Which line breaks end a record: those that are declared, or all of a file that has one kind."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.csv.form import ANY, Dialect
from sluice.core.csv.records.cut import Records
from sluice.core.csv.records.quotes import CR, HIDDEN_CR, HIDDEN_LF, LF


class UncertainRecords(ValueError):
    """No one can tell how many rows are in a part of a file, so none of it is loaded."""


class MixedLineEnds(UncertainRecords):
    """Some records end with a CR alone, and others do not."""

    def __init__(self, row: int, line: int, is_cr: bool) -> None:
        own, others = ("a CR alone", "LF or CRLF") if is_cr else ("LF or CRLF", "a CR alone")
        super().__init__(
            f"row {row} (line {line}) ends with {own}, and one before it with {others}, so one may be "
            f"a character of a cell. Fix: declare [csv] line_ends = {'lf' if is_cr else 'cr'!r}, if {own} is "
            "one; or save the file with one kind of line ends"
        )


class LineEnds:
    """Raises MixedLineEnds for a file with both, as far as its dialect does not say which ends a line.
    ``first``: how the header ends."""

    def __init__(self, dialect: Dialect, first: bytes = b"") -> None:
        self._is_any = dialect.line_ends == ANY
        self._is_cr = first == b"\r" if first else None

    def check(self, records: Records, row: int, line: int) -> None:
        """The next records; ``row``: number of the first; ``line``: where their line 0 is."""
        if not self._is_any or not len(records) or (self._is_cr is False and b"\r" not in records.data):
            return
        sizes = records.nexts - records.ends
        chars = records.chars[np.minimum(records.ends, len(records.chars) - 1)]
        # None at the end of a file, and of records that are cut since they are too large.
        has_end = (sizes >= 1) & (sizes <= 2) & ((chars == CR) | (chars == LF))
        is_cr = has_end & (sizes == 1) & (chars == CR)
        if self._is_cr is None and has_end.any():
            self._is_cr = bool(is_cr[np.argmax(has_end)])
        wrong = np.flatnonzero(has_end & (is_cr != self._is_cr))
        if len(wrong):
            number = int(wrong[0])
            raise MixedLineEnds(row + number, line + int(records.lines[number]), bool(is_cr[number]))


def with_line_breaks(texts: pa.StringArray) -> pa.StringArray:
    """Texts with the line breaks that were hidden."""
    found = texts.cast(pa.binary())
    for hidden, char in ((HIDDEN_CR, b"\r"), (HIDDEN_LF, b"\n")):
        found = pc.replace_substring(found, hidden, char)
    return found.cast(pa.string())
