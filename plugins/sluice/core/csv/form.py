"""How a file's bytes are cut into records and cells; without NumPy, for those who only read a declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

# Not part of a record's content: a record of these and of separators alone is blank.
WHITE = " \t\r\n\x0b\x0c"
LINE_ENDS = "\r\n"
# What may be declared to end a line: ANY of them, one kind in a file.
ANY, ONLY_LF, ONLY_CRLF, ONLY_CR = "any", "lf", "crlf", "cr"
DECLARED_ENDS = (ANY, ONLY_LF, ONLY_CRLF, ONLY_CR)
# Endings of an object's key, in any case. What packs it is told by their content.
SUFFIXES = (".csv", ".csv.gz", ".csv.zst")
# As declared -> Python's codec.
ENCODINGS = {
    "utf-8": "utf-8",
    "utf-16": "utf-16-le",
    "utf-16-le": "utf-16-le",
    "utf-16-be": "utf-16-be",
    "latin-1": "latin-1",
    "windows-1252": "cp1252",
}


def is_csv(key: str) -> bool:
    """Whether an object's name says that it is CSV: ``UPPER.CSV``, ``x.csv.GZ``."""
    return key.lower().endswith(SUFFIXES)


@dataclass(frozen=True)
class Dialect:
    """RFC 4180 unless said otherwise. Each character is one of ASCII, or "" for none.

    ``separator``: between cells. ``quote``: around a cell; doubled inside of one it is itself. ``escape``:
    makes the next character, also a separator or a line break, one of the cell. ``comment``: at its begin, a
    line is no record. ``trailing_empty``: empty cells behind the last column are ignored. ``skip_blank``:
    records of no more cells than the header, all of them empty or white space, are no rows (a spreadsheet
    writes them at its end); without it only those of a single such cell are none. ``line_ends``: one of
    DECLARED_ENDS; ONLY_LF: LF, also behind a CR; other line breaks are characters, as they are in quotes.
    """

    separator: str = ","
    quote: str = '"'
    escape: str = ""
    comment: str = ""
    trailing_empty: bool = False
    skip_blank: bool = True
    line_ends: str = ANY

    def problem(self) -> str:
        """What is wrong with it; empty if nothing is."""
        named = {name: getattr(self, name) for name in ("separator", "quote", "escape", "comment")}
        for name, char in named.items():
            if not char and name != "separator":
                continue
            if len(char) != 1 or not char.isascii() or char.isalnum() or char in "\r\n\0 .+-":
                return f"{name} {char!r} is no character that can be one"
            if list(named.values()).count(char) > 1:
                return f"{name} {char!r} has two duties"
        return ""


@dataclass(frozen=True)
class Form:
    """``encoding``: one of ENCODINGS; ``names``: of the columns of a file without a header; ``skip_lines``:
    how many of the file's first lines, as ``line_ends`` says what they are, belong to nothing."""

    dialect: Dialect = Dialect()
    encoding: str = "utf-8"
    names: tuple[str, ...] = ()
    skip_lines: int = 0

    def to_document(self) -> dict[str, Any]:
        return {**asdict(self), "names": list(self.names)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any] | None) -> Form:
        """None: of a plan without one, which has RFC 4180's."""
        if document is None:
            return cls()
        names, skip_lines = tuple(document["names"]), document.get("skip_lines", 0)
        return cls(Dialect(**document["dialect"]), document["encoding"], names, skip_lines)


@dataclass(frozen=True)
class Rules:
    """How texts are read. ``time_formats``: patterns of times and dates, tried in this order.
    ``decimal_comma``: a comma stands before a number's fraction, and a point stands nowhere. ``null_texts``:
    cells that are null, as they are written in the file, with escapes and without quotes, of which only ""
    may have some; ``quoted_nulls``: all may. ``true_texts``, ``false_texts``: in lower case, for any case.
    ``trim``: blanks around texts are no part of them (around other values they never are)."""

    time_formats: tuple[str, ...] = ("yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd")
    decimal_comma: bool = False
    null_texts: tuple[str, ...] = ("",)
    true_texts: tuple[str, ...] = ("true", "t", "yes", "y", "1")
    false_texts: tuple[str, ...] = ("false", "f", "no", "n", "0")
    trim: bool = False
    quoted_nulls: bool = False


@dataclass(frozen=True)
class Declared:
    """What a stream says of its files, as far as the advice for rejected rows depends on it. ``is_ddl``: its
    columns have types of DDL, not of Avro."""

    rules: Rules = Rules()
    dialect: Dialect = Dialect()
    is_ddl: bool = False
