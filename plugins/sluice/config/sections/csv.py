"""``[csv]`` of a ``stream.toml``: the source objects, and how their records are read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from sluice.config.reading import limits
from sluice.config.reading.toml import ConfigError
from sluice.config.reading.values import shown
from sluice.core.csv.form import ANY, DECLARED_ENDS, ENCODINGS, LINE_ENDS, Dialect, Form


class NewColumns(StrEnum):
    """What a column of a file becomes that the schema does not have."""

    EXTRA_COLUMNS = "extra_columns"
    COLUMN = "column"


# Why cells of one separator cannot be numbers with the same comma.
_COMMA = "the separator is a comma too"


@dataclass(frozen=True)
class Csv:
    time_formats: Annotated[
        list[str],
        "patterns of times and dates, tried in this order: `yyyy`, `MM` or `M`, `MMM`, `dd` or `d`, `HH` or "
        "`H`, `hh` or `h` with `a`, `mm`, `ss`, `S` for each digit of a fraction, `XXX`, `X` or `Z` for a "
        "zone, `[optional]`, `'text'`; one letter stands for one or two digits. A date takes those without a "
        "clock, a timestamp without a zone those without one, an instant those with one",
    ] = field(default_factory=lambda: ["yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd"])
    extra_columns: Annotated[
        str,
        "the schema's map of strings for columns that the schema does not name; without it an object with "
        "such a column is rejected",
    ] = ""
    new_columns: Annotated[
        str,
        "what a column becomes that the schema does not name: `extra_columns` (an entry of that map, if it "
        "is declared) or `column` ([a column of the table](schema-changes.md#columns-of-csv-files), a text); "
        "not with `topic.registry`",
    ] = "extra_columns"
    prefix: Annotated[
        str,
        "folders of the source bucket, each ending in `/`, of ASCII letters, digits, `_`, `-`, `.` and `=`, "
        "without blanks; in the default `{name}` stands for the stream's name. The only keys that loads, "
        'backfills and changes of the stream read; `""`: the whole bucket. Who may trigger a stream\'s '
        "DAGs can bring files of its prefix into its table, and no others",
    ] = "{name}/"
    separator: Annotated[str, "one character between cells"] = ","
    quote: Annotated[
        str,
        'around a cell; doubled inside of one it is itself, as RFC 4180 says; `""`: none, quotes are text',
    ] = '"'
    escape: Annotated[
        str, "in front of a character, also a separator, quote or line break, that is one of the cell"
    ] = ""
    comment: Annotated[str, "at the begin of a line that is no record"] = ""
    line_ends: Annotated[
        str,
        "`any`: LF, CRLF and CR end a line, and a file in which rows end with a CR alone and others do not "
        "is refused; `lf`: LF, also behind a CR; `crlf`; `cr`: other line breaks are characters of a cell",
    ] = ANY
    encoding: Annotated[
        str,
        f"{', '.join(f'`{name}`' for name in ENCODINGS)}; a byte-order mark overrides it. A row with "
        "other bytes is quarantined",
    ] = "utf-8"
    skip_lines: Annotated[
        int,
        "lines at the begin of each file that are left out, whatever is in them: those above the header, or, "
        "with `names`, the header itself",
    ] = 0
    names: Annotated[list[str], "the columns of files without a header, in their order"] = field(
        default_factory=list
    )
    null_texts: Annotated[
        list[str],
        "cells that are null, as they are written in the file, escapes included: [by example](#null-texts); "
        'without `""`, an empty cell is an empty text',
    ] = field(default_factory=lambda: [""])
    quoted_nulls: Annotated[
        bool, "all of `null_texts` are null in quotes too, as files have them that quote every cell"
    ] = False
    true_texts: Annotated[list[str], "of booleans, case-insensitive"] = field(
        default_factory=lambda: ["true", "t", "yes", "y", "1"]
    )
    false_texts: Annotated[list[str], "of booleans, case-insensitive"] = field(
        default_factory=lambda: ["false", "f", "no", "n", "0"]
    )
    decimal_comma: Annotated[bool, "numbers have a comma before their fraction, and no point"] = False
    trim: Annotated[
        bool, "blanks around texts are no part of them; around numbers, times and booleans they never are"
    ] = False
    trailing_empty_columns: Annotated[
        bool, "rows, or the header, may have more cells at their end, if these are empty"
    ] = False
    skip_blank_rows: Annotated[
        bool,
        "rows of no more cells than the header whose cells are all empty are no rows, as a spreadsheet "
        "writes them; false: only lines without any text are none",
    ] = True

    @property
    def adds_columns(self) -> bool:
        """Whether a column that the schema does not name becomes one of the table."""
        return self.new_columns == NewColumns.COLUMN

    @property
    def form(self) -> Form:
        """How bytes become cells."""
        dialect = Dialect(
            self.separator,
            self.quote,
            self.escape,
            self.comment,
            self.trailing_empty_columns,
            self.skip_blank_rows,
            self.line_ends,
        )
        return Form(dialect, self.encoding, tuple(self.names), self.skip_lines)


def check(csv: Csv, where: str) -> None:
    """Raises ConfigError naming the key and the value."""
    if problem := csv.form.dialect.problem():
        raise ConfigError(
            f"{where}: [csv] {problem}. Fix: write one ASCII character that is no letter or digit"
        )
    limits.check(csv, "[csv]", where)
    if csv.new_columns not in [*NewColumns]:
        allowed = ", ".join(f'"{one}"' for one in NewColumns)
        raise ConfigError(f"{where}: [csv] new_columns {shown(csv.new_columns)}. Fix: use one of {allowed}")
    if csv.encoding not in ENCODINGS:
        raise ConfigError(
            f"{where}: [csv] encoding {shown(csv.encoding)}. Fix: write one of {', '.join(ENCODINGS)}"
        )
    if csv.line_ends not in DECLARED_ENDS:
        raise ConfigError(
            f"{where}: [csv] line_ends {shown(csv.line_ends)}. Fix: write one of {', '.join(DECLARED_ENDS)}"
        )
    if csv.decimal_comma and csv.separator == ",":
        raise ConfigError(f'{where}: [csv] decimal_comma: {_COMMA}. Fix: declare separator = ";", or another')
    for name in csv.names:
        if not name.strip():
            raise ConfigError(f"{where}: [csv] names has an empty one. Fix: name each column")
    _check_repeated(csv.names, where)
    for text in csv.null_texts:
        _check_null(text, csv, where)
    both = {text.lower() for text in csv.true_texts} & {text.lower() for text in csv.false_texts}
    if both:
        raise ConfigError(
            f"{where}: [csv] true_texts and false_texts have both {shown(min(both))}. Fix: remove it from one"
        )


def _check_null(text: str, csv: Csv, where: str) -> None:
    """That a cell may be written so."""
    escape = re.escape(csv.escape)
    bare = re.sub(f"{escape}.", "", text, flags=re.DOTALL) if csv.escape else text
    if csv.escape and csv.escape in bare:
        raise ConfigError(
            f"{where}: [csv] null_texts {shown(text)} ends with the escape {shown(csv.escape)}, which takes "
            "the next character into its cell. Fix: write the text as it stands in the file"
        )
    is_quoted = bool(csv.quote) and text.startswith(csv.quote)
    if not csv.quoted_nulls and (is_quoted or any(char in bare for char in f"{csv.separator}{LINE_ENDS}")):
        raise ConfigError(
            f"{where}: [csv] null_texts {shown(text)} is no cell without quotes. Fix: write it without its "
            "quotes, and declare quoted_nulls = true"
        )


def _check_repeated(names: Sequence[str], where: str) -> None:
    if not names:
        return
    # With NumPy, which most declarations do not need.
    from sluice.core.csv.header import same

    seen = dict[str, str]()
    for name in names:
        if (key := same(name)) in seen:
            raise ConfigError(
                f"{where}: [csv] names has {shown(seen[key])} and {shown(name)}, which are one column. Fix: "
                "rename one"
            )
        seen[key] = name
