"""What a CSV file seems to be: its form, and a column's type; and of what it is unsure.

A type is taken only if every cell of the sample is one of its values, as the producer will read them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluice.core.csv.form import Dialect
from sluice.core.csv.header import is_separator_line, same
from sluice.core.csv.inferred_form import (
    count_lines,
    dialect_of,
    encoding_of,
    lines_above_header,
    used_width,
)
from sluice.core.csv.inferred_types import Inferred, Sample, has_numbers, infer_types, typed_below
from sluice.core.csv.records.cut import Records, cut
from sluice.core.csv.records.encodings import as_utf8
from sluice.core.csv.records.quotes import cells_of
from sluice.core.csv.records.skipped import behind_lines
from sluice.core.messages import counted

SAMPLE_BYTES = 4 << 20
# With more rows of another form, the header or the separator is a wrong guess.
_MAX_ODD_SHARE = 0.05
# Lines above a header that are as wide as rows.
_MAX_TITLES = 3
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class NotInferred(ValueError):
    """A file of which no columns can be told; the text says why, and the fix."""


def infer(chunks: Iterator[bytes]) -> Inferred:
    """Infer columns and form from a file's first SAMPLE_BYTES, unpacked. Raises NotInferred."""
    of_form = Inferred()
    raw, is_whole = _sample(chunks)
    data = b"".join(as_utf8([raw], encoding_of(raw, is_whole, of_form)))
    dialect = dialect_of(data, is_whole, of_form)
    whole = cut(data, dialect, is_whole)
    if not len(whole):
        raise NotInferred("it has no row. Fix: give a file with rows")
    skipped = 1 if is_separator_line(data) else lines_above_header(whole, dialect)
    for _ in range(_MAX_TITLES):
        found = Inferred(declared=dict(of_form.declared), doubts=list(of_form.doubts))
        below = _infer_below(data, skipped, dialect, is_whole, found)
        if not below:
            _add_quoted_nulls(data, dialect, found)
            return found
        skipped += below
    raise NotInferred(
        f"its first {skipped} lines seem to be above the header. Fix: remove the lines above it"
    )


def _infer_below(data: bytes, skipped: int, dialect: Dialect, is_whole: bool, found: Inferred) -> int:
    """Infer of what is behind lines that are skipped. How many more seem to be above the header: then what
    was found is of no use."""
    text = behind_lines(iter([data]), skipped, dialect.line_ends) if skipped else data
    records = cut(text, dialect, is_whole)
    if not len(records):
        raise NotInferred("it has no row. Fix: give a file with rows")
    if skipped:
        found.declared["skip_lines"] = skipped
        first = data.lstrip(b"\r\n").splitlines()[0].decode("utf-8", "replace")
        found.doubts.append(
            f"{counted(skipped, 'line')} above the header, left out of each file (skip_lines): {first[:80]!r}"
        )
    if 0 in records.faults:
        raise NotInferred(f"line {skipped + 1 + int(records.lines[0])}: {records.faults[0]}. Fix: correct it")
    names, first_row = _names(records, dialect, skipped, found)
    sample = _sample_rows(records, len(names), first_row, skipped, dialect, found)
    found.rows = len(sample.numbers)
    if not found.rows:
        raise NotInferred("it has a header and no row. Fix: give a file with rows")
    infer_types(names, sample, dialect, found)
    if set(found.columns.values()) != {"STRING"}:
        return 0
    row, columns = _header_below(sample, dialect)
    if not columns:
        return 0
    if columns == 1 and first_row == 1:
        # One odd cell looks the same.
        shown = dialect.separator.join(column[row] for column in sample.columns)
        raise NotInferred(
            f"its row {row} {shown!r} looks like the header: the rows below it have other types. Fix: remove "
            "the lines above it; or correct it, if it is a row"
        )
    return sample.lines[row] - 1 - skipped


def _header_below(sample: Sample, dialect: Dialect) -> tuple[int, int]:
    """The first row without which columns of texts have another type, and the number of these; (0, 0) if no
    row is one."""
    rows = [list(row) for row in zip(*sample.columns, strict=True)]
    for number in range(_MAX_TITLES):
        if columns := typed_below(rows[number:], dialect):
            return number, columns
    return 0, 0


def _add_quoted_nulls(data: bytes, dialect: Dialect, found: Inferred) -> None:
    """A null text that stands in quotes somewhere counts there too, or its rows would be rejected."""
    around = f"[{re.escape(dialect.separator)}\r\n]"
    for text in filter(None, found.declared.get("null_texts", ())):
        cell = re.escape(f"{dialect.quote}{text}{dialect.quote}")
        if re.search(f"(?<={around}){cell}(?={around}|\\Z)".encode(), data):
            found.declared["quoted_nulls"] = True
            found.doubts.append(f"{text} stands in quotes too, so there all null texts are null")
            return


def _sample(chunks: Iterator[bytes]) -> tuple[bytes, bool]:
    data = b""
    for chunk in chunks:
        data += chunk
        if len(data) >= SAMPLE_BYTES:
            return data, False
    return data, True


def _names(records: Records, dialect: Dialect, skipped: int, found: Inferred) -> tuple[list[str], int]:
    """The columns' names, and the number of the first record with data."""
    header = [cell.decode("utf-8", "replace").strip() for cell in cells_of(records[0], dialect)]
    is_row = has_numbers(header)
    # A row may have empty cells that others fill.
    width = used_width(records, dialect, len(header)) if is_row else 1
    while len(header) > width and not header[-1]:
        header.pop()
        found.declared["trailing_empty_columns"] = True
    if is_row:
        names = [f"column_{number}" for number in range(1, len(header) + 1)]
        found.declared["names"] = names
        found.doubts.append(
            f"the first line has numbers, so it was taken for a row, and the columns are named {names[0]} "
            "and so on"
        )
        return names, 0
    names = [same(name) for name in header]
    if not (problem := _problem(names, header)):
        return names, 1
    names = _other_names(names)
    found.declared["names"] = names
    end = count_lines(records.data[: records.nexts[0]], dialect)
    found.declared["skip_lines"] = skipped + end
    found.doubts.append(
        f"{problem}, so the header is left out of each file (skip_lines), and its columns are, in their "
        f"order, {', '.join(names)}"
    )
    return names, 1


def _problem(names: list[str], header: list[str]) -> str:
    """Why a header's names cannot be those of columns; empty if they can."""
    for name, title in zip(names, header, strict=True):
        if not title:
            return f"column {header.index(title) + 1} of its header has no name, as pandas writes its index"
        if not _NAME.fullmatch(name):
            return f"column {title!r} of its header can be no column of a table"
        if names.count(name) > 1:
            return f"its header names column {title!r} twice"
    return ""


def _other_names(names: list[str]) -> list[str]:
    """Names of columns, as like to these as they can be."""
    found = list[str]()
    for position, name in enumerate(names, start=1):
        usable = name if _NAME.fullmatch(name) else f"column_{position}"
        others = (f"{usable[:58]}_{number}" for number in range(2, len(names) + 2))
        found.append(next(one for one in (usable, *others) if one not in found))
    return found


def _sample_rows(
    records: Records, width: int, first: int, skipped: int, dialect: Dialect, found: Inferred
) -> Sample:
    """The records whose form is regular."""
    rows, numbers, lines, odd = list[list[str]](), list[int](), list[int](), list[str]()
    for number in range(first, len(records)):
        record = _with_null(records[number], dialect)
        cells = [cell.decode("utf-8", "replace") for cell in cells_of(record, dialect)]
        line = skipped + 1 + int(records.lines[number])
        if len(cells) > width and not any(cell.strip() for cell in cells[width:]):
            found.declared["trailing_empty_columns"] = True
            cells = cells[:width]
        if len(cells) == width and number not in records.faults:
            rows.append(cells)
            numbers.append(number - first)
            lines.append(line)
        else:
            odd.append(f"line {line}: {dialect.separator.join(cells)[:80]!r}")
    if len(odd) > _MAX_ODD_SHARE * (len(odd) + len(rows)):
        raise NotInferred(
            f"of {counted(len(odd) + len(rows), 'row')}, {len(odd)} with another number of cells than the "
            f"header's {width}, or wrong quotes, first {odd[0]}. Fix: remove lines above the header, or "
            "correct the rows"
        )
    if odd:
        found.doubts.append(
            f"of {len(odd) + len(rows)} rows, {len(odd)} with another number of cells than the header, or "
            f"wrong quotes, to be quarantined, first {odd[0]}"
        )
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]
    return Sample(columns, numbers, lines)


def _with_null(record: bytes, dialect: Dialect) -> bytes:
    r"""A record in which the null of a database, \N, is a text: without its escape it would be N."""
    if not dialect.escape or b"\\N" not in record:
        return record
    separator = re.escape(dialect.separator.encode())
    return re.sub(rb"(\A|" + separator + rb")\\N(?=" + separator + rb"|\Z)", rb"\1\\\\N", record)
