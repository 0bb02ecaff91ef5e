"""Types of columns of texts: each is one whose values every cell is, as it stands; else it is a text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sluice.core.csv.advice import known_patterns
from sluice.core.csv.columns.kinds import BOOLEAN, DATE, DOUBLE, INSTANT, LOCAL_TIME, LONG, TEXT, Kind
from sluice.core.csv.columns.values import Converter
from sluice.core.csv.form import Dialect, Rules
from sluice.core.csv.records.quotes import Mask

if TYPE_CHECKING:
    from sluice.core.csv.inference import Inferred

_NULLS = ("NA", "N/A", "NULL", "null", "None", "NaN", "nan", "\\N", "#N/A")
# A column has the words of one pair: of several, they are codes.
_PAIRS = ({"true", "false"}, {"t", "f"}, {"yes", "no"}, {"y", "n"})
_CENTS = re.compile(r"-?[0-9]+\.[0-9]{2}")
_GROUPED = re.compile(r"[-+]?[1-9][0-9]{0,2}([.,][0-9]{3})+")
# Behind these, a double has digits of its own.
_EXACT_DIGITS = 15
_LONG = re.compile(rf"-?0*[0-9]{{{_EXACT_DIGITS + 1},}}(\.[0-9]*)?")
_DDL = {BOOLEAN: "BOOLEAN", LONG: "BIGINT", DOUBLE: "DOUBLE", DATE: "DATE", TEXT: "STRING"}
_TIMES = {
    DATE: ("a date", "DATE"),
    LOCAL_TIME: ("a time", "TIMESTAMP_NTZ"),
    INSTANT: ("a time with a zone", "TIMESTAMP"),
}


@dataclass(frozen=True)
class _Times:
    """A column of times. ``kind``: of which; ``texts``: its cells; ``fitting``: patterns that each cell is
    of."""

    kind: str
    texts: pa.StringArray
    fitting: list[str]

    def read(self, pattern: str) -> tuple[np.ndarray, Mask]:
        values, wrong = Converter(Rules(time_formats=(pattern,))).convert(self.texts, Kind(self.kind))
        return values.fill_null(0).to_numpy(zero_copy_only=False), wrong

    def is_same(self, own: str, other: str) -> bool:
        """Whether the other pattern, declared beside its own, changes no value."""
        values, wrong = self.read(other)
        return own == other or not np.any(~wrong & (values != self.read(own)[0]))


def infer_types(
    names: Sequence[str], columns: Sequence[list[str]], dialect: Dialect, found: Inferred
) -> None:
    """Add each column's type to ``found``, with the rules by which cells are read so, and doubts."""
    rules = Rules(time_formats=(), decimal_comma=_has_decimal_commas(columns, dialect))
    if rules.decimal_comma:
        found.declared["decimal_comma"] = True
    marks, times, nulls = dict[str, list[str]](), dict[str, _Times](), list[str]()
    for name, cells in zip(names, columns, strict=True):
        marks[name] = sorted({cell.strip() for cell in cells} & set(_NULLS))
        filled = [cell for cell in cells if cell.strip() and cell.strip() not in marks[name]]
        found.columns[name] = _type(name, filled, rules, times, found)
    formats = _formats(times, found)
    for name, texts in marks.items():
        if texts and found.columns[name] != "STRING":
            nulls += [text for text in texts if text not in nulls]
            found.doubts.append(f"{name}: {', '.join(texts)} is taken for null, in all columns")
    if formats:
        found.declared["time_formats"] = formats
    if nulls:
        found.declared["null_texts"] = ["", *nulls]


def _has_decimal_commas(columns: Sequence[list[str]], dialect: Dialect) -> bool:
    if dialect.separator == ",":
        return False
    counts = {",": 0, ".": 0}
    for cell in (cell.strip() for cells in columns for cell in cells):
        if (match := re.fullmatch(r"[-+]?[0-9]+([,.])[0-9]+", cell)) and not _GROUPED.fullmatch(cell):
            counts[match[1]] += 1
    return counts[","] > counts["."]


def _type(name: str, cells: list[str], rules: Rules, times: dict[str, _Times], found: Inferred) -> str:
    """A column's type in DDL; one of times is added to ``times``."""
    if not cells:
        found.doubts.append(f"{name}: it has no value, so it is a text")
        return "STRING"
    words = {cell.strip().lower() for cell in cells}
    if any(words <= pair for pair in _PAIRS):
        return "BOOLEAN"
    texts = pa.array(cells, pa.string())
    kind = next((one for one in (LONG, DOUBLE) if _are(texts, one, rules)), "")
    if doubt := _no_number([cell.strip() for cell in cells], kind):
        found.doubts.append(f"{name}: {doubt}, so it is a text")
        return "STRING"
    if kind == DOUBLE and all(_CENTS.fullmatch(cell.strip().replace(",", ".")) for cell in cells):
        found.doubts.append(f"{name}: a DOUBLE; DECIMAL(18, 2) would keep its cents exact")
    if kind:
        return _DDL[kind]
    for one, (title, ddl) in _TIMES.items():
        patterns = known_patterns(cells[0].strip(), title)
        fitting = [text for text in patterns if _are(texts, one, replace(rules, time_formats=(text,)))]
        if fitting:
            times[name] = _Times(one, texts, fitting)
            return ddl
    return "STRING"


def _no_number(cells: Sequence[str], kind: str) -> str:
    """Why cells that may be numbers (of ``kind``, or of none if it is "") are none, or would be others; else
    empty."""
    grouped = next((cell for cell in cells if _GROUPED.fullmatch(cell)), "")
    if grouped and all(_GROUPED.fullmatch(cell) or re.fullmatch("[-+]?[0-9]{1,3}", cell) for cell in cells):
        return f"{grouped!r} may be thousands or have a fraction"
    if not kind:
        return ""
    if any(re.fullmatch(r"-?0[0-9]+", cell) for cell in cells):
        return "its numbers begin with zeros, as codes do"
    if any(cell.startswith("+") for cell in cells):
        return "its numbers begin with a plus sign, as telephone numbers do"
    long = next((cell for cell in cells if kind == DOUBLE and _LONG.fullmatch(cell.replace(",", "."))), "")
    return f"{long!r} has more digits than a DOUBLE keeps" if long else ""


def _formats(times: Mapping[str, _Times], found: Inferred) -> list[str]:
    """The patterns to declare. They are of all columns: so one that would change the values of another column
    is not taken, and its column is a text."""
    taken = dict[str, str]()
    # Columns that only one order of day and month fits tell the file's.
    for name, column in sorted(times.items(), key=lambda one: len(one[1].fitting)):
        orders = {_order(one) for one in taken.values()} - {""}
        ordered = sorted(column.fitting, key=lambda one: bool(orders) and _order(one) not in orders)
        chosen = next((one for one in ordered if _is_clear(column, one, taken, times)), None)
        first = column.texts[0].as_py()
        if chosen is None:
            found.columns[name] = "STRING"
            found.doubts.append(
                f"{name}: {first!r} is {ordered[0]}, and other columns have {', '.join(_unique(taken))}: a "
                "file's times have one order, so it is a text"
            )
            continue
        taken[name] = chosen
        if len(ordered) > 1:
            found.doubts.append(f"{name}: {first!r} may be {' or '.join(column.fitting)}; taken for {chosen}")
        if re.search("(?<!y)yy(?!y)", chosen):
            found.doubts.append(f"{name}: {first!r} has a year of two digits, taken for one from 2000 on")
    return _unique({name: taken[name] for name in times if name in taken})


def _unique(taken: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys(taken.values()))


def _order(pattern: str) -> str:
    """Which of day and month comes first; empty behind a year, which leaves no doubt."""
    return "" if pattern.startswith("y") else min("dM", key=pattern.index)


def _is_clear(column: _Times, pattern: str, taken: Mapping[str, str], times: Mapping[str, _Times]) -> bool:
    """Whether a column's pattern and the others' give the same values, whichever is tried first."""
    if not all(column.is_same(pattern, other) for other in set(taken.values())):
        return False
    return pattern in taken.values() or all(
        times[name].is_same(other, pattern) for name, other in taken.items()
    )


def _are(texts: pa.StringArray, kind: str, rules: Rules) -> bool:
    _, wrong = Converter(rules).convert(texts, Kind(kind))
    return not np.any(wrong)
