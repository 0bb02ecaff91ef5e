"""The names of a file's columns, and how they meet those of a schema."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from sluice.core.csv.form import Dialect
from sluice.core.csv.records.cut import cut
from sluice.core.csv.records.encodings import which_utf16
from sluice.core.csv.records.quotes import cells_of
from sluice.core.error_codes import ErrorCode
from sluice.core.messages import quoted

_BOM = "\ufeff"
# Longest header.
HEADER_BYTES = 256 * 1024
# What separators look like that are none: the error names the first that the header has.
_OTHERS = (";", "\t", "|", ",")
# What a line begins with that is a comment, as files have them.
_COMMENTS = "#%!/"
# Records that tell how wide those of a file are.
_LOOKED_AT = 20


class InvalidHeader(RuntimeError):
    """The columns of an object do not match the schema."""

    code = ErrorCode.INVALID_HEADER


def same(name: str) -> str:
    """What two names of one column have in common: ``Pickup date (UTC)`` is ``pickup_date_utc``, ``Größe`` is
    ``grosse``, ``2016 total`` is ``_2016_total``."""
    decomposed = unicodedata.normalize("NFKD", name.strip().casefold())
    folded = "".join(char for char in decomposed if not unicodedata.combining(char))
    found = re.sub(r"\W+", "_", re.sub(r"^\W+|\W+$", "", folded)) or folded
    return f"_{found}" if found[:1].isdecimal() else found


def names_of(record: bytes, dialect: Dialect, where: str) -> list[str]:
    """The names in a header record, without blanks around them. Raises InvalidHeader, naming ``where``."""
    if b"\0" in record:
        raise InvalidHeader(
            f"{where}: the header has zeros, as UTF-16 has: {_shown(record)}. Fix: declare [csv] encoding = "
            f'"{which_utf16(record)}"'
        )
    if is_separator_line(record):
        raise InvalidHeader(
            f"{where}: its first line is Excel's {_shown(record)}, no header. Fix: remove it, and declare "
            "[csv] separator"
        )
    faults = cut(record, dialect, is_end=True).faults
    if faults:
        raise InvalidHeader(f"{where}: {faults[0]}: {_shown(record)}. Fix: correct the header")
    names = [_decoded(cell, record, where).strip() for cell in cells_of(record, dialect)]
    while dialect.trailing_empty and len(names) > 1 and not names[-1]:
        names.pop()
    check_names(names, where, _shown(record))
    # ``same`` takes such signs away, so the one column of the schema would have whole rows.
    if len(names) == 1 and names[0].strip("".join(_OTHERS)) != names[0]:
        raise InvalidHeader(
            f"{where}: the header has a single column, {_shown(record)}. Fix: correct the header"
            f"{separator_hint(names, dialect)}"
        )
    return names


def is_separator_line(data: bytes) -> bool:
    """Whether data begin with a line that tells Excel, and no one else, the separator."""
    return bool(re.match(rb"(?i)sep=.?\s*(\Z|[\r\n])", data))


def check_names(names: Sequence[str], where: str, shown: str) -> None:
    """Raises InvalidHeader for an empty or repeated name."""
    seen = dict[str, str]()
    for position, name in enumerate(names, start=1):
        if not name:
            behind = not any(names[position - 1 :])
            more = ", or declare [csv] trailing_empty_columns = true" if behind else ""
            raise InvalidHeader(
                f"{where}: column {position} of the header has no name: {shown}. Fix: name it{more}"
            )
        if (key := same(name)) in seen:
            both = quoted(name) if seen[key] == name else f"{quoted(seen[key])} and {quoted(name)}, one name,"
            raise InvalidHeader(f"{where}: the header names column {both} twice. Fix: rename one")
        seen[key] = name


def separator_hint(names: Sequence[str], dialect: Dialect) -> str:
    """That the header seems to have another separator; empty if it does not."""
    for other in _OTHERS:
        # Names hold more of it than of what is between them: "id;amount, net;name".
        if other != dialect.separator and sum(name.count(other) for name in names) >= len(names):
            # So TOML spells it too.
            sign = json.dumps(other)
            return f", or declare [csv] separator = {sign}, if that is what stands between its columns"
    return ""


def preamble_hint(record: bytes, behind: bytes, line: int, dialect: Dialect) -> str:
    """What may be wrong with a file whose first ``record`` is no header: it is a comment, or a line above the
    header, as the width of most records ``behind`` it, from the 1-based ``line`` on, tells. Empty if it seems
    to be none."""
    sign = record[:1].decode("ascii", "ignore")
    if sign in _COMMENTS and sign not in (dialect.comment, dialect.separator, ""):
        return f', or declare [csv] comment = "{sign}", if such lines are comments'
    if separator_hint([record.decode("utf-8", "replace")], dialect):
        return ""
    width = int(cut(record, dialect, is_end=True).widths[0])
    others = cut(behind, dialect, is_end=False)
    widths = others.widths[:_LOOKED_AT].tolist()
    usual, count = Counter(widths).most_common(1)[0] if widths else (width, 0)
    if count < 2 or usual == width:
        return ""
    above = line - 1 + int(others.lines[widths.index(usual)])
    return (
        f", or remove the lines above the header, or declare [csv] skip_lines = {above}: the first line has "
        f"{width} cells, and those behind it have {usual}"
    )


def _decoded(cell: bytes, record: bytes, where: str) -> str:
    try:
        return cell.decode().removeprefix(_BOM)
    except UnicodeDecodeError as error:
        raise InvalidHeader(
            f"{where}: the header is not UTF-8: {_shown(record)}. Fix: declare [csv] encoding = "
            '"windows-1252", if it is of that, or save the file as UTF-8'
        ) from error


def _shown(record: bytes) -> str:
    return quoted(record.decode("utf-8", "backslashreplace"))
