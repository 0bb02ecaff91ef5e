"""What rejected rows have in common, and the declaration that would accept them."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from sluice.core.csv.columns.patterns import LITERAL, Pattern, patterns
from sluice.core.csv.columns.times import timestamps
from sluice.core.csv.layout import NOT_UTF8
from sluice.core.csv.records.cut import BEHIND_QUOTE, NOT_CLOSED

MAX_REASONS = 3
# Characters of a cell in a summary.
_MAX_CELL = 40
_CELL = re.compile(r"column ([^:]+): '(.*)' is not (.+)", re.DOTALL)
_WIDTH = re.compile(r"the row has (\d+) columns, the header names (\d+)(.*)", re.DOTALL)
_NUMBERS = ("an int", "a long", "a number", "a decimal")
_NULLS = {"na", "n/a", "null", "none", "nan", "\\n", "-", "--", "?", "nil", "#n/a"}
_TIMES = [
    f"{day}{clock}"
    for day in (
        *(
            "yyyy-MM-dd",
            "yyyy/M/d",
            "M/d/yyyy",
            "d/M/yyyy",
            "d.M.yyyy",
            "d-M-yyyy",
            "dd-MMM-yyyy",
            "yyyyMMdd",
        ),
        *("M/d/yy", "d.M.yy"),
    )
    for clock in ("", *(f"{gap}{one}" for gap in (" ", "'T'") for one in ("H:mm[:ss][.S]", "h:mm[:ss] a")))
]
_OTHER_TIMES = {
    "a date": "a date",
    "a time": "a timestamp without a zone",
    "a time with a zone": "a timestamp with a zone",
}
_FRACTIONS = ["", *("." + "S" * count for count in range(1, 10))]
_ZONES = ("", "XXX", " XXX", "Z", " Z", "X")


@dataclass(frozen=True)
class Rejected:
    """A rejected ``row``, by its 0-based number in its file, and why."""

    row: int
    reason: str


def summary(rejected: Iterable[Rejected]) -> str:
    """The most frequent kinds of reasons, each with its count, its first row and that one's cell, and a
    fix."""
    kinds = defaultdict[str, list[Rejected]](list)
    for one in rejected:
        kinds[_kind(one.reason)].append(one)
    ordered = sorted(kinds.values(), key=lambda found: (-len(found), found[0].row))
    texts = []
    for found in ordered[:MAX_REASONS]:
        first = min(found, key=lambda one: one.row)
        count = "1 row" if len(found) == 1 else f"{len(found)} rows"
        place = f"row {first.row}" if len(found) == 1 else f"the first row {first.row}"
        advised = fix(first.reason)
        texts.append(f"{count} ({place}): {_short(first.reason)}{f'; fix: {advised}' if advised else ''}")
    if more := len(ordered) - len(texts):
        texts.append(f"and {more} more reasons")
    return "; ".join(texts)


def _kind(reason: str) -> str:
    """What reasons have in common that one fix is for, whatever their numbers and cells are."""
    if match := _WIDTH.fullmatch(reason):
        return f"width {match[1] == '1'} {'empty' in match[3]}"
    if reason.startswith("too large"):
        return "too large"
    return _CELL.sub(r"column \1 is not \3", reason)


def _short(reason: str) -> str:
    match = _CELL.fullmatch(reason)
    if match is None or len(match[2]) <= _MAX_CELL:
        return reason
    return f"column {match[1]}: '{match[2][:_MAX_CELL]}…' is not {match[3]}"


def fix(reason: str) -> str:
    """The declaration that would accept a row that was rejected for this; empty if none is known."""
    if match := _CELL.fullmatch(reason):
        return _fix_of_cell(match[2], match[3])
    if match := _WIDTH.fullmatch(reason):
        if "empty" in match[3]:
            return "declare [csv] trailing_empty_columns = true"
        if match[1] == "1":
            return "declare [csv] separator, if another stands between the columns"
        return 'look for separators in cells without quotes; or declare [csv] separator, or quote = ""'
    if reason == NOT_UTF8:
        return 'declare [csv] encoding = "windows-1252", if the file is of that, or save it as UTF-8'
    if reason in (BEHIND_QUOTE, NOT_CLOSED):
        return 'double quotes inside of quoted cells; or declare [csv] escape = "\\\\", or quote = ""'
    if reason.startswith("column ") and reason.endswith(" is empty"):
        return "declare the column as a union with null"
    return "raise max.message.bytes of the topic" if reason.startswith("too large") else ""


def _fix_of_cell(cell: str, kind: str) -> str:
    bare = cell.strip()
    if bare.lower() in _NULLS:
        return f"add {json.dumps(bare)} to [csv] null_texts, with quoted_nulls = true if it stands in quotes"
    if kind.startswith(("a time", "a date")):
        found = known_patterns(bare, kind)
        names = " or ".join(f'"{one}"' for one in found)
        return f"add {names} to [csv] time_formats" if found else _other_time(bare, kind)
    if kind == "a boolean":
        # So TOML spells it too.
        return f"add {json.dumps(bare, ensure_ascii=False)} to [csv] true_texts or false_texts"
    if kind.startswith("one of "):
        return "correct the cell, or declare the column as a text"
    if not kind.startswith(_NUMBERS):
        return ""
    if re.fullmatch(r"[-+]?[0-9]{1,3}(,[0-9]{3})+", bare):
        return (
            "save the file without commas between thousands; only if the comma stands before a fraction, "
            "declare [csv] decimal_comma = true"
        )
    if re.fullmatch(r"[-+]?[0-9]+,[0-9]+", bare):
        return "declare [csv] decimal_comma = true, if that comma stands before a fraction"
    is_number = re.fullmatch(r"[-+]?[0-9]*\.?[0-9]*([eE][-+]?[0-9]+)?", bare)
    if is_number and is_number[1]:
        return (
            "declare the column as a double; or save the file with all digits, which a spreadsheet leaves out"
        )
    if is_number and kind in ("an int", "a long"):
        if not set(bare.lstrip("+-")) <= set("0123456789"):
            return "declare the column as a double or decimal"
        larger = "a long, double or decimal" if kind == "an int" and len(bare) < 19 else "a double or decimal"
        return f"declare the column as {larger}"
    if is_number:
        return "declare a decimal of more digits, or a double"
    if re.search("[0-9]", bare):
        return "save the file with plain numbers, as -1234.5; or declare the column as a text"
    return ""


def _other_time(cell: str, kind: str) -> str:
    for other, declared in _OTHER_TIMES.items():
        if other != kind and known_patterns(cell, other):
            return f"declare the column as {declared}, which the cell is, and its pattern"
    return ""


def known_patterns(cell: str, kind: str) -> list[str]:
    """Patterns of which a text is a time (two if it may begin with day or month)."""
    size, texts, found = len(cell.encode()), pa.array([cell], pa.string()), list[str]()
    # All begin with digits. To try one takes as long as to leave out a hundred.
    for text, pattern in _known(kind).get(cell.lstrip("0123456789")[:1], ()) if cell[:1].isdecimal() else ():
        if pattern.least <= size <= pattern.most and not timestamps(texts, [pattern])[1][0]:
            found.append(text)
    return found[:2]


@cache
def _known(kind: str) -> dict[str, list[tuple[str, Pattern]]]:
    """The usual patterns of a kind's times, as declared and as read, by their first character that is no
    digit."""
    found = defaultdict[str, dict[str, Pattern]](dict)
    for usual in _TIMES:
        for fraction in _FRACTIONS if "[.S]" in usual else [""]:
            for second in (":ss", "") if "[:ss]" in usual else ("",):
                text = usual.replace("[:ss]", second).replace("[.S]", fraction if second else "")
                for zone in _ZONES if kind == "a time with a zone" and "H" in usual else ("",):
                    (pattern,) = patterns(text + zone)
                    has_zone = kind == "a time with a zone"
                    if pattern.has_clock == (kind != "a date") and pattern.has_zone == has_zone:
                        first = next((one.name for one in pattern.pieces if one.kind == LITERAL), "")
                        found[first][text + zone] = pattern
    return {first: list(named.items()) for first, named in found.items()}
