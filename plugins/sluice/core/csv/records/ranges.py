"""One file read by several: which rows begin in a range of its bytes, with their numbers and lines.

Where a range begins, only what is before it tells whether a quote is open. So each range is read from a
guess: the first line end behind its begin that is not in quotes, as these are most likely meant. It notes
where its first row begins, and the row behind its last one. A guess is right if that is where the range
before it found the next row; a wrong one is read again from there. So no guess counts that was not found to
be true from the file's begin on, whatever its quotes, escapes and comments are.

``Start.of`` finds the header, ``ranges`` cuts, ``facts`` reads a range, ``wrong_guess`` says which to read
again, ``combine`` gives the parts, and ``blocks_of`` the records of one.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import numpy as np

from sluice.core.csv.form import ENCODINGS, Dialect, Form
from sluice.core.csv.records.blocks import Block, Counted, blocks, first_record
from sluice.core.csv.records.cut import Records, is_crlf, line_breaks
from sluice.core.csv.records.encodings import as_utf8, part_as_utf8
from sluice.core.csv.records.line_ends import UncertainRecords
from sluice.core.csv.records.quotes import CR, are_regular, is_odd, shown

# Read in front of a range: the line end before its first byte.
_OVERLAP = 2
# Least and most bytes that are read for a guess.
_PROBE = 64 << 10
_LONGEST = 4 << 20


@dataclass(frozen=True)
class Start:
    """Where a file's rows begin: at ``byte``, in the 1-based ``line``. ``encoding``: the file's, by its
    byte-order mark if it has one; ``end``: how the header ends, or b""."""

    byte: int
    encoding: str
    line: int = 1
    end: bytes = b""

    @classmethod
    def of(cls, head: bytes, form: Form) -> Start | None:
        """``head``: the first bytes of a file as it is stored, not packed. None if they have no whole header,
        or the file has two bytes a character: it cannot be read in ranges."""
        if ENCODINGS[form.encoding].startswith("utf-16") or head.startswith(
            (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        ):
            return None
        is_marked = head.startswith(codecs.BOM_UTF8)
        encoding = "utf-8" if is_marked else form.encoding
        if form.names:
            return cls(len(codecs.BOM_UTF8) if is_marked else 0, encoding)
        found = first_record(as_utf8([head], form.encoding), form.dialect, len(head))
        # What ends with these bytes may go on, also a CR.
        if found is None or not found.end or (found.end == b"\r" and not found.behind):
            return None
        behind = found.behind if encoding == "utf-8" else found.behind.decode("utf-8", "surrogatepass")
        return cls(len(head) - len(behind), encoding, found.line, found.end)


@dataclass(frozen=True)
class Range:
    """Bytes [start, stop) of a file. Its rows are those that begin there."""

    start: int
    stop: int

    @property
    def read_from(self) -> int:
        """The byte from which it is read for a guess."""
        return max(self.start - _OVERLAP, 0)


def ranges(start: Start, size: int, most: int) -> list[Range]:
    """Ranges of the rows of a file of ``size`` bytes, each of at most ``most``. One at least."""
    count = max(-(-(size - start.byte) // most), 1)
    cuts = [start.byte + (size - start.byte) * number // count for number in range(count + 1)]
    return [Range(*bounds) for bounds in pairwise(cuts)]


@dataclass(frozen=True)
class Facts:
    """What was read of a range: ``of`` which.

    ``first``: the byte at which its first row begins, if the guess is right; None: none was found.
    ``following``: where the first row behind the range begins, or the file's end. ``rows``: their number.
    ``lines``: those from the first row to the following one. ``before``: those in front of the first row.
    ``end``: how the first row ends. ``is_uncertain``: no one can tell how many rows it has.
    """

    of: Range
    first: int | None = None
    following: int = 0
    rows: int = 0
    lines: int = 0
    before: int = 0
    end: bytes = b""
    is_uncertain: bool = False


def facts(
    chunks: Iterable[bytes], of: Range, dialect: Dialect, width: int, begin: int | None = None
) -> Facts:
    """Read a range. ``begin``: the byte at which a row of it is known to begin, or None to guess. ``chunks``:
    the file's bytes as they are stored, from ``begin``, or ``of.read_from``, to its end; of those
    behind its last row a block is read at most. ``width``: the header's number of columns."""
    source = iter(chunks)
    found, known = Facts(of), begin
    if begin is None:
        data, at = _guessed(source, of, dialect)
        if at is None:
            return found
        begin, source = of.read_from + at, chain([data[at:]], source)
    counted, has_rows = Counted(source), False
    found = replace(found, first=known)
    try:
        for block in blocks(counted, dialect, width, 0):
            starts = begin + block.at + block.records.starts
            if not has_rows:
                has_rows, found = True, replace(found, first=int(starts[0]), before=block.line_of(0))
            own = int(np.searchsorted(starts, of.stop))
            found = replace(found, rows=found.rows + own, end=found.end or _first_end(block.records))
            if own < len(starts):
                lines = block.line_of(own) - found.before
                return replace(found, following=int(starts[own]), lines=lines)
    except UncertainRecords:
        return replace(found, is_uncertain=True)
    return replace(found, first=found.first if has_rows else None, following=begin + counted.size)


def _first_end(records: Records) -> bytes:
    """How the first record ends that is complete."""
    sizes = records.nexts - records.ends
    number = int(np.argmax((sizes == 1) | (sizes == 2)))
    end = records.data[records.ends[number] : records.nexts[number]]
    return end if len(end) <= 2 else b""


def _guessed(source: Iterator[bytes], of: Range, dialect: Dialect) -> tuple[bytes, int | None]:
    """Bytes that were read, and where in them a row begins."""
    data, least, own = b"", _PROBE, of.start - of.read_from
    for chunk in source:
        data += chunk
        if len(data) < least:
            continue
        if (at := _guess(data, dialect, own)) is not None:
            return data, at
        if len(data) > min(_LONGEST, of.stop - of.read_from):
            return data, None
        least = 2 * len(data)
    return data, _guess(data, dialect, own)


def _guess(data: bytes, dialect: Dialect, own: int) -> int | None:
    """Where in ``data`` the first record from ``own`` on begins most likely."""
    text = shown(data, dialect, is_end=False)
    chars = np.frombuffer(text, np.uint8)
    ends = line_breaks(text, chars, np.zeros(0, np.int64))
    if len(ends) and ends[-1] == len(data) - 1 and data[-1] == CR:
        ends = ends[:-1]
    if dialect.quote and dialect.quote.encode() in data:
        quotes = np.flatnonzero(chars == ord(dialect.quote))
        is_inside = not are_regular(chars, quotes[0::2], quotes[1::2], dialect) and are_regular(
            chars, quotes[1::2], quotes[0::2], dialect
        )
        ends = ends[is_odd(len(data), quotes)[ends] == is_inside]
    begins = ends + 1 + is_crlf(chars, ends)
    begins = begins[begins >= own]
    return int(begins[0]) if len(begins) else None


def wrong_guess(found: Sequence[Facts]) -> tuple[int, int] | None:
    """Which of a file's ranges, in their order, is to be read again, and the byte at which its first row
    begins; ask again after that. None if all are right. The first is read from a known begin."""
    following: int | None = None
    for number, one in enumerate(found):
        if following is not None:
            if following >= one.of.stop:
                continue
            if one.first != following:
                return number, following
        if one.is_uncertain:
            return None
        following = one.following
    return None


@dataclass(frozen=True)
class Part:
    """Rows of a file that stand together.

    ``start``, ``stop``: their bytes, as the file is stored; ``row``: the 0-based number of the first;
    ``rows``: how many; ``line``: the 1-based line at which the first begins; ``end``: how the header ends, or
    the file's first row, for ``LineEnds``; ``encoding``: the file's.
    """

    start: int
    stop: int
    row: int
    rows: int
    line: int
    end: bytes
    encoding: str


def combine(found: Sequence[Facts], start: Start) -> list[Part]:
    """The parts of a file, of ranges without a :func:`wrong_guess`. Empty if it has no row, or rows that no
    one can count: then it is to be read as one, which says where."""
    parts = list[Part]()
    row, line, end = 0, start.line + found[0].before, start.end
    following = found[0].first
    for one in found:
        if following is None or following >= one.of.stop:
            continue
        if one.is_uncertain:
            return []
        end = end or one.end
        parts.append(Part(following, one.following, row, one.rows, line, end, start.encoding))
        row, line, following = row + one.rows, line + one.lines, one.following
    return parts


def blocks_of(
    chunks: Iterable[bytes], part: Part, dialect: Dialect, width: int
) -> Iterator[tuple[Block, int]]:
    """The records of a part, each block with the 0-based row of its first. ``chunks``: its bytes, as they are
    stored. Raises UncertainRecords, and ArithmeticError if it has another number of rows."""
    row = part.row
    for block in blocks(part_as_utf8(chunks, part.encoding), dialect, width, part.line):
        yield block, row
        row += len(block.records)
    if row != part.row + part.rows:
        raise ArithmeticError(
            f"bytes {part.start} to {part.stop} have {row - part.row} rows where {part.rows} were counted. "
            "Fix: load the file again; report it, with the file, if that fails too"
        )
