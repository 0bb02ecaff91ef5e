"""What is between quotes or behind an escape: there, separators and line breaks are characters of a cell.

A quote opens a cell only at its begin; elsewhere it is a character. So whether a separator is one depends on
all quotes before it in its record. Usually all quotes are regular, and the odd ones open, the even ones
close: that is checked for each of them at once. Otherwise they are walked through one by one. Both give the
same spans (``tests/unit/core/csv/records/test_cut.py``), and all that follows is one path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sluice.core.csv.form import ANY, LINE_ENDS, ONLY_CR, ONLY_CRLF, Dialect

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]

LF, CR = 10, 13
# In the place of line breaks that end no line: no text of UTF-8 has them.
HIDDEN_CR, HIDDEN_LF = b"\xff", b"\xfe"


@dataclass(frozen=True)
class Quoted:
    """Spans between quotes: ``opens``, ``closes`` are the positions of the quotes, ``escaped`` of characters
    behind an escape. ``broken``: of quotes that close a cell which goes on; ``is_open``: the last span, or
    escape, has no end."""

    opens: Ints
    closes: Ints
    escaped: Ints
    broken: Ints
    is_open: bool


def shown(data: bytes, dialect: Dialect, is_end: bool) -> bytes:
    """The data, in which all line breaks that are left end a line, unless they are in quotes. The others are
    hidden, as one byte too. ``is_end``: nothing follows, so a CR is not that of a CRLF."""
    if dialect.line_ends == ANY:
        return data
    if dialect.line_ends == ONLY_CR:
        return data.replace(b"\n", HIDDEN_LF)
    if dialect.line_ends == ONLY_CRLF:
        data = re.sub(rb"(?<!\r)\n", HIDDEN_LF, data)
    return re.sub(rb"\r(?!\n)" if is_end else rb"\r(?=[^\n])", HIDDEN_CR, data)


def quoted_spans(data: bytes, chars: NDArray[np.uint8], dialect: Dialect) -> Quoted:
    none = np.zeros(0, np.int64)
    quote = dialect.quote.encode()
    if _has_others(data, dialect):
        return walked_spans(data, dialect)
    if not quote or quote not in data:
        return Quoted(none, none, none, none, False)
    quotes = np.flatnonzero(chars == quote[0])
    opens, closes = quotes[0::2], quotes[1::2]
    around = np.zeros(256, bool)
    around[[LF, CR, ord(dialect.separator), quote[0]]] = True
    # Only the first may be the data's begin, only the last its end.
    before = (opens if opens[0] else opens[1:]) - 1
    behind = (closes[:-1] if len(closes) and closes[-1] == len(chars) - 1 else closes) + 1
    if not (around[chars[before]].all() and around[chars[behind]].all()):
        return walked_spans(data, dialect)
    is_open = len(opens) > len(closes)
    return Quoted(opens, np.append(closes, len(chars)) if is_open else closes, none, none, is_open)


def _has_others(data: bytes, dialect: Dialect) -> bool:
    """Whether there are other marks than quotes."""
    if dialect.escape and dialect.escape.encode() in data:
        return True
    comment = dialect.comment.encode()
    return bool(comment) and (data.startswith(comment) or b"\n" + comment in data or b"\r" + comment in data)


@cache
def _marks(dialect: Dialect) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """What changes the meaning of the characters behind it, outside of quotes, and the rest of a quoted
    cell."""
    quote, escape = (re.escape(char.encode()) for char in (dialect.quote, dialect.escape))
    marks = [quote] if quote else []
    pair = b""
    if escape:
        marks.append(escape)
        # Nothing is behind one at the end of the data.
        pair = b"|" + escape + b".?"
    if dialect.comment:
        marks.append(rb"(?:\A|(?<=[\r\n]))" + re.escape(dialect.comment.encode()))
    rest = rb"(?:[^" + quote + escape + b"]|" + quote + quote + pair + b")*+" if quote else b""
    return re.compile(b"|".join(marks) or rb"(?!)"), re.compile(rest, re.DOTALL)


def walked_spans(data: bytes, dialect: Dialect) -> Quoted:
    """As :func:`quoted_spans`, one mark after the other."""
    marks, rest = _marks(dialect)
    quote, escape = dialect.quote.encode(), dialect.escape.encode()
    around = f"{dialect.separator}{LINE_ENDS}".encode()
    opens, closes, escaped, broken = list[int](), list[int](), list[int](), list[int]()
    at, is_open, last_escaped = 0, False, -1
    while found := marks.search(data, at):
        mark, at = found.start(), found.end()
        char = data[mark : mark + 1]
        # An escaped line break begins no line, an escaped separator no cell.
        begins = mark == 0 or (data[mark - 1] in around and mark - 1 != last_escaped)
        if char == escape:
            is_open = at == len(data)
            if not is_open:
                escaped.append(at)
                last_escaped, at = at, at + 1
        elif char == quote:
            if not begins:
                continue
            end = _end(rest, data, at)
            opens.append(mark)
            closes.append(end)
            escaped += _escapes(data, at, end, quote, escape)
            if end == len(data):
                is_open = True
                break
            at = end + 1
            if at < len(data) and data[at] not in around:
                broken.append(end)
                # That character is itself, also if it is an escape.
                at += 1
        elif begins:
            at = _line_end(data, at)
    arrays = [np.array(positions, np.int64) for positions in (opens, closes, escaped, broken)]
    return Quoted(arrays[0], arrays[1], arrays[2], arrays[3], is_open)


def _end(rest: re.Pattern[bytes], data: bytes, at: int) -> int:
    found = rest.match(data, at)
    return found.end() if found else at


def _escapes(data: bytes, start: int, end: int, quote: bytes, escape: bytes) -> list[int]:
    if not escape or escape not in data[start:end]:
        return []
    pairs = re.compile(re.escape(escape) + b".", re.DOTALL)
    return [found.start() + 1 for found in pairs.finditer(data, start, end)]


def _line_end(data: bytes, at: int) -> int:
    ends = [end for end in (data.find(b"\n", at), data.find(b"\r", at)) if end >= 0]
    return min(ends, default=len(data))


@cache
def _cell(dialect: Dialect) -> re.Pattern[bytes]:
    quote, escape, separator = (
        re.escape(char.encode()) for char in (dialect.quote, dialect.escape, dialect.separator)
    )
    pair = b"|" + escape + b".?" if escape else b""
    text = b"((?:[^" + separator + escape + b"]" + pair + b")*+)"
    inside = b"(?:" + quote + b"((?:[^" + quote + escape + b"]|" + quote + quote + pair + b")*+)"
    inside += b"(?:" + quote + b"([^" + separator + b"]?))?)?"
    return re.compile((inside if quote else b"()()") + text, re.DOTALL)


def cells_of(text: bytes, dialect: Dialect) -> list[bytes]:
    """The cells of one record, of any form: for messages and headers, one record at a time."""
    found, at = list[bytes](), 0
    while True:
        match = _cell(dialect).match(text, at)
        if match is None:  # each of its parts may be empty
            raise ValueError(f"no cell at {at} of {text!r}")
        inner, behind, rest = match[1] or b"", match[2] or b"", match[3]
        inner, rest = _plain(dialect, True).sub(_meant, inner), _plain(dialect, False).sub(_meant, rest)
        found.append(inner + behind + rest)
        at = match.end() + 1
        if match.end() >= len(text):
            return found


@cache
def _plain(dialect: Dialect, is_quoted: bool) -> re.Pattern[bytes]:
    quote, escape = (re.escape(char.encode()) for char in (dialect.quote, dialect.escape))
    pairs = [escape + b"(.?)"] if escape else []
    if quote and is_quoted:
        pairs.append(quote + b"(" + quote + b")")
    return re.compile(b"|".join(pairs) or rb"(?!)", re.DOTALL)


def _meant(pair: re.Match[bytes]) -> bytes:
    return next((group for group in pair.groups() if group is not None), b"")
