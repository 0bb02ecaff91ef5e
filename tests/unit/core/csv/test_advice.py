"""The declaration that would accept a rejected row."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace

import pyarrow as pa
import pytest

from sluice.config.csv_reading import rules_of
from sluice.config.sections.csv import Csv
from sluice.core.csv import advice
from sluice.core.csv.advice import fix
from sluice.core.csv.columns.kinds import BOOLEAN, DATE, DOUBLE, INSTANT, LOCAL_TIME, NAMES, Kind
from sluice.core.csv.columns.patterns import Pattern
from sluice.core.csv.columns.values import Converter
from sluice.core.csv.form import Declared, Dialect, Rules


@pytest.mark.parametrize(
    ("reason", "advised"),
    [
        (
            "column at: '1/31/2016 4:05' is not a time",
            'declare [csv] time_formats = ["yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd", "M/d/yyyy H:mm"]',
        ),
        (
            "column at: '2/8/2018 5:00' is not a time",
            '"M/d/yyyy H:mm"], or "d/M/yyyy H:mm" in the place of the last',
        ),
        ("column at: '31.1.2016 04:05:06' is not a time", '"d.M.yyyy H:mm:ss"'),
        ("column at: '1/31/2016 4:05 PM' is not a time", '"M/d/yyyy h:mm a"'),
        ("column at: '2016-01-31T04:05:06.123' is not a time", "\"yyyy-MM-dd'T'H:mm:ss.SSS\""),
        ("column at: '2016-01-31T04:05:06+01:00' is not a time with a zone", "\"yyyy-MM-dd'T'H:mm:ssXXX\""),
        ("column day: '20160131' is not a date", '"yyyyMMdd"'),
        ("column a: 'NA' is not a long", 'declare [csv] null_texts = ["", "NA"], with quoted_nulls'),
        ("column a: '\\N' is not a long", 'declare [csv] null_texts = ["", "\\\\N"]'),
        (
            "column a: '1,5' is not a number",
            "another separator and declare [csv] separator and decimal_comma",
        ),
        ("column a: '1.23E+12' is not a long", "double"),
        ("column a: '2.5' is not an int", "double or a decimal"),
        (
            "column a: 'ja' is not a boolean",
            'declare [csv] true_texts = ["true", "t", "yes", "y", "1", "ja"], or so false_texts',
        ),
        (
            "the row has 19 columns, the header names 17, and the last 2 are empty",
            "trailing_empty_columns = true",
        ),
        ("the row has 1 columns, the header names 17", "[csv] separator"),
        ("the row is not UTF-8", "encoding"),
        ("text follows the quote that closes a cell", "escape"),
        ("column a is empty", "union with null"),
        ("column a: 'say \"x\"' is not a boolean", r'"1", "say \"x\""]'),
        ("column a: '5-' is not a number", "plain numbers"),
        ("column a: '1.234,56' is not a decimal(9, 2)", "plain numbers"),
        ("column a: '$5' is not an int", "plain numbers"),
        ("column at: '2016-01-31T00:00:00Z' is not a time", "a timestamp with a zone"),
        ("column at: '2016-01-31 00:00:00' is not a time with a zone", "a timestamp without a zone"),
        ("column day: '2016-01-31 00:00' is not a date", "a timestamp without a zone"),
        ("column a: '12,345' is not a number", "save the file without commas between thousands; only if"),
        (
            "column a: '12.5' is not a long",
            "declare the column as a double or a decimal (in a table that exists: a new column",
        ),
        (
            "column a: '99999999999999999999' is not a long",
            "declare the column as a double or a decimal (in a table that exists: a new column",
        ),
        ("column a: '9999999999' is not an int", "a long or a double or a decimal"),
        (
            "column a: 'BLUE' is not one of RED, GREEN",
            "add it to the enum's symbols, or declare the column as a text",
        ),
        ("column a: 'B 1' is not one of RED, GREEN", "correct the cell, or declare the column as a text"),
        ("column a: '1e999' is not a number", "beyond the type's range"),
        ("column a: '1234567.5' is not a decimal(9, 3)", "a decimal or a double"),
        ("column a: '.' is not a number", ""),
        ("column at: '15. Mai 2024' is not a date", "months as numbers"),
        (
            "column at: '2024-05-01 10:00:00 UTC' is not a time",
            "\"yyyy-MM-dd H:mm:ss' UTC'\"]: the zone is left",
        ),
        (
            "column at: '2024-05-01 10:00:00 UTC' is not a time with a zone",
            "a zone as +00:00; or declare the",
        ),
        (
            "column at: '1700000000' is not a time",
            "a long (in a table that exists: a new column, named so",
        ),
        ("column at: '1700000000' is not a time", "seconds since 1970"),
        ("column at: '1700000000000' is not a time with a zone", "milliseconds since 1970"),
        ("column at: '20240501100000' is not a time", '"yyyyMMddHHmmss"'),
        ("column at: '45292.5' is not a time", "its number of a day"),
        ("column at: '12:30' is not a time", "a time of day without a day"),
        ("column at: '31.02.2024' is not a date", "no such day"),
        ("column at: '2024-13-01 10:00:00' is not a time", "no such day"),
        ("column at: '2024-05-01 24:00' is not a time", "no such day, or time"),
        ("column at: '2024/5' is not a date", "with times as 2024-05-31"),
        ("column a: 'far' is not a number", ""),
        ("column at: 'soon' is not a time", ""),
    ],
)
def test_the_declaration_that_would_accept_a_row(reason: str, advised: str) -> None:
    assert advised in fix(reason)
    assert bool(fix(reason)) is bool(advised)


@pytest.mark.parametrize(
    ("cell", "most"), [("words", 0), ("x" * 500 + "1", 0), ("1/31/2016 4:05", 50), ("A1", 0)]
)
def test_few_patterns_are_tried(cell: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may have a thousand columns of texts."""
    tried, usual = list[object](), advice.timestamps

    def watched(texts: pa.StringArray, formats: list[Pattern]) -> object:
        tried.append(formats)
        return usual(texts, formats)

    monkeypatch.setattr(advice, "timestamps", watched)
    for kind in ("a date", "a time", "a time with a zone"):
        advice.known_patterns(cell, kind)
    assert len(tried) <= most


@pytest.mark.parametrize(
    ("cell", "kind"),
    [
        ("1/31/2016 4:05", LOCAL_TIME),
        ("2024-05-01 10:00:00 UTC", LOCAL_TIME),
        ("20240501100000", LOCAL_TIME),
        ("2016-01-31T04:05:06+01:00", INSTANT),
        ("31.1.2016", DATE),
        ("1,5", DOUBLE),
        ('say "\\x"', BOOLEAN),
        ("NA", DATE),
    ],
)
def test_the_advised_line_is_toml_and_accepts_the_cell(cell: str, kind: str) -> None:
    """With what was declared before."""
    before = Csv(time_formats=["d. M. yyyy"], null_texts=["", "none"], separator=";", true_texts=["x"])
    declared = Declared(rules_of(before), before.form.dialect)
    texts = pa.array([cell], pa.string())
    assert Converter(declared.rules).convert(texts, Kind(kind))[1][0]
    advised = re.search(
        r"declare \[csv\] (\w+ = (?:\[.*\]|true))", fix(f"column a: '{cell}' is not {NAMES[kind]}", declared)
    )
    assert advised
    ((key, value),) = tomllib.loads(advised[1]).items()
    assert Converter(rules_of(replace(before, **{key: value}))).convert(texts, Kind(kind))[1].tolist() == [
        False
    ]
    if key != "decimal_comma":
        assert set(getattr(before, key)) < set(value)


def test_a_long_list_is_not_written_as_a_whole() -> None:
    rules = Rules(time_formats=tuple(f"yyyy-MM-dd '{n}'" for n in range(20)))
    found = fix("column at: '2/8/2018 5:00' is not a time", Declared(rules))
    assert found == 'add to [csv] time_formats "M/d/yyyy H:mm" or "d/M/yyyy H:mm"'


@pytest.mark.parametrize(
    ("reason", "advised"),
    [
        ("column a: '1.5' is not a number", "a comma before fractions"),
        ("column a: '1,5' is not a long", "declare the column as a double or a decimal"),
        ("column a: '1e999' is not a number", "range"),
    ],
)
def test_numbers_with_a_comma_before_their_fraction(reason: str, advised: str) -> None:
    assert advised in fix(reason, Declared(Rules(decimal_comma=True), Dialect(separator=";")))


def test_a_null_text_that_is_declared_stands_in_quotes() -> None:
    rules = Rules(null_texts=("", "NA"))
    assert fix("column a: 'NA' is not a long", Declared(rules)) == "declare [csv] quoted_nulls = true"


def test_types_are_named_in_ddl_for_those_who_wrote_it() -> None:
    found = fix("column a: '9999999999' is not an int", Declared(is_ddl=True))
    assert found.startswith("declare the column as BIGINT or DOUBLE or DECIMAL(p, s) (in a table that exists")
    assert "as TIMESTAMP_NTZ (" in fix("column a: '2016-01-31 00:00' is not a date", Declared(is_ddl=True))
