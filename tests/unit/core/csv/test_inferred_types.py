"""A column's type, and what is said of one that is of texts for a few cells alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sluice.core.csv.inference import infer
from sluice.core.csv.inferred_types import Inferred

SUMS = [f"{number}.{number % 100:02d}" for number in range(100)]
GERMAN = [one.replace(".", ",") for one in SUMS]


def of(cells: Sequence[str], header: str = "id;x") -> Inferred:
    """What is inferred of a column x."""
    rows = "".join(f"{number};{cell}\n" for number, cell in enumerate(cells))
    return infer(iter([f"{header}\n{rows}".encode()]))


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (
            [*GERMAN[:40], "1.234,50", *GERMAN[40:]],
            "100 of 101 cells are numbers, row 40 (line 42) is '1.234,50'",
        ),
        ([*SUMS, "total"], "100 of 101 cells are numbers, row 100 (line 102) is 'total'"),
        ([*SUMS, "0.50 €"], "row 100 (line 102) is '0.50 €'"),
        (
            [*SUMS, "", "x", "y"],
            "100 of 102 cells are numbers, 2 are not, the first in row 101 (line 103) is 'x'",
        ),
        (["2026-01-31 04:05:06"] * 9 + ["gestern"], "9 of 10 cells are times, row 9 (line 11) is 'gestern'"),
        (["ja", "nein"] * 9 + ["?!"], "18 of 19 cells are booleans, row 18 (line 20) is '?!'"),
        (["0,50 €", "1,00 €"], "'0,50 €' is a number with a sign"),
        (["15. Mai 2024", "16. Mai 2024"], "'15. Mai 2024' looks like a time, of no usual pattern"),
    ],
)
def test_why_a_column_is_a_text_is_a_doubt(cells: list[str], words: str) -> None:
    found = of(cells)
    assert found.columns["x"] == "STRING"
    (doubt,) = found.doubts
    assert doubt.startswith("x: ")
    assert words in doubt


@pytest.mark.parametrize("cells", [["a", "b", "c"], ["A12", "13", "B7"], ["10.0.0.1", "10.0.0.2"], ["1.2.3"]])
def test_of_texts_there_is_no_doubt(cells: list[str]) -> None:
    found = of(cells)
    assert (found.columns["x"], found.doubts) == ("STRING", [])


def test_rows_are_those_of_the_file_also_behind_lines_that_are_skipped() -> None:
    found = of([*SUMS, "total"], "Report\n\nid;x")
    assert "row 100 (line 104) is 'total'" in found.doubts[-1]


@pytest.mark.parametrize(
    ("cells", "pair"),
    [
        (["ja", "Nein", "ja"], ("ja", "nein")),
        (["WAHR", "FALSCH"], ("wahr", "falsch")),
        (["oui", "non"], ("oui", "non")),
    ],
)
def test_words_of_other_languages_are_booleans_by_declaration(
    cells: list[str], pair: tuple[str, str]
) -> None:
    found = of(cells)
    assert found.columns["x"] == "BOOLEAN"
    assert (found.declared["true_texts"], found.declared["false_texts"]) == ([pair[0]], [pair[1]])
    assert found.doubts == [f"x: only {pair[0]} and {pair[1]}: a BOOLEAN, by true_texts and false_texts"]


def test_the_words_of_all_booleans_are_declared_and_one_word_is_a_doubt() -> None:
    found = of(["ja;true;Y", "nein;false;Y"], "id;x;y;z")
    assert [found.columns[name] for name in "xyz"] == ["BOOLEAN"] * 3
    assert (found.declared["true_texts"], found.declared["false_texts"]) == (
        ["ja", "true", "y"],
        ["nein", "false", "n"],
    )
    assert "z: only 'Y', taken for a BOOLEAN" in found.doubts
    assert of(["ja", "ja"]).columns["x"] == "STRING"


@pytest.mark.parametrize(
    ("cells", "formats", "ddl"),
    [
        (["2026-01-31T04:05:06", "2026-01-31T04:05:06.123"], ["yyyy-MM-dd'T'H:mm:ss[.SSS]"], "TIMESTAMP_NTZ"),
        (
            ["2026-01-31T04:05:06.123Z", "2026-01-31T04:05:06Z"],
            ["yyyy-MM-dd'T'H:mm:ss[.SSS]XXX"],
            "TIMESTAMP",
        ),
        (["2026-01-31 04:05", "2026-01-31 04:05:07"], ["yyyy-MM-dd H:mm[:ss]"], "TIMESTAMP_NTZ"),
        (
            ["2026-01-31 04:05:06.12", "2026-01-31 04:05:06", "2026-01-31 04:05:06.5"],
            ["yyyy-MM-dd H:mm:ss", "yyyy-MM-dd H:mm:ss.S", "yyyy-MM-dd H:mm:ss.SS"],
            "TIMESTAMP_NTZ",
        ),
    ],
)
def test_a_fraction_or_seconds_may_be_left_out(cells: list[str], formats: list[str], ddl: str) -> None:
    found = of(cells)
    assert (found.columns["x"], found.declared["time_formats"], found.doubts) == (ddl, formats, [])


def test_a_zone_in_words_is_a_part_of_the_pattern_and_a_doubt() -> None:
    found = of(["2026-01-31 04:05:06 UTC", "2026-01-31 04:05:07 UTC"])
    assert (found.columns["x"], found.declared["time_formats"]) == (
        "TIMESTAMP_NTZ", ["yyyy-MM-dd H:mm:ss 'UTC'"],
    )  # fmt: skip
    assert "stored as a time of UTC, without a zone" in found.doubts[0]


@pytest.mark.parametrize(
    ("cells", "ddl"),
    [
        (SUMS, "DECIMAL(18, 2)"),
        (["-1.5000", "22.0001"], "DECIMAL(18, 4)"),
        (["123456789012345678.25", "1.00"], "DECIMAL(38, 2)"),
        (["1.5", "2.5"], "DOUBLE"),
        (["1.50", "2.5"], "DOUBLE"),
        (["1.12345", "2.00000"], "DOUBLE"),
        (["1.00", "2"], "BIGINT"),
    ],
)
def test_sums_of_money_are_exact(cells: list[str], ddl: str) -> None:
    found = of(cells)
    assert (found.columns["x"], found.doubts) == (ddl, [])


def test_german_sums_of_money_are_exact_too() -> None:
    found = of(GERMAN)
    assert (found.columns["x"], found.declared["decimal_comma"]) == ("DECIMAL(18, 2)", True)


def test_escapes_are_recognised() -> None:
    found = of(['"Jon \\"x\\"; jr."'] * 9 + [r"\N"])
    assert (found.columns, found.rows) == ({"id": "BIGINT", "x": "STRING"}, 10)
    assert (found.declared, found.doubts) == ({"separator": ";", "escape": "\\"}, [])
    # Its null is written with one.
    found = infer(iter([b"id,who\n" + b'\\N,"a \\"b\\""\n7,c\n' * 5]))
    assert (found.columns["id"], found.declared["null_texts"]) == ("BIGINT", ["", r"\N"])
    # A path's last backslash is none.
    assert "escape" not in of([r'"C:\dir\"', '"D:"']).declared
    doubtful = of(['"a \\"b\\""', r"C:\dir"])
    assert doubtful.doubts == [r"a backslash is an escape, so '\\d' is 'd'"]
