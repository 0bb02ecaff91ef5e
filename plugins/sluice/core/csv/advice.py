"""The declaration that would accept a rejected row, by its reason."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cache

import pyarrow as pa

from sluice.core.csv.columns.patterns import LITERAL, Pattern, patterns
from sluice.core.csv.columns.times import timestamps
from sluice.core.csv.form import Declared
from sluice.core.csv.layout import NOT_UTF8
from sluice.core.csv.records.cut import BEHIND_QUOTE, NOT_CLOSED

# What a cell is not (``kinds.Kind.title``).
KINDS = (
    r"an int|a long|a number|a boolean|a date|a time with a zone|a time|a decimal\(\d+, \d+\)|one of [\w, ]+"
)
CELL = re.compile(r"column ([^:]+): '(.*)' is not (.+)", re.DOTALL)
WIDTH = re.compile(r"the row has (\d+) columns, the header names (\d+)(.*)", re.DOTALL)
# A longer list is not written as a whole.
_MAX_LINE = 160
_NUMBERS = ("an int", "a long", "a number", "a decimal")
NULLS = {"na", "n/a", "n.a.", "null", "none", "nan", "\\n", "-", "--", "?", "nil", "#n/a"}
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
# Not among those that are looked for in any file: numbers are of them too.
_COMPACT = ("yyyyMMddHHmmss", "yyyyMMddHHmm")
# Digits of a time since 1970 -> what they count.
_SINCE_1970 = {9: "seconds", 10: "seconds", 13: "milliseconds", 16: "microseconds"}
_TEXT, _LONG, _DOUBLE, _DECIMAL = "a text", "a long", "a double", "a decimal"
_TIME_TYPES = {
    "a date": "a date",
    "a time": "a timestamp without a zone",
    "a time with a zone": "a timestamp with a zone",
}
_DDL = {
    _TEXT: "STRING",
    _LONG: "BIGINT",
    _DOUBLE: "DOUBLE",
    _DECIMAL: "DECIMAL(p, s)",
    _TIME_TYPES["a date"]: "DATE",
    _TIME_TYPES["a time"]: "TIMESTAMP_NTZ",
    _TIME_TYPES["a time with a zone"]: "TIMESTAMP",
}
_FRACTIONS = ["", *("." + "S" * count for count in range(1, 10))]
_ZONES = ("", "XXX", " XXX", "Z", " Z", "X")
_DEFAULTS = Declared()


def fix(reason: str, declared: Declared = _DEFAULTS) -> str:
    """The declaration that would accept a row that was rejected for this; empty if none is known."""
    if match := CELL.fullmatch(reason):
        return _fix_of_cell(match[2], match[3], declared)
    if match := WIDTH.fullmatch(reason):
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


def _fix_of_cell(cell: str, kind: str, declared: Declared) -> str:
    bare = cell.strip()
    if bare in declared.rules.null_texts and not declared.rules.quoted_nulls:
        return "declare [csv] quoted_nulls = true"
    if bare.lower() in NULLS:
        line = _line("null_texts", declared.rules.null_texts, bare)
        return f"{line}, with quoted_nulls = true if it stands in quotes"
    if kind in _TIME_TYPES:
        return _fix_of_time(bare, kind, declared)
    if kind == "a boolean":
        true = _line("true_texts", declared.rules.true_texts, bare)
        return f"{true}, or so false_texts"
    if kind.startswith("one of "):
        # Both are texts in the table.
        more = "add it to the enum's symbols, or " if re.fullmatch(r"[A-Za-z_]\w*", bare, re.ASCII) else ""
        return f"correct the cell, {more or 'or '}declare the column as {_type(_TEXT, declared)}"
    return _fix_of_number(bare, kind, declared) if kind.startswith(_NUMBERS) else ""


def _toml(text: str) -> str:
    # So TOML spells it too.
    return json.dumps(text, ensure_ascii=False)


def _line(key: str, texts: Sequence[str], *more: str) -> str:
    """A key's whole line with one text more, since what is declared takes the place of the default. Another
    text of the same letters, as month and day in the other order, may be meant instead."""
    others = [text for text in more[1:] if sorted(text) == sorted(more[0])]
    other = "".join(f", or {_toml(text)} in the place of the last" for text in others)
    line = f"{key} = [{', '.join(map(_toml, [*texts, more[0]]))}]"
    if len(line) <= _MAX_LINE:
        return f"declare [csv] {line}{other}"
    return f"add to [csv] {key} {' or '.join(map(_toml, [more[0], *others]))}"


def _type(name: str, declared: Declared) -> str:
    return _DDL[name] if declared.is_ddl else name


def _as(declared: Declared, *names: str) -> str:
    types = " or ".join(_type(name, declared) for name in names)
    return (
        f"declare the column as {types} (in a table that exists: a new column, named so in the header, or by "
        "skip_lines and names)"
    )


def _fix_of_number(bare: str, kind: str, declared: Declared) -> str:
    is_comma = declared.rules.decimal_comma
    if is_comma and re.fullmatch(r"[-+]?[0-9]*\.[0-9]+", bare):
        return "save the file with a comma before fractions; without [csv] decimal_comma, if all have a point"
    if not is_comma and re.fullmatch(r"[-+]?[0-9]{1,3}(,[0-9]{3})+", bare):
        return (
            "save the file without commas between thousands; only if the comma stands before a fraction, "
            f"{_decimal_comma(declared)}"
        )
    if not is_comma and re.fullmatch(r"[-+]?[0-9]+,[0-9]+", bare):
        return f"{_decimal_comma(declared)}, if that comma stands before a fraction"
    number = bare.replace(",", ".", 1) if is_comma else bare
    is_number = re.fullmatch(r"[-+]?(?=\.?[0-9])[0-9]*\.?[0-9]*([eE][-+]?[0-9]+)?", number)
    if is_number and kind == "a number":
        return f"correct the cell, which is beyond the type's range; or {_as(declared, _DOUBLE, _TEXT)}"
    if is_number and is_number[1]:
        return f"{_as(declared, _DOUBLE)}; or save the file with all digits, which a spreadsheet leaves out"
    if is_number and kind.startswith("a decimal"):
        return f"{_as(declared, _DECIMAL, _DOUBLE)}, with as many digits before and behind the point"
    if is_number:
        is_long = kind == "an int" and number.lstrip("+-").isdecimal() and len(number) < 19
        return _as(declared, *([_LONG] if is_long else []), _DOUBLE, _DECIMAL)
    if re.search("[0-9]", bare):
        return f"save the file with plain numbers, as -1234.5; or {_as(declared, _TEXT)}"
    return ""


def _decimal_comma(declared: Declared) -> str:
    if declared.dialect.separator == ",":
        return "save it with another separator and declare [csv] separator and decimal_comma = true"
    return "declare [csv] decimal_comma = true"


def _fix_of_time(cell: str, kind: str, declared: Declared) -> str:
    formats, text = declared.rules.time_formats, _as(declared, _TEXT)
    if found := known_patterns(cell, kind):
        return _line("time_formats", formats, *found)
    for other, name in _TIME_TYPES.items():
        if other != kind and (found := known_patterns(cell, other)):
            return f"{_as(declared, name)}, which the cell is, and {_line('time_formats', formats, *found)}"
    if kind == "a time":
        for compact in _COMPACT:
            if _is_of(cell, compact):
                return _line("time_formats", formats, compact)
    zone = re.fullmatch(r"(.+?) ?([A-Z]{3,4})", cell)
    if zone and (found := known_patterns(zone[1], "a time")):
        line = _line("time_formats", formats, f"{found[0]}'{cell[len(zone[1]) :]}'")
        if kind == "a time":
            return f"{line}: the zone is left out"
        return f"save the file with a zone as +00:00; or {_as(declared, _TIME_TYPES['a time'])}, and {line}"
    if re.fullmatch("[0-9]+", cell) and (unit := _SINCE_1970.get(len(cell))):
        return f"{_as(declared, _LONG)}, if it is {unit} since 1970; or save the file with times"
    if re.fullmatch(r"[1-9][0-9]{4}([.,][0-9]+)?", cell):
        return (
            f"format the spreadsheet's column as times, if it is its number of a day, and save it; or {text}"
        )
    if re.fullmatch(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?( ?[AaPp][Mm])?", cell):
        return f"{text}: a time of day without a day is of no other type"
    if _is_impossible(cell):
        return "correct the cell: there is no such day, or time of it"
    if re.search(r"[0-9]", cell) and re.search(r"[^\W\d_]{3}", cell):
        return f"save the file with months as numbers (read are Jan to Dec, as MMM); or {text}"
    return f"save the file with times as 2024-05-31 23:59:59; or {text}" if re.search("[0-9]", cell) else ""


def _is_of(cell: str, pattern: str) -> bool:
    return not timestamps(pa.array([cell], pa.string()), patterns(pattern))[1][0]


def _is_impossible(cell: str) -> bool:
    """Whether it is a usual time but for one number: as the 31st of February."""
    numbers = list(re.finditer(r"(?<![0-9])[0-9]{2}(?![0-9])", cell))
    return any(
        known_patterns(f"{cell[: one.start()]}01{cell[one.end() :]}", kind)
        for one in numbers[:6]
        for kind in _TIME_TYPES
    )


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
