"""Why a column is one of texts, though its cells look as if they had another type."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from sluice.core.csv.columns.kinds import DOUBLE, Kind
from sluice.core.csv.form import Rules
from sluice.core.csv.inferred_times import nearly_times, wrong_cells
from sluice.core.csv.records.quotes import Mask

GROUPED = re.compile(r"[-+]?[1-9][0-9]{0,2}([.,][0-9]{3})+")
# Behind these, a double has digits of its own.
_EXACT_DIGITS = 15
_LONG = re.compile(rf"-?0*[0-9]{{{_EXACT_DIGITS + 1},}}(\.[0-9]*)?")
# A few: with more of them, a column has two kinds of values.
_MAX_ODD_SHARE = 0.1
_MIN_CELLS = 3
_MAX_CELL = 40
_SIGN = r"(€|\$|£|¥|%|eur|usd|gbp|chf|kg|km)"
_NUMBER = r"[-+]?[0-9][0-9.,'\u00a0\u202f ]*"
_WITH_SIGN = re.compile(rf"(?i){_SIGN} ?{_NUMBER}|{_NUMBER}{_SIGN}")
_LIKE_TIME = re.compile(
    r"([0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}|[0-9]{1,2}[-/.][0-9]{1,2}[-/.][0-9]{4})([ T].*)?"
)
_LIKE_MONTH = re.compile(r"[0-9]{1,2}[-. ]+[^\W\d_]{3,}[-. ]+[0-9]{4}([ T].*)?")


def no_number(cells: Sequence[str], kind: str, is_exact: bool = False) -> str:
    """Why cells that may be numbers (of ``kind``, or of none if it is "") are none, or would be others; else
    empty. ``is_exact``: as a decimal, none would be another."""
    grouped = next((cell for cell in cells if GROUPED.fullmatch(cell)), "")
    if grouped and all(GROUPED.fullmatch(cell) or re.fullmatch("[-+]?[0-9]{1,3}", cell) for cell in cells):
        return f"{grouped!r} may be thousands or have a fraction"
    if not kind:
        return ""
    if any(re.fullmatch(r"-?0[0-9]+", cell) for cell in cells):
        return "its numbers begin with zeros, as codes do"
    if any(cell.startswith("+") for cell in cells):
        return "its numbers begin with a plus sign, as telephone numbers do"
    if kind != DOUBLE or is_exact:
        return ""
    long = next((cell for cell in cells if _LONG.fullmatch(cell.replace(",", "."))), "")
    return f"{long!r} has more digits than a DOUBLE keeps" if long else ""


def why_text(
    cells: Sequence[str], rules: Rules, pairs: Sequence[tuple[str, str]], place: Callable[[int], str]
) -> str:
    """What a person should know of a column of texts; empty if it has texts. ``pairs``: words of booleans;
    ``place``: of a cell, for a message."""
    texts, bare = pa.array(cells, pa.string()), [cell.strip() for cell in cells]
    for what, wrong in (
        ("numbers", wrong_cells(texts, Kind(DOUBLE), rules)),
        ("times", nearly_times(texts, rules)),
        ("booleans", _no_words(bare, pairs)),
    ):
        if doubt := _few(wrong, cells, what, place):
            return doubt
    if all(_WITH_SIGN.fullmatch(cell) for cell in bare):
        return f"{bare[0]!r} is a number with a sign, so it is a text; without, it would be a number"
    if all(_LIKE_TIME.fullmatch(cell) or _LIKE_MONTH.fullmatch(cell) for cell in bare):
        return f"{bare[0]!r} looks like a time, of no usual pattern: so it is a text"
    return ""


def _no_words(cells: Sequence[str], pairs: Sequence[tuple[str, str]]) -> Mask:
    """Which cells are not of the pair that most are of."""
    counts = Counter(cell.lower() for cell in cells)
    best = max(pairs, key=lambda pair: sum(counts[word] for word in pair))
    return np.array([cell.lower() not in best for cell in cells])


def _few(wrong: Mask, cells: Sequence[str], what: str, place: Callable[[int], str]) -> str:
    count, odd = len(cells), np.flatnonzero(wrong)
    if count < _MIN_CELLS or not 0 < len(odd) <= max(1, _MAX_ODD_SHARE * count):
        return ""
    first = f"{place(int(odd[0]))} is {cells[int(odd[0])][:_MAX_CELL]!r}"
    others = "" if len(odd) == 1 else f"{len(odd)} are not, the first in "
    return f"{count - len(odd)} of {count} cells are {what}, {others}{first}: so it is a text"
