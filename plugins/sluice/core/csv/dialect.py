"""How a file's bytes are cut into records and cells."""

from __future__ import annotations

from dataclasses import dataclass

# Not part of a record's content: a record of these and of separators alone is blank.
WHITE = " \t\r\n\x0b\x0c"
LINE_ENDS = "\r\n"


@dataclass(frozen=True)
class Dialect:
    """RFC 4180 unless said otherwise. Each character is one of ASCII, or "" for none.

    ``separator``: between cells. ``quote``: around a cell; doubled inside of one it is itself. ``escape``:
    makes the next character, also a separator or a line break, one of the cell. ``comment``: at its begin, a
    line is no record. ``trailing_empty``: empty cells behind the last column are ignored. ``skip_blank``:
    records of no more cells than the header, all of them empty or white space, are no rows (a spreadsheet
    writes them at its end); without it, and for more cells, only lines of nothing but white space are none.

    LF, CRLF and CR end a line.
    """

    separator: str = ","
    quote: str = '"'
    escape: str = ""
    comment: str = ""
    trailing_empty: bool = False
    skip_blank: bool = True

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
