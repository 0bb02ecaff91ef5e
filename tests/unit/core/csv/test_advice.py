"""Reasons of rejected rows, summed up with the declaration that would accept them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sluice.core.csv import advice
from sluice.core.csv.advice import Rejected, fix, summary
from sluice.core.csv.columns.patterns import Pattern


@pytest.mark.parametrize(
    ("reason", "advised"),
    [
        ("column at: '1/31/2016 4:05' is not a time", 'add "M/d/yyyy H:mm" to [csv] time_formats'),
        ("column at: '2/8/2018 5:00' is not a time", '"M/d/yyyy H:mm" or "d/M/yyyy H:mm"'),
        ("column at: '31.1.2016 04:05:06' is not a time", '"d.M.yyyy H:mm:ss"'),
        ("column at: '1/31/2016 4:05 PM' is not a time", '"M/d/yyyy h:mm a"'),
        ("column at: '2016-01-31T04:05:06.123' is not a time", "\"yyyy-MM-dd'T'H:mm:ss.SSS\""),
        ("column at: '2016-01-31T04:05:06+01:00' is not a time with a zone", "\"yyyy-MM-dd'T'H:mm:ssXXX\""),
        ("column day: '20160131' is not a date", '"yyyyMMdd"'),
        ("column a: 'NA' is not a long", 'add "NA" to [csv] null_texts'),
        ("column a: '\\N' is not a long", 'add "\\\\N" to [csv] null_texts'),
        ("column a: '1,5' is not a number", "decimal_comma = true"),
        ("column a: '1.23E+12' is not a long", "double"),
        ("column a: '2.5' is not an int", "double or decimal"),
        ("column a: 'ja' is not a boolean", 'add "ja" to [csv] true_texts'),
        (
            "the row has 19 columns, the header names 17, and the last 2 are empty",
            "trailing_empty_columns = true",
        ),
        ("the row has 1 columns, the header names 17", "[csv] separator"),
        ("the row is not UTF-8", "encoding"),
        ("text follows the quote that closes a cell", "escape"),
        ("column a is empty", "union with null"),
        ("column a: 'say \"x\"' is not a boolean", r'add "say \"x\"" to'),
        ("column a: '5-' is not a number", "plain numbers"),
        ("column a: '1.234,56' is not a decimal(9, 2)", "plain numbers"),
        ("column a: '$5' is not an int", "plain numbers"),
        ("column at: '2016-01-31T00:00:00Z' is not a time", "a timestamp with a zone"),
        ("column at: '2016-01-31 00:00:00' is not a time with a zone", "a timestamp without a zone"),
        ("column day: '2016-01-31 00:00' is not a date", "a timestamp without a zone"),
        ("column a: '12,345' is not a number", "save the file without commas between thousands; only if"),
        ("column a: '12.5' is not a long", "declare the column as a double or decimal"),
        ("column a: '99999999999999999999' is not a long", "declare the column as a double or decimal"),
        ("column a: '9999999999' is not an int", "a long, double or decimal"),
        ("column a: 'BLUE' is not one of RED, GREEN", "as a text"),
        ("column a: 'far' is not a number", ""),
        ("column at: 'soon' is not a time", ""),
    ],
)
def test_the_declaration_that_would_accept_a_row(reason: str, advised: str) -> None:
    assert advised in fix(reason)
    assert bool(fix(reason)) is bool(advised)


def test_the_three_most_frequent_reasons_are_named_with_their_first_row() -> None:
    found = summary(
        [
            *(Rejected(row, f"column at: '{row}/31/2016 4:05' is not a time") for row in (1, 3, 5)),
            Rejected(2, "column id: 'x' is not a long"),
            *(Rejected(row, "the row has 3 columns, the header names 2") for row in (7, 8)),
            Rejected(9, "column name is empty"),
        ]
    )
    assert found.startswith("3 rows (the first row 1): column at: '1/31/2016 4:05' is not a time; fix: add ")
    assert "2 rows (the first row 7): the row has 3 columns" in found
    assert "1 row (row 2): column id: 'x' is not a long; " in found
    assert found.endswith("and 1 more reasons")


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


def test_reasons_that_differ_in_numbers_alone_are_one() -> None:
    reasons = [
        *(f"too large: the record's value has {n} bytes, the topic takes 9" for n in (10, 11, 12)),
        *(f"the row has {n} columns, the header names 2" for n in (4, 5)),
        *(
            f"the row has {n} columns, the header names 2, and {which} empty"
            for n, which in ((3, "the last is"), (4, "the last 2 are"))
        ),
        "the row has 1 columns, the header names 2",
    ]
    found = summary(Rejected(row, reason) for row, reason in enumerate(reasons))
    assert found.startswith("3 rows (the first row 0): too large: the record's value has 10 bytes")
    assert "2 rows (the first row 3): the row has 4 columns, the header names 2; " in found
    assert "2 rows (the first row 5): the row has 3 columns" in found
    assert found.endswith("and 1 more reasons")
