"""How a file's bytes seem to be cut into records and cells, and where its rows begin."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sluice.core.csv.form import ENCODINGS, ONLY_CR, ONLY_LF, Dialect
from sluice.core.csv.inferred_types import has_numbers, typed_below
from sluice.core.csv.records.cut import Records, cut
from sluice.core.csv.records.encodings import which_utf16
from sluice.core.csv.records.line_ends import LineEnds, MixedLineEnds
from sluice.core.csv.records.quotes import cells_of

if TYPE_CHECKING:
    from sluice.core.csv.inferred_types import Inferred

_SEPARATORS = (",", ";", "\t", "|")
_COMMENT = "#"
# Records that tell how wide rows are, those above a header among them.
_TRIED = 2000
# Behind others, a backslash may be one of the text.
_ESCAPED = b'"\\\r\nN'


@dataclass(frozen=True)
class _Guess:
    """``share``: of the records that are of ``dialect`` and have its ``width``, which is the usual one."""

    dialect: Dialect
    width: int
    share: float

    @property
    def rank(self) -> tuple[bool, float, int]:
        is_wide = self.width > 1
        return is_wide and self.share > 0.5, self.share if is_wide else 0, self.width


def encoding_of(raw: bytes, is_whole: bool, found: Inferred) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        return "utf-8"
    head = raw[:4096]
    zeros = [head[start::2].count(0) / max(len(head) // 2, 1) for start in (0, 1)]
    encoding = "utf-8"
    if max(zeros) > 0.4:
        encoding = which_utf16(head)
    else:
        try:
            codecs.getincrementaldecoder("utf-8")().decode(raw, final=is_whole)
        except UnicodeDecodeError:
            encoding = "windows-1252"
    if encoding != "utf-8":
        assert encoding in ENCODINGS  # noqa: S101
        found.declared["encoding"] = encoding
        found.doubts.append(f"the file is not UTF-8 and has no mark: taken for {encoding}")
    return encoding


def dialect_of(data: bytes, is_whole: bool, found: Inferred) -> Dialect:
    """The dialect of a file in UTF-8."""
    guess = _separated(data, is_whole)
    dialect = guess.dialect
    if dialect.separator != ",":
        found.declared["separator"] = dialect.separator
    if dialect.escape:
        found.declared["escape"] = dialect.escape
        known = _ESCAPED + dialect.separator.encode()
        other = next(
            (pair[0] for pair in re.finditer(rb"\\[^\x80-\xff]", data) if pair[0][1] not in known), b""
        )
        if other:
            found.doubts.append(f"a backslash is an escape, so {other.decode()!r} is {other[1:].decode()!r}")
    if data.startswith(_COMMENT.encode()):
        dialect = _with_comment(cut(data, dialect, is_whole), guess, found)
    return _with_line_ends(data, is_whole, dialect, found)


def _separated(data: bytes, is_whole: bool) -> _Guess:
    told = re.match(rb"(?i)sep=([,;\t|])[\r\n]", data)
    separators = (told[1].decode(),) if told else _SEPARATORS
    escapes = ("", "\\") if b'\\"' in data else ("",)
    guesses = []
    for dialect in (Dialect(separator=one, escape=escape) for one in separators for escape in escapes):
        records = cut(data, dialect, is_whole)
        widths = Counter(
            width for number, width in enumerate(records.widths.tolist()) if number not in records.faults
        )
        (width, count), *_ = widths.most_common(1) or [(1, 0)]
        guesses.append(_Guess(dialect, width, count / max(len(records), 1)))
    # The first of equals, so one without an escape.
    best = max(guesses, key=lambda one: one.rank)
    if told or best.rank[0]:
        return best
    one_column = [one for one in guesses if one.dialect.separator == ","]
    return max(one_column, key=lambda one: one.share)


def _with_comment(records: Records, guess: _Guess, found: Inferred) -> Dialect:
    """Whether the first lines with # are comments, or the last of them is the header."""
    dialect = guess.dialect
    rows = [_texts(records[number], dialect) for number in range(min(len(records), _TRIED))]
    count = next((number for number, row in enumerate(rows) if not row[0].startswith(_COMMENT)), len(rows))
    if count == len(rows):
        return dialect
    below = [row for row in rows[count:] if len(row) == guess.width]
    if len(rows[count - 1]) == guess.width and below:
        if has_numbers(below[0]):
            return dialect
        if not typed_below(below, dialect) and count == 1 and rows[0][0][1:2].strip():
            found.doubts.append(
                f"its first line begins with # and was taken for the header; if it is a comment, declare "
                f'comment = "{_COMMENT}"'
            )
            return dialect
    found.declared["comment"] = _COMMENT
    found.doubts.append("its first line begins with #: such lines are taken for comments")
    return replace(dialect, comment=_COMMENT)


def _with_line_ends(data: bytes, is_whole: bool, dialect: Dialect, found: Inferred) -> Dialect:
    try:
        LineEnds(dialect).check(cut(data, dialect, is_whole), 0, 1)
    except MixedLineEnds:
        ends = ONLY_LF if data.count(b"\n") > data.count(b"\r") - data.count(b"\r\n") else ONLY_CR
        found.declared["line_ends"] = ends
        found.doubts.append(
            f"some rows end with a CR alone and some do not: taken for line ends of {ends.upper()}"
        )
        return replace(dialect, line_ends=ends)
    return dialect


def lines_above_header(records: Records, dialect: Dialect) -> int:
    """How many lines are above the first record that has as many cells as rows have: titles."""
    rows = [_texts(records[number], dialect) for number in range(min(len(records), _TRIED))]
    counts = Counter(map(len, rows))
    width = max(counts, key=lambda one: (counts[one], one))
    # A spreadsheet fills lines up with empty cells.
    used = sorted(_used(row) for row in rows if len(row) == width)
    usual = used[min(int(0.95 * len(used)), len(used) - 1)]
    for number, row in enumerate(rows):
        filled = [cell for cell in row if cell]
        is_row = len(row) == width and (2 * len(filled) > usual or has_numbers(filled))
        if _used(row) >= usual or is_row:
            return int(records.lines[number]) if number else 0
    return 0


def used_width(records: Records, dialect: Dialect, width: int) -> int:
    """How many cells the first records of this many use: those behind are empty in each of them."""
    rows = (_texts(records[number], dialect) for number in range(min(len(records), _TRIED)))
    return max((_used(row) for row in rows if len(row) == width), default=width)


def _used(row: Sequence[str]) -> int:
    """The number of cells up to the last one that has a text."""
    return max((number for number, cell in enumerate(row, start=1) if cell), default=0)


def _texts(record: bytes, dialect: Dialect) -> list[str]:
    return [cell.decode("utf-8", "replace").strip() for cell in cells_of(record, dialect)]


def count_lines(data: bytes, dialect: Dialect) -> int:
    """Lines of the file in complete records."""
    return cut(data, dialect, is_end=True).line_count
