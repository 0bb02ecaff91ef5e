"""Where records and their cells begin and end, and which records are malformed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sluice.core.csv.form import WHITE, Dialect
from sluice.core.csv.records.quotes import CR, LF, Ints, Mask, Quoted, cells_of, quoted_spans, shown

BEHIND_QUOTE = "text follows the quote that closes a cell"
NOT_CLOSED = "a quote opens a cell and is never closed, so the rest of the file is in it"
ENDS_ESCAPED = "an escape is the last character of the file"
# Bytes of a record's begin that tell, for most, that it is not blank.
_FIRST_BYTES = 4


@dataclass(frozen=True)
class Records:
    """The records of ``data``, a block that begins with one; blank ones and comments are none of them.

    ``starts``, ``ends``: of each, without its line break; ``nexts``: behind that. ``widths``: numbers of
    cells. ``lines``: 0-based, where each begins, counting from the block's first; ``line_count``: lines of
    all records. ``faults``: record -> why its quotes are wrong. ``used``: bytes of complete records, the rest
    of the block belongs to the next. ``is_quoted``: whether the block has quotes or escapes. ``shown``: the
    data as of :func:`quotes.shown`. ``separators``: where they are, outside of quotes.
    """

    data: bytes
    starts: Ints
    ends: Ints
    nexts: Ints
    widths: Ints
    lines: Ints
    line_count: int
    faults: dict[int, str]
    used: int
    is_quoted: bool
    shown: bytes
    separators: Ints

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def chars(self) -> NDArray[np.uint8]:
        return np.frombuffer(self.data, np.uint8)

    def __getitem__(self, number: int) -> bytes:
        return self.data[self.starts[number] : self.ends[number]]

    def behind(self, width: int) -> Ints:
        """Where the first ``width`` cells of each record end; the record's end if it has no more."""
        first = np.searchsorted(self.separators, self.starts) + width - 1
        found = self.ends.copy()
        longer = self.widths > width
        found[longer] = self.separators[first[longer]]
        return found

    def filled(self, width: int, dialect: Dialect) -> Mask:
        """Which records have text in a cell behind the first ``width``."""
        begins = self.behind(width)
        # Where there is one byte for each cell, they are separators alone.
        found: Mask = self.ends - begins != np.maximum(self.widths - width, 0)
        marks = _marks(dialect)
        for number in np.flatnonzero(found).tolist():
            rest = self.data[begins[number] : self.ends[number]]
            found[number] = bool(rest.strip(marks)) or _has_text(rest, dialect)
        return found

    def first_cells(self, chosen: Mask, width: int) -> bytes:
        """As :func:`only`, of their first ``width`` cells. The last has a line break too."""
        kept = np.zeros(len(self.shown) + 1, np.int8)
        begins = self.behind(width)[chosen]
        for starts, ends in ((self.starts[chosen], begins), (self.ends[chosen], self.nexts[chosen])):
            kept[starts] += 1
            kept[ends] -= 1
        found = np.frombuffer(self.shown, np.uint8)[np.cumsum(kept, dtype=np.int8)[:-1] > 0].tobytes()
        is_ended = not len(begins) or self.nexts[chosen][-1] > self.ends[chosen][-1]
        return found if is_ended else found + b"\n"

    def only(self, chosen: Mask) -> bytes:
        """The bytes of some records with their line breaks, as they are shown."""
        if chosen.all() and len(chosen) and (self.starts[1:] == self.nexts[:-1]).all():
            return self.shown[self.starts[0] : self.nexts[-1]]
        parts = [self.shown[start:end] for start, end in _joined(self.starts[chosen], self.nexts[chosen])]
        return b"".join(parts)

    def not_utf8(self) -> Mask:
        """Which records have bytes that are no UTF-8."""
        wrong = np.zeros(len(self), bool)
        try:
            self.data.decode()
        except UnicodeDecodeError:
            for number in range(len(self)):
                try:
                    self[number].decode()
                except UnicodeDecodeError:
                    wrong[number] = True
        return wrong


def _joined(starts: Ints, ends: Ints) -> Iterator[tuple[int, int]]:
    """Spans that touch as one."""
    if not len(starts):
        return
    breaks = np.flatnonzero(starts[1:] != ends[:-1]) + 1
    for first, last in zip([0, *breaks], [*(breaks - 1), len(starts) - 1], strict=True):
        yield int(starts[first]), int(ends[last])


def cut(data: bytes, dialect: Dialect, is_end: bool, width: int | None = None) -> Records:
    """Cut a block that begins with a record. ``is_end``: nothing follows, so the last record is complete.
    ``width``: the header's number of cells; a record of more, all of them empty, is not blank (None: it
    is)."""
    text = shown(data, dialect, is_end)
    chars = np.frombuffer(text, np.uint8)
    quoted = quoted_spans(text, chars, dialect)
    outside = _outside(len(data), quoted)
    lines = ends = _line_breaks(text, chars, quoted.escaped[:0])
    if outside is not None:
        ends = _line_breaks(text, chars, quoted.escaped) if len(quoted.escaped) else ends
        ends = ends[outside[ends]]
    if not is_end and len(ends) and ends[-1] == len(data) - 1 and data[-1] == CR:
        # Perhaps an LF follows.
        ends = ends[:-1]
    nexts = ends + 1 + _is_crlf(chars, ends)
    starts = np.concatenate([np.zeros(1, np.int64), nexts])
    if is_end and starts[-1] < len(data):
        ends, nexts = np.append(ends, len(data)), np.append(nexts, len(data))
    else:
        starts = starts[:-1]
    is_separator = chars == ord(dialect.separator)
    separators = np.flatnonzero(is_separator if outside is None else is_separator & outside)
    widths = np.diff(np.searchsorted(separators, ends), prepend=0) + 1
    used = int(nexts[-1]) if len(nexts) else 0
    return _without_blank(
        Records(
            data, starts, ends, nexts, widths,
            np.searchsorted(lines, starts),
            int(np.searchsorted(lines, used)),
            _faults(quoted, ends, is_end, len(data)),
            used,
            outside is not None,
            text,
            separators,
        ),
        dialect,
        width,
    )  # fmt: skip


def _is_crlf(chars: NDArray[np.uint8], ends: Ints) -> Mask:
    following = np.minimum(ends + 1, max(len(chars) - 1, 0))
    return (chars[ends] == CR) & (chars[following] == LF) & (ends + 1 < len(chars))


def _line_breaks(data: bytes, chars: NDArray[np.uint8], escaped: Ints) -> Ints:
    """Where lines end, also inside quotes; of a CRLF its CR."""
    if b"\r" not in data:
        found = np.flatnonzero(chars == LF)
    else:
        found = np.flatnonzero((chars == LF) | (chars == CR))
        is_second = (chars[found] == LF) & (np.diff(found, prepend=-2) == 1) & (chars[found - 1] == CR)
        if len(escaped):
            # An escaped CR does not take the LF behind it.
            is_second &= ~np.isin(found - 1, escaped)
        found = found[~is_second]
    return found


def _outside(size: int, quoted: Quoted) -> Mask | None:
    """Which bytes are neither between quotes nor escaped; None if all are."""
    if not len(quoted.opens) and not len(quoted.escaped):
        return None
    marks = np.zeros(-(-(size + 1) // 64) * 64, bool)
    marks[quoted.opens] = marks[quoted.closes] = True
    outside = ~_is_odd(marks)[:size]
    outside[quoted.escaped] = False
    return outside


def _is_odd(marks: Mask) -> Mask:
    """Whether the number of marks up to each is odd, for a multiple of 64 of them: a word at once."""
    words = np.packbits(marks, bitorder="little").view("<u8")
    for shift in (1, 2, 4, 8, 16, 32):
        words ^= words << np.uint64(shift)
    before = np.bitwise_xor.accumulate(words >> np.uint64(63))[:-1]
    words[1:] ^= np.uint64(0) - before
    return np.unpackbits(words.view(np.uint8), bitorder="little").view(bool)


def _faults(quoted: Quoted, ends: Ints, is_end: bool, size: int) -> dict[int, str]:
    found = {int(number): BEHIND_QUOTE for number in np.searchsorted(ends, quoted.broken)}
    if is_end and quoted.is_open and len(ends):
        in_quotes = len(quoted.closes) and quoted.closes[-1] == size
        found[len(ends) - 1] = NOT_CLOSED if in_quotes else ENDS_ESCAPED
    return {number: text for number, text in found.items() if number < len(ends)}


def _without_blank(records: Records, dialect: Dialect, width: int | None) -> Records:
    blank = blank_records(records, dialect, width)
    if not blank.any():
        return records
    kept = np.flatnonzero(~blank)
    number_of = {int(old): new for new, old in enumerate(kept)} if records.faults else {}
    return Records(
        records.data,
        records.starts[kept],
        records.ends[kept],
        records.nexts[kept],
        records.widths[kept],
        records.lines[kept],
        records.line_count,
        {number_of[old]: why for old, why in records.faults.items() if old in number_of},
        records.used,
        records.is_quoted,
        records.shown,
        records.separators,
    )


def _marks(dialect: Dialect) -> bytes:
    """A record of these bytes alone may be blank."""
    return f"{WHITE}{dialect.separator}{dialect.quote}{dialect.escape}".encode()


def _has_text(record: bytes, dialect: Dialect) -> bool:
    return any(cell.strip(WHITE.encode()) for cell in cells_of(record, dialect))


def blank_records(records: Records, dialect: Dialect, width: int | None) -> Mask:
    """Which have no content, or are comments."""
    most = width if width is not None and not dialect.trailing_empty else None
    chars, starts, ends = records.chars, records.starts, records.ends
    blank = starts == ends
    may_be = np.zeros(256, bool)
    marks = _marks(dialect)
    may_be[list(marks)] = True
    left = np.flatnonzero(~blank)
    if dialect.comment:
        is_comment = chars[starts[left]] == ord(dialect.comment)
        blank[left[is_comment]] = True
        left = left[~is_comment]
    for offset in range(_FIRST_BYTES):
        at = starts[left] + offset
        left = left[(at >= ends[left]) | may_be[chars[np.minimum(at, len(chars) - 1)]]]
    for number in left.tolist():
        # Most begin so, and go on with a value.
        if records[number].strip(marks):
            continue
        # Without `skip_blank`, what Python's csv takes for an empty line, or for one cell of white space.
        width = int(records.widths[number])
        if width == 1 or (dialect.skip_blank and (most is None or width <= most)):
            blank[number] = not _has_text(records[number], dialect)
    return blank
