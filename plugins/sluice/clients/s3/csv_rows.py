"""Rows of CSV objects: counted and found by Python's csv, to verify the parser of their producer.

Without a quote, a line is a record; so lines are counted as they are, and Python's csv reads those of pieces
that have quotes, escapes or comments.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from sluice.clients.s3.unpacking import UNPACKING_ERRORS, OtherFormat, corrupt_message, unpacked
from sluice.core.csv.form import ANY, ONLY_CR, ONLY_CRLF, WHITE, Dialect, Form
from sluice.core.csv.records.encodings import OtherEncoding, as_utf8, of_single_bytes
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused

BLOCK_BYTES = 1024 * 1024
# Longest cell: of a long text, Python's csv is given one character.
MAX_CELL = 32 * 1024 * 1024
# For the whole process: a limit that is set for a while is one of other threads too.
csv.field_size_limit(MAX_CELL)
# A longer line is shortened.
_LONG_LINE = 64 * 1024


def data_rows(body: Any, name: str, form: Form | None = None) -> int:
    """Count the records of a CSV after its header that are not blank (``core.csv.form.Dialect`` says which
    are).

    Raises Refused without a header, for truncated, corrupt or other data, for a cell beyond MAX_CELL, and for
    UTF-8 where an encoding of single bytes is declared.
    """
    with readable(name):
        form = form or Form()
        return _Rows(of_single_bytes(unpacked(body, BLOCK_BYTES), form.encoding), name, form).count()


def line_of_row(body: Any, row: int, name: str, form: Form | None = None) -> int | None:
    """The 1-based line at which a 0-based row begins; None if there are fewer rows. Errors as of
    :func:`data_rows`. Reads no further than the row."""
    with readable(name):
        return _Rows(unpacked(body, BLOCK_BYTES), name, form or Form()).line_of(row)


class _Rows:
    """The records of a body, by its unpacked chunks and Python's csv."""

    def __init__(self, chunks: Iterator[bytes], name: str, form: Form) -> None:
        self._form, self._dialect = form, form.dialect
        texts = as_utf8(chunks, form.encoding)
        pieces = _whole_lines(_without_others(texts, form.dialect.line_ends), form.dialect)
        self._pieces = _without_first(pieces, form.skip_lines) if form.skip_lines else pieces
        # Rows of pieces that were counted as lines.
        self._plain, self._counts_lines = 0, False
        # The lines of complete records, among those that Python's csv was given.
        self._complete = 0
        # Lines of the file: how many were read, and where the record begins that is read.
        self._line = self._begin = form.skip_lines
        self._reader = csv.reader(
            chain.from_iterable(self._parts()),
            delimiter=self._dialect.separator,
            quotechar=self._dialect.quote or None,
            quoting=csv.QUOTE_MINIMAL if self._dialect.quote else csv.QUOTE_NONE,
            escapechar=self._dialect.escape or None,
        )
        self._width = len(form.names) or self._header_width(name)

    def count(self) -> int:
        self._counts_lines = True
        rows, reader = 0, self._reader
        # As little as can be: else it takes longer than the parser.
        for record in reader:
            self._complete = reader.line_num
            if record and (cell := record[0]) and not cell.isspace():
                rows += 1
            else:
                rows += self._is_row(record)
        return rows + self._plain

    def line_of(self, row: int) -> int | None:
        for record in self._numbered():
            if self._is_row(record):
                if row == 0:
                    return self._begin
                row -= 1
        return None

    def _numbered(self) -> Iterator[list[str]]:
        """The records, of which ``_begin`` is the line."""
        for record in self._reader:
            self._complete = self._reader.line_num
            yield record

    def _header_width(self, name: str) -> int:
        for record in self._numbered():
            if any(cell.strip(WHITE) for cell in record):
                while self._dialect.trailing_empty and len(record) > 1 and not record[-1].strip():
                    record.pop()
                return len(record)
        raise Refused(
            f"{name}: no header line. Fix: upload the file with one, or leave it out",
            ErrorCode.INVALID_HEADER,
        )

    def _is_row(self, record: list[str]) -> bool:
        if any(cell.strip(WHITE) for cell in record):
            return True
        if len(record) < 2:
            return False
        is_wide = len(record) > self._width and not self._dialect.trailing_empty
        return is_wide or not self._dialect.skip_blank

    def _parts(self) -> Iterator[Iterable[str]]:
        """Lines that Python's csv reads: all, but for those that are counted here."""
        # What makes a line other than a record.
        marks = f"{self._dialect.quote}{self._dialect.escape}{self._dialect.comment}".encode()
        for piece in self._pieces:
            if (
                self._counts_lines
                and not self._is_in_record()
                and not any(bytes([mark]) in piece for mark in marks)
            ):
                self._plain += self._count_lines(piece)
            elif self._counts_lines and not self._dialect.comment:
                # Its lines end as those of _split do.
                yield io.StringIO(piece.decode("utf-8", "replace"), newline="")
            else:
                yield self._lines(piece)

    def _is_in_record(self) -> bool:
        """Whether the next line is of a record that has begun."""
        return self._reader.line_num != self._complete

    def _lines(self, piece: bytes) -> Iterator[str]:
        for line in _split(piece.decode("utf-8", "replace")):
            self._line += 1
            if not self._is_in_record():
                if self._dialect.comment and line.startswith(self._dialect.comment):
                    continue
                self._begin = self._line
            yield line

    def _count_lines(self, piece: bytes) -> int:
        separator, white = self._dialect.separator.encode(), WHITE.encode()
        lines = piece.replace(b"\r", b"\n").split(b"\n") if b"\r" in piece else piece.split(b"\n")
        blank = [line for line in lines if not line.strip(separator + white)]
        rows = len(lines) - len(blank)
        cells = (1 + line.count(separator) for line in blank if separator in line)
        return rows + sum(self._is_row([""] * count) for count in cells)


def _without_first(pieces: Iterator[bytes], count: int) -> Iterator[bytes]:
    """Pieces of whole lines without their first ``count`` lines."""
    for piece in pieces:
        if not count:
            yield piece
            continue
        lines = re.findall(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", piece)
        yield b"".join(lines[count:])
        count -= min(count, len(lines))


def _split(text: str) -> Iterator[str]:
    """Lines with their ends: LF, CRLF or CR, and no others."""
    return (found[0] for found in re.finditer(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text))


def _without_others(chunks: Iterator[bytes], line_ends: str) -> Iterator[bytes]:
    """The chunks with a blank for each line break that ends no line: rows are counted, and not read."""
    if line_ends == ANY:
        yield from chunks
        return
    others = re.compile(
        {ONLY_CR: rb"\n", ONLY_CRLF: rb"\r(?!\n)|(?<!\r)\n"}.get(line_ends, rb"\r(?!\n)"),
    )
    held = b""
    for chunk in chunks:
        data = held + chunk
        # An LF may follow.
        held = data[-1:] if data.endswith(b"\r") else b""
        yield others.sub(b" ", data[: len(data) - len(held)])
    yield others.sub(b" ", held)


def _whole_lines(chunks: Iterator[bytes], dialect: Dialect) -> Iterator[bytes]:
    """Pieces that end where lines do, each of about BLOCK_BYTES but for the last. A long line is shortened:
    text without a character that has a meaning becomes one letter."""
    parts, size = list[bytes](), 0
    meant = f"{dialect.separator}{dialect.quote}{dialect.escape}{dialect.comment}".encode()
    text = b"[^" + re.escape(meant + WHITE.encode()) + b"]"
    runs = re.compile(text + b"+(?:[ \t]+" + text + b"+)*" if b"\t" not in meant else text + b"+")
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size < BLOCK_BYTES:
            continue
        data = b"".join(parts)
        # Behind a CR, an LF may come.
        end = max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1)) + 1
        if end:
            yield data[:end]
        rest = data[end:]
        if len(rest) > _LONG_LINE:
            rest = runs.sub(b"x", rest)
        if len(rest) > MAX_CELL:
            raise csv.Error(f"a line has more than {MAX_CELL} bytes, also without its texts")
        parts, size = [rest], len(rest)
    if rest := b"".join(parts):
        yield rest


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Errors of a body that cannot be read, as Refused that name it."""
    try:
        yield
    except (OtherFormat, OtherEncoding) as error:
        raise Refused(f"{name}: {error}", ErrorCode.CORRUPT_OBJECT) from error
    except UNPACKING_ERRORS as error:
        message = f"{name}: {corrupt_message(error)}. Fix: upload the file again"
        raise Refused(message, ErrorCode.CORRUPT_OBJECT) from error
    except csv.Error as error:
        raise Refused(
            f"{name}: its rows cannot be counted: {error}. Fix: look for a quote that is not closed, "
            'correct the file, and upload it again; or declare [csv] quote = ""',
            ErrorCode.CORRUPT_OBJECT,
        ) from error
