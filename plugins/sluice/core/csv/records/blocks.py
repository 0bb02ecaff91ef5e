"""A file's bytes, however they come, as blocks of records; no more than a block and a record are in
memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from sluice.core.csv.form import WHITE, Dialect, Form
from sluice.core.csv.records.cut import Records, cut
from sluice.core.csv.records.line_ends import UncertainRecords
from sluice.core.csv.records.quotes import quoted_spans, shown
from sluice.core.csv.records.skipped import behind_lines

BLOCK_BYTES = 1 << 20
# A longer record is rejected, and only so many of its first bytes are kept.
MAX_RECORD_BYTES = 16 << 20


class WrongQuotes(UncertainRecords):
    """A record whose quotes are wrong and that has line breaks: it is not one row that is rejected."""

    def __init__(self, line: int, lines: int, why: str) -> None:
        super().__init__(
            f"the row that begins in line {line} has {lines} lines, since {why}. Fix: double the quotes "
            "that are "
            'text, or declare [csv] quote = "" or escape, and load the corrected file'
        )


@dataclass(frozen=True)
class Block:
    """``records``; ``line``: the 1-based line of the file at which the first record's line 0 is."""

    records: Records
    line: int

    def line_of(self, number: int) -> int:
        """The 1-based line of the file at which a record begins."""
        return self.line + int(self.records.lines[number])


class First(NamedTuple):
    """A file's first record. ``behind``: what was read behind it; ``line``: the line that begins there;
    ``end``: its line break. Record and ``end`` are empty for a file without a header."""

    record: bytes = b""
    behind: bytes = b""
    line: int = 1
    end: bytes = b""


def begin(chunks: Iterator[bytes], form: Form, most: int) -> First | None:
    """What stands before a file's rows: the lines that are skipped, and the header, unless its columns are
    declared. None without a header within ``most`` bytes behind those lines. Reads no more of ``chunks`` than
    needed."""
    behind = behind_lines(chunks, form.skip_lines, form.dialect.line_ends) if form.skip_lines else b""
    if form.names:
        return First(behind=behind, line=1 + form.skip_lines)
    found = first_record(chain([behind], chunks), form.dialect, most)
    return found and found._replace(line=found.line + form.skip_lines)


def first_record(chunks: Iterator[bytes], dialect: Dialect, most: int) -> First | None:
    """The first record that is not blank. None if there is none within ``most`` bytes. Reads no more of
    ``chunks`` than needed."""
    data, lines = b"", 0
    for chunk, is_end in _with_end(chunks):
        data += chunk
        records = cut(data, dialect, is_end)
        if len(records):
            behind = int(records.nexts[0])
            if len(records[0]) > most:
                return None
            lines += int(records.lines[0]) + _lines(records.shown[records.starts[0] : behind])
            return First(records[0], data[behind:], 1 + lines, data[records.ends[0] : behind])
        data, lines = data[records.used :], lines + records.line_count
        if len(data) > most:
            break
    return None


def blocks(chunks: Iterable[bytes], dialect: Dialect, width: int | None, line: int = 1) -> Iterator[Block]:
    """The records of a file behind its header, which begins at ``line``. ``width``: as of
    :func:`cut.cut`.

    Of a record of more than MAX_RECORD_BYTES the first ones are kept, and it is at fault. Raises
    UncertainRecords.
    """
    parts, size = list[bytes](), 0
    source = _with_end(chunks)
    for chunk, is_end in source:
        parts.append(chunk)
        size += len(chunk)
        if size < BLOCK_BYTES and not is_end:
            continue
        data = b"".join(parts)
        records = cut(data, dialect, is_end, width)
        if len(records):
            yield Block(_checked(records, line), line)
        rest, line = data[records.used :], line + records.line_count
        # With a CR that may be the end of it.
        if len(rest) > MAX_RECORD_BYTES + 1:
            _check_has_text(rest, dialect, line)
            yield Block(_too_large(rest), line)
            rest, lines, why = _behind_record(rest, source, dialect)
            if why and lines > 1:
                raise WrongQuotes(line, lines, why)
            line += lines
        parts, size = [rest], len(rest)
    if parts != [b""] and parts:
        # What followed a record that was cut at the file's end.
        records = cut(b"".join(parts), dialect, True, width)
        if len(records):
            yield Block(_checked(records, line), line)


def _with_end(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    for chunk in chunks:
        yield chunk, False
    yield b"", True


def _lines(data: bytes) -> int:
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


def _fault() -> str:
    return f"too large: the row has more than {MAX_RECORD_BYTES} bytes; these are its first"


def check_quotes(records: Records, line: int) -> None:
    """Raises WrongQuotes. ``line``: of the file, at which the records' line 0 is."""
    for number, why in records.faults.items():
        text = records.shown[records.starts[number] : records.ends[number]]
        if breaks := _lines(text.rstrip(b"\r\n")):
            raise WrongQuotes(line + int(records.lines[number]), breaks + 1, why)


def _checked(records: Records, line: int) -> Records:
    """With faults of the complete records that are too large."""
    check_quotes(records, line)
    long = np.flatnonzero(records.ends - records.starts > MAX_RECORD_BYTES)
    if not len(long):
        return records
    ends = np.minimum(records.ends, records.starts + MAX_RECORD_BYTES)
    return replace(records, ends=ends, faults={**records.faults, **{int(n): _fault() for n in long}})


def _check_has_text(data: bytes, dialect: Dialect, line: int) -> None:
    """Raises UncertainRecords if a record that is too large may be none: blank, or a comment."""
    no_text = f"{WHITE}{dialect.separator}{dialect.quote}{dialect.escape}".encode()
    is_comment = bool(dialect.comment) and data.startswith(dialect.comment.encode())
    if is_comment or not data[:MAX_RECORD_BYTES].strip(no_text):
        raise UncertainRecords(
            f"line {line} begins {'a comment' if is_comment else 'a row whose first cells are empty'}, of "
            f"more than {MAX_RECORD_BYTES} bytes. Fix: remove it"
        )


def _too_large(data: bytes) -> Records:
    """The first bytes of a record that is not complete."""
    begin, ends = np.zeros(1, np.int64), np.array([MAX_RECORD_BYTES])
    first = data[:MAX_RECORD_BYTES]
    return Records(
        first, begin, ends, ends, begin + 1, begin, 0, {0: _fault()}, len(data), True, first, begin
    )


def _behind_record(
    data: bytes, source: Iterator[tuple[bytes, bool]], dialect: Dialect
) -> tuple[bytes, int, str]:
    """Read over the rest of a record; what follows it, the number of lines that it had, and why its quotes
    are wrong."""
    lines = 0
    for chunk, is_end in source:
        data = shown(data, dialect, is_end=False)
        # Perhaps the first of a CRLF.
        body, end = (data[:-1], data[-1:]) if data.endswith(b"\r") else (data, b"")
        lines += _lines(body)
        data = _state(body, dialect) + end + chunk
        records = cut(data, dialect, is_end)
        if records.used or is_end:
            # The prefix is of this record, so it is neither blank nor a comment.
            behind = int(records.nexts[0])
            return data[behind:], lines + _lines(records.shown[:behind]), records.faults.get(0, "")
    return b"", lines, ""


def _state(data: bytes, dialect: Dialect) -> bytes:
    """A few bytes of one line behind which a parser is as behind ``data``, which ends within a record."""
    last, size = data[-1:], len(data)
    spans = quoted_spans(data, np.frombuffer(data, np.uint8), dialect)
    is_escaped = size - 1 in spans.escaped[-1:]
    # Behind a quote that closes a cell which goes on, an escape is none.
    if last == dialect.escape.encode() and not is_escaped and size - 2 not in spans.broken[-1:]:
        escape = last
    else:
        escape = b""
    if size in spans.closes[-1:]:
        return f"{dialect.quote}x".encode() + escape
    if size - 1 in spans.closes[-1:]:
        # The next byte tells whether it closes the cell.
        return f"{dialect.quote}x{dialect.quote}".encode()
    if last == dialect.separator.encode() and not is_escaped:
        return b"x" + last
    return b"x" + escape
