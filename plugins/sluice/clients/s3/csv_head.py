"""The first bytes of a CSV object, read as its producer will read them: what is refused before anything is
sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from sluice.clients.s3.csv_rows import readable
from sluice.clients.s3.unpacking import UNPACKING_ERRORS, unpacked
from sluice.config.sending_rules import MAX_REQUEST_BYTES
from sluice.core.csv.advice import CELL, NULLS
from sluice.core.csv.columns.kinds import TEXT
from sluice.core.csv.form import Form
from sluice.core.csv.header import HEADER_BYTES, InvalidHeader, names_of, preamble_hint, same
from sluice.core.csv.layout import MAX_COLUMNS, Layout, Rows
from sluice.core.csv.records.blocks import begin, check_quotes
from sluice.core.csv.records.cut import Records, cut
from sluice.core.csv.records.encodings import as_utf8, no_single_bytes, no_utf16, which_utf16
from sluice.core.csv.records.line_ends import LineEnds, UncertainRecords
from sluice.core.csv.records.quotes import cells_of
from sluice.core.csv.summary import Rejected, each_reason, summary
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.messages import quoted

if TYPE_CHECKING:
    from sluice.config.csv_reading import CsvReading

# How much of an object is tried before it is loaded, and the fewest rows that tell something.
HEAD_BYTES = HEADER_BYTES
MIN_SAMPLE = 10
SAMPLE_BYTES = 256 * 1024
# Small, because gzip may make a thousand times as much of it.
CHUNK_BYTES = 64 * 1024
# All that a file needs at once, for one that lacks more than one thing.
_INFERS = "All of [csv] is inferred by sluice new-stream NAME --from FILE --no-load"


def check_head(body: Any, name: str, reading: CsvReading | None, is_whole: bool) -> None:
    """Check the first bytes of a CSV as its producer will read them, before anything is sent.

    ``reading``: of its stream; None: only that there is a header. ``is_whole``: the body has all of it.
    Raises Refused if it has no header, or one that does not fit the schema, and if each of its first rows, of
    MIN_SAMPLE at least, would be rejected: with the most frequent reasons, and what would accept them.
    """
    form = reading.form if reading else Form()
    with readable(name):
        chunks = _begin(body, name, form, is_whole)
        found = begin(chunks, form, HEADER_BYTES)
        if found is None:
            raise Refused(
                f"{name}: no header line of at most {HEADER_BYTES} bytes. Fix: upload the file with one, "
                "leave it out, or declare [csv] names",
                ErrorCode.INVALID_HEADER,
            )
        if reading is None:
            return
        try:
            names = form.names or names_of(found.record, form.dialect, name)
            layout = reading.layout(names, name, MAX_REQUEST_BYTES)
        except InvalidHeader as error:
            hint = ""
            if not form.names:
                hint = preamble_hint(found.record, found.behind, found.line, form.dialect)
            raise Refused(f"{error}{hint}. {_INFERS}", ErrorCode.INVALID_HEADER) from error
        sample, is_end = found.behind, False
        while len(sample) < SAMPLE_BYTES and not is_end:
            chunk = next(chunks, b"")
            sample, is_end = sample + chunk, not chunk
        records = cut(sample, form.dialect, is_end and is_whole, layout.width)
        _check_no_zeros(records, form, name)
        try:
            LineEnds(form.dialect, found.end).check(records, 0, found.line)
            check_quotes(records, found.line)
        except UncertainRecords as error:
            raise Refused(f"{name}: {error}; nothing was sent", ErrorCode.CORRUPT_OBJECT) from error
        rows = layout.rows(records)
        _check_no_header(records, rows, layout, form, name)
        if len(records) >= MIN_SAMPLE and not rows.is_good.any():
            reasons = [
                Rejected(row, reason, found.line + int(records.lines[row]))
                for row, reason in rows.reasons.items()
            ]
            raise Refused(
                f"{name}: each of the first {len(records)} rows would be rejected: "
                f"{'; '.join(summary(reasons, reading.declared))}; nothing was sent. {_INFERS}",
                ErrorCode.ROWS_REJECTED,
            )


def _begin(body: Any, name: str, form: Form, is_whole: bool) -> Iterator[bytes]:
    chunks = _unpacked_begin(body, is_whole)
    first = list[bytes]()
    while sum(map(len, first)) < SAMPLE_BYTES and (chunk := next(chunks, b"")):
        first.append(chunk)
    problem = no_utf16(b"".join(first[:1]), form.encoding, len(form.names) > 1)
    if problem := problem or no_single_bytes(b"".join(first), form.encoding):
        raise Refused(
            f"{name}: {problem}, and [csv] encoding is {form.encoding!r}; nothing was sent. "
            "Fix: declare the file's, or save the file in that one",
            ErrorCode.CORRUPT_OBJECT,
        )
    yield from as_utf8(chain(first, chunks), form.encoding)


def _unpacked_begin(body: Any, is_whole: bool) -> Iterator[bytes]:
    try:
        yield from unpacked(body, CHUNK_BYTES)
    except UNPACKING_ERRORS:
        # A part of packed data ends like truncated ones.
        if is_whole:
            raise


def _check_no_zeros(records: Records, form: Form, name: str) -> None:
    """Raises Refused if the first row of a file whose columns are declared has UTF-16's zeros, which the
    names in a header tell of other files."""
    if form.names and len(records) and b"\0" in records[0]:
        raise Refused(
            f"{name}: the first row has zeros, as UTF-16 has, and [csv] encoding is {form.encoding!r}. "
            f'Fix: declare "{which_utf16(records[0])}"',
            ErrorCode.CORRUPT_OBJECT,
        )


def _check_no_header(records: Records, rows: Rows, layout: Layout, form: Form, name: str) -> None:
    """Raises Refused if the first row of a file whose columns are declared is a header."""
    if not form.names or not len(records):
        return
    cells = [cell.decode("utf-8", "replace").strip() for cell in cells_of(records[0], form.dialect)]
    names = {same(cell) for cell in cells}
    if form.dialect.trailing_empty:
        names.discard("")
    if names == set(map(same, form.names)) or _names_columns(cells, rows, layout):
        raise Refused(
            f"{name}: its first row is a header, {quoted(', '.join(cells))}, and [csv] names declares the "
            "columns; nothing was sent. Fix: remove [csv] names, or declare "
            f"skip_lines = {form.skip_lines + 1}, if all files of the stream have a header; else remove this "
            "one's",
            ErrorCode.INVALID_HEADER,
        )


def _names_columns(cells: Sequence[str], rows: Rows, layout: Layout) -> bool:
    """Whether the first row has a word in each column that can have none, of two at least, and is the only
    one that is wrong."""
    typed = [one.position for one in layout.columns if one.position is not None and one.kind.name != TEXT]
    if len(cells) != layout.width or len(rows.is_good) < MIN_SAMPLE or not rows.is_good[1:].all():
        return False
    reasons = each_reason(rows.reasons.get(0, ""))
    words = {cells[position] for position in typed}
    return (
        1 < len(typed) == len(words)
        and len(reasons) == min(len(typed), MAX_COLUMNS)
        and all(CELL.fullmatch(reason) for reason in reasons)
        and not any(re.match(r"[\W\d]", word) or word.lower() in NULLS for word in words)
    )
