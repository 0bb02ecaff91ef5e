"""Types of columns of texts: each is one whose values every cell is, as it stands; else it is a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa

from sluice.core.csv.advice import NULLS
from sluice.core.csv.columns.kinds import DECIMAL, DOUBLE, LONG, Kind
from sluice.core.csv.form import Dialect, Rules
from sluice.core.csv.inferred_texts import GROUPED, no_number, why_text
from sluice.core.csv.inferred_times import ColumnOfTimes, are, formats, times_of

# A column has the words of one pair, for true and false: of several, they are codes.
_USUAL_PAIRS = (("true", "false"), ("t", "f"), ("yes", "no"), ("y", "n"))
_PAIRS = (
    *_USUAL_PAIRS,
    *(("ja", "nein"), ("j", "n"), ("wahr", "falsch"), ("oui", "non"), ("vrai", "faux"), ("si", "no")),
    *(("sí", "no"), ("verdadero", "falso"), ("vero", "falso"), ("sim", "não")),
)
# Sums of money have the same number of decimals in all cells. A single one is no sign of it.
_MONEY = re.compile(r"-?([0-9]+)\.([0-9]{2,4})")
_PRECISIONS = (18, 38)
# Rows by which a header is told.
_HEAD_ROWS = 500


@dataclass
class Inferred:
    """``columns``: name -> type in DDL. ``declared``: the keys of ``[csv]`` that differ from their default.
    ``doubts``: what a person should look at, a sentence each. ``rows``: of the sample."""

    columns: dict[str, str] = field(default_factory=dict)
    declared: dict[str, Any] = field(default_factory=dict)
    doubts: list[str] = field(default_factory=list)
    rows: int = 0


@dataclass(frozen=True)
class Sample:
    """``columns``: their cells. ``numbers``, ``lines``: of each row, 0-based and 1-based."""

    columns: list[list[str]]
    numbers: Sequence[int]
    lines: Sequence[int]

    def place(self, rows: Sequence[int], cell: int) -> str:
        """Where the cell of this number is, of those that these rows have."""
        row = rows[cell]
        return f"row {self.numbers[row]} (line {self.lines[row]})"


def infer_types(names: Sequence[str], sample: Sample, dialect: Dialect, found: Inferred) -> None:
    """Add each column's type to ``found``, with the rules by which cells are read so, and doubts."""
    rules = Rules(time_formats=(), decimal_comma=_has_decimal_commas(sample.columns, dialect))
    if rules.decimal_comma:
        found.declared["decimal_comma"] = True
    marks, times = dict[str, list[str]](), dict[str, ColumnOfTimes]()
    pairs = list[tuple[str, str]]()
    for name, cells in zip(names, sample.columns, strict=True):
        marks[name] = sorted({bare for cell in cells if (bare := cell.strip()).lower() in NULLS})
        rows = [row for row, cell in enumerate(cells) if cell.strip() and cell.strip() not in marks[name]]
        filled = [cells[row] for row in rows]
        found.columns[name] = _type(name, filled, rules, times, found)
        if found.columns[name] == "BOOLEAN":
            pairs.append(_pair(name, filled, found))
        elif found.columns[name] == "STRING" and not _is_doubted(name, found):
            doubt = why_text(filled, rules, _PAIRS, partial(sample.place, rows))
            found.doubts += [f"{name}: {doubt}"] if doubt else []
    _declare_pairs(pairs, found)
    if time_formats := formats(times, found):
        found.declared["time_formats"] = time_formats
    nulls = list[str]()
    for name, texts in marks.items():
        if texts and found.columns[name] != "STRING":
            nulls += [text for text in texts if text not in nulls]
            found.doubts.append(f"{name}: {', '.join(texts)} is taken for null, in all columns")
    if nulls:
        found.declared["null_texts"] = ["", *nulls]


def _is_doubted(name: str, found: Inferred) -> bool:
    return any(doubt.startswith(f"{name}: ") for doubt in found.doubts)


def _has_decimal_commas(columns: Sequence[list[str]], dialect: Dialect) -> bool:
    if dialect.separator == ",":
        return False
    counts = {",": 0, ".": 0}
    for cell in (cell.strip() for cells in columns for cell in cells):
        if (match := re.fullmatch(r"[-+]?[0-9]+([,.])[0-9]+", cell)) and not GROUPED.fullmatch(cell):
            counts[match[1]] += 1
    return counts[","] > counts["."]


def _type(name: str, cells: list[str], rules: Rules, times: dict[str, ColumnOfTimes], found: Inferred) -> str:
    """A column's type in DDL; one of times is added to ``times``."""
    if not cells:
        found.doubts.append(f"{name}: it has no value, so it is a text")
        return "STRING"
    words = {cell.strip().lower() for cell in cells}
    if any(words <= set(pair) for pair in _USUAL_PAIRS) or any(words == set(pair) for pair in _PAIRS):
        return "BOOLEAN"
    texts, bare = pa.array(cells, pa.string()), [cell.strip() for cell in cells]
    kind = next((one for one in (LONG, DOUBLE) if are(texts, Kind(one), rules)), "")
    decimal = _decimal(bare, texts, rules) if kind == DOUBLE else ""
    if doubt := no_number(bare, kind, is_exact=bool(decimal)):
        found.doubts.append(f"{name}: {doubt}, so it is a text")
        return "STRING"
    if kind:
        return decimal or {LONG: "BIGINT", DOUBLE: "DOUBLE"}[kind]
    if column := times_of(texts, rules):
        times[name] = column
        return column.ddl
    return "STRING"


def _decimal(cells: Sequence[str], texts: pa.StringArray, rules: Rules) -> str:
    """The DECIMAL of sums of money; empty if the cells are none."""
    matches = [_MONEY.fullmatch(cell.replace(",", ".") if rules.decimal_comma else cell) for cell in cells]
    scales = {len(match[2]) if match else 0 for match in matches}
    if len(scales) > 1 or 0 in scales:
        return ""
    (scale,) = scales
    for precision in _PRECISIONS:
        if are(texts, Kind(DECIMAL, precision=precision, scale=scale), rules):
            return f"DECIMAL({precision}, {scale})"
    return ""


def _pair(name: str, cells: Sequence[str], found: Inferred) -> tuple[str, str]:
    """The words of a column of booleans."""
    words = {cell.strip().lower() for cell in cells}
    pair = next(one for one in _PAIRS if words <= set(one))
    if pair not in _USUAL_PAIRS:
        found.doubts.append(f"{name}: only {pair[0]} and {pair[1]}: a BOOLEAN, by true_texts and false_texts")
    elif len(words) == 1:
        found.doubts.append(f"{name}: only {cells[0].strip()!r}, taken for a BOOLEAN")
    return pair


def _declare_pairs(pairs: Sequence[tuple[str, str]], found: Inferred) -> None:
    """These lists are of all columns, in the place of their defaults."""
    if all(pair in _USUAL_PAIRS for pair in pairs):
        return
    for position, key in enumerate(("true_texts", "false_texts")):
        found.declared[key] = list(dict.fromkeys(pair[position] for pair in pairs))


def has_numbers(header: Sequence[str]) -> bool:
    """Whether a first line has numbers, as rows have: other than years in a row beside names."""
    numbers = [name for name in header if re.fullmatch(r"[-+]?[0-9][0-9.,:/ T-]*", name)]
    years = [int(name) for name in numbers if re.fullmatch("(19|20)[0-9]{2}", name)]
    if len(years) > 1 and len(years) == len(numbers) < len(header):
        return any(abs(one - other) != 1 for one, other in pairwise(years))
    return bool(numbers)


def typed_below(rows: Sequence[Sequence[str]], dialect: Dialect) -> int:
    """How many columns the first of these rows makes texts, as a header does: those below have values of
    other types."""
    if len(rows) < 2 or not all(rows[0]) or has_numbers(rows[0]):
        return 0
    columns = [list(column) for column in zip(*rows[1:_HEAD_ROWS], strict=True)]
    found, places = Inferred(), range(len(rows))
    infer_types(
        [str(number) for number in range(len(columns))], Sample(columns, places, places), dialect, found
    )
    return sum(ddl != "STRING" for ddl in found.columns.values())
