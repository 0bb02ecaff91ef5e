"""What a CSV file seems to be: its form, and a column's type; and of what it is unsure.

A type is taken only if every cell of the sample is one of its values, as the producer will read them.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from sluice.core.csv.form import ENCODINGS, ONLY_CR, ONLY_LF, Dialect, Form
from sluice.core.csv.header import is_separator_line, same
from sluice.core.csv.inferred_types import infer_types
from sluice.core.csv.records.cut import Records, cut
from sluice.core.csv.records.encodings import as_utf8
from sluice.core.csv.records.line_ends import LineEnds, MixedLineEnds
from sluice.core.csv.records.quotes import cells_of

SAMPLE_BYTES = 4 << 20
# With more rows of another form, the header or the separator is a wrong guess.
_MAX_ODD_SHARE = 0.05
_SEPARATORS = (",", ";", "\t", "|")


class NotInferred(ValueError):
    """A file of which no columns can be told; the text says why, and the fix."""


@dataclass
class Inferred:
    """``columns``: name -> type in DDL. ``declared``: the keys of ``[csv]`` that differ from their default.
    ``doubts``: what a person should look at, a sentence each. ``rows``: of the sample."""

    columns: dict[str, str] = field(default_factory=dict)
    declared: dict[str, Any] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    rows: int = 0


def infer(chunks: Iterator[bytes]) -> Inferred:
    """Infer columns and form from a file's first SAMPLE_BYTES, unpacked. Raises NotInferred."""
    found = Inferred()
    raw, is_whole = _sample(chunks)
    form = Form(encoding=_encoding(raw, is_whole, found))
    data = b"".join(as_utf8([raw], form.encoding))
    if is_separator_line(data):
        raise NotInferred("its first line is Excel's 'sep=', no header. Fix: remove it")
    dialect = _with_line_ends(data, is_whole, _dialect(data, is_whole, found), found)
    records = cut(data, dialect, is_whole)
    if not len(records):
        raise NotInferred("it has no row. Fix: give a file with rows")
    header = [cell.decode("utf-8", "replace").strip() for cell in cells_of(records[0], dialect)]
    names, first = _names(header, found)
    columns, found.rows = _cells(records, len(names), first, dialect, found)
    if not found.rows:
        raise NotInferred("it has a header and no row. Fix: give a file with rows")
    infer_types(names, columns, dialect, found)
    _check_first_row(columns, dialect, found)
    _add_quoted_nulls(data, dialect, found)
    return found


def _check_first_row(columns: list[list[str]], dialect: Dialect, found: Inferred) -> None:
    """Refuse texts whose first row is the header: without it, a column of them has another type."""
    row, rest = [cells[0] for cells in columns], [cells[1:] for cells in columns]
    if not rest[0] or set(found.columns.values()) != {"STRING"} or not all(row) or _has_numbers(row):
        return
    below = Inferred()
    infer_types(list(found.columns), rest, dialect, below)
    if set(below.columns.values()) != {"STRING"}:
        raise NotInferred(
            f"its first row {dialect.separator.join(row)!r} looks like the header: the rows below it have "
            "other types. Fix: remove the lines above it"
        )


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


def _encoding(raw: bytes, is_whole: bool, found: Inferred) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        return "utf-8"
    head = raw[:4096]
    zeros = [head[start::2].count(0) / max(len(head) // 2, 1) for start in (0, 1)]
    encoding = "utf-8"
    if max(zeros) > 0.4:
        encoding = "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"
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


def _dialect(data: bytes, is_whole: bool, found: Inferred) -> Dialect:
    scores = {}
    for separator in _SEPARATORS:
        dialect = Dialect(separator=separator)
        records = cut(data, dialect, is_whole)
        (width, count), *_ = Counter(records.widths.tolist()).most_common(1) or [(1, 0)]
        share = count / max(len(records), 1)
        scores[separator] = (width > 1 and share > 0.5, share if width > 1 else 0, width)
    best = max(_SEPARATORS, key=lambda one: scores[one])
    if not scores[best][0]:
        best = ","
    if best != ",":
        found.declared["separator"] = best
    dialect = Dialect(separator=best)
    records = cut(data, dialect, is_whole)
    if data.startswith(b"#") and _is_comment(records, scores[best][2], dialect):
        found.declared["comment"] = "#"
        found.doubts.append("its first line begins with #: such lines are taken for comments")
        return replace(dialect, comment="#")
    return dialect


def _is_comment(records: Records, width: int, dialect: Dialect) -> bool:
    """Whether a first line with # is no header: as wide as the rows, it is one if numbers follow."""
    if len(records) < 2 or records.widths[0] != width:
        return len(records) > 1
    following = (
        [cell.decode("utf-8", "replace").strip() for cell in cells_of(records[number], dialect)]
        for number in range(1, len(records))
    )
    after = next((cells for cells in following if not cells[0].startswith("#")), [])
    return bool(after) and not _has_numbers(after)


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


def _names(header: list[str], found: Inferred) -> tuple[list[str], int]:
    """The columns' names, and the number of the first record with data."""
    while len(header) > 1 and not header[-1]:
        header.pop()
        found.declared["trailing_empty_columns"] = True
    if _has_numbers(header):
        names = [f"column_{number}" for number in range(1, len(header) + 1)]
        found.declared["names"] = names
        found.doubts.append(
            f"the first line has numbers, so it was taken for a row, and the columns are named {names[0]} "
            "and so on"
        )
        return names, 0
    names = [same(name) for name in header]
    for name, title in zip(names, header, strict=True):
        if not title:
            raise NotInferred(
                f"column {header.index(title) + 1} of its header has no name, as pandas writes its index. "
                "Fix: name it, or write the file without it"
            )
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", name):
            raise NotInferred(
                f"column {title!r} of its header can be no column of a table. Fix: name it with Latin "
                "letters and "
                "digits"
            )
        if names.count(name) > 1:
            raise NotInferred(f"its header names column {title!r} twice. Fix: rename one")
    return names, 1


def _has_numbers(header: list[str]) -> bool:
    """Whether a first line has numbers, as rows have: other than years in a row beside names."""
    numbers = [name for name in header if re.fullmatch(r"[-+]?[0-9][0-9.,:/ T-]*", name)]
    years = [int(name) for name in numbers if re.fullmatch("(19|20)[0-9]{2}", name)]
    if len(years) > 1 and len(years) == len(numbers) < len(header):
        return any(abs(one - other) != 1 for one, other in pairwise(years))
    return bool(numbers)


def _cells(
    records: Records, width: int, first: int, dialect: Dialect, found: Inferred
) -> tuple[list[list[str]], int]:
    """Cells by column; of records whose form is regular."""
    rows, other, odd = list[list[str]](), 0, ""
    for number in range(first, len(records)):
        cells = [cell.decode("utf-8", "replace") for cell in cells_of(records[number], dialect)]
        if len(cells) > width and not any(cell.strip() for cell in cells[width:]):
            found.declared["trailing_empty_columns"] = True
            cells = cells[:width]
        if len(cells) == width and number not in records.faults:
            rows.append(cells)
        else:
            odd = odd or f"row {number}: {dialect.separator.join(cells)[:80]!r}"
            other += 1
    if other > _MAX_ODD_SHARE * (other + len(rows)):
        raise NotInferred(
            f"{other} of {other + len(rows)} rows have another number of cells than the header's {width}, or "
            f"wrong quotes, first {odd}. Fix: remove lines above the header, or correct the rows"
        )
    if other:
        found.doubts.append(
            f"{other} of {other + len(rows)} rows have another number of cells than the header, or wrong "
            "quotes: "
            "they will be quarantined"
        )
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)], len(rows)
