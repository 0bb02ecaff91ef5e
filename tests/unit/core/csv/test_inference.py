"""What a file seems to be: its columns are read by what was inferred, and doubts are said."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from sluice.core.csv.inference import NotInferred, infer
from sluice.core.csv.inferred_types import Inferred

SAMPLE = Path(__file__).parents[4] / "samples" / "nyc_taxi" / "taxi-data.csv.gz"
CASES = Path(__file__).parents[3] / "data" / "csv"


def of(data: str | bytes) -> Inferred:
    return infer(iter([data if isinstance(data, bytes) else data.encode()]))


def test_types_of_columns() -> None:
    found = of(
        "Trip ID,Started At,day,ok,Amount (EUR),plz,note,nothing,at\n"
        '1,2026-01-31 04:05:06,1/31/2026,yes,1.50,01234,"a, b",,2026-01-31T04:05:06Z\n'
        "2,2026-02-01 00:00:00,2/1/2026,no,NA,99999,,,2026-01-31T04:05:06Z\n"
    )
    assert found.columns == {
        "trip_id": "BIGINT", "started_at": "TIMESTAMP_NTZ", "day": "DATE", "ok": "BOOLEAN",
        "amount_eur": "DECIMAL(18, 2)",
        "plz": "STRING", "note": "STRING", "nothing": "STRING", "at": "TIMESTAMP",
    }  # fmt: skip
    assert found.declared == {
        "time_formats": ["yyyy-MM-dd H:mm:ss", "M/d/yyyy", "yyyy-MM-dd'T'H:mm:ssXXX"],
        "null_texts": ["", "NA"],
    }
    assert [doubt.split(",")[0] for doubt in found.doubts] == [
        "plz: its numbers begin with zeros", "nothing: it has no value", "amount_eur: NA is taken for null",
    ]  # fmt: skip


@pytest.mark.parametrize("row", ['"NA","x"', '1,"NA"', "1,x"])
def test_nulls_in_quotes_are_declared_if_a_file_has_them(row: str) -> None:
    found = of(f"n,t\nNA,a\n2,b\n{row}")
    assert found.declared["null_texts"] == ["", "NA"]
    assert found.declared.get("quoted_nulls", False) is ("NA" in row)


def test_a_day_that_may_be_a_month_is_a_doubt() -> None:
    found = of("d\n1/2/2026\n2/3/2026\n")
    assert found.declared["time_formats"] == ["M/d/yyyy"]
    assert "may be M/d/yyyy or d/M/yyyy" in found.doubts[0]
    assert of("d\n1/2/2026\n22/3/2026\n").declared["time_formats"] == ["d/M/yyyy"]


def test_the_form_of_a_german_spreadsheet() -> None:
    text = "Straße;Betrag;Datum;;\r\nGrün;1,5;31.01.2026 04:05;;\r\nBlau;2,25;1.02.2026 04:05;;\r\n"
    found = of(text.encode("cp1252"))
    assert found.columns == {"strasse": "STRING", "betrag": "DOUBLE", "datum": "TIMESTAMP_NTZ"}
    assert found.declared == {
        "encoding": "windows-1252", "separator": ";", "trailing_empty_columns": True, "decimal_comma": True,
        "time_formats": ["d.M.yyyy H:mm"],
    }  # fmt: skip


def test_a_file_without_a_header_gets_names() -> None:
    found = of("1\tx\n2\ty\n")
    assert found.declared == {"separator": "\t", "names": ["column_1", "column_2"]}
    assert found.columns == {"column_1": "BIGINT", "column_2": "STRING"}


def test_cells_that_are_empty_in_the_first_row_are_columns() -> None:
    sparse = of("1,,\n2,b,c\n3,x,y\n")
    assert (list(sparse.columns), sparse.rows) == (["column_1", "column_2", "column_3"], 3)
    assert "skip_lines" not in sparse.declared
    found = of("1,a,,\n2,b,,\n")
    assert list(found.columns) == ["column_1", "column_2"]
    assert found.declared["trailing_empty_columns"] is True


def test_excels_line_is_skipped_and_tells_the_separator() -> None:
    assert of("sep=;\na;b\n1;2\n").declared == {"separator": ";", "skip_lines": 1}
    assert of("sep=;\na\n1\n").declared == {"separator": ";", "skip_lines": 1}


@pytest.mark.parametrize(
    ("header", "names", "words"),
    [
        (",a,b", ["column_1", "a", "b"], "column 1 of its header has no name, as pandas"),
        ("a,A,a_2", ["a", "a_2", "a_2_2"], "its header names column 'a' twice"),
        ("名前,b,c", ["column_1", "b", "c"], "column '名前' of its header can be no column"),
    ],
)
def test_names_replace_a_header_that_cannot_be_one(header: str, names: list[str], words: str) -> None:
    for blank in ("", "\n"):
        found = of(f"{blank}{header}\n1,2,3\n")
        assert found.declared == {"names": names, "skip_lines": 1 + len(blank)}
        assert (list(found.columns), found.rows) == (names, 1)
        assert found.doubts[0].startswith(words)


def test_comments_before_a_header_and_years_in_it() -> None:
    found = of("# exported\na,b\n1,2\n")
    assert (list(found.columns), found.declared) == (["a", "b"], {"comment": "#"})
    assert list(of("#id,b\n1,2\n").columns) == ["id", "b"]
    assert list(of("country,2016,2017\nDE,1,2\n").columns) == ["country", "_2016", "_2017"]
    assert "names" in of("Berlin,2016\nBonn,2017\n").declared


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it has no row"),
        ("a,b\n", "it has a header and no row"),
        ('a,"b\n1,2\n3,4\n', "line 1: a quote opens a cell and is never closed"),
        ("a,b\n" + "1,2\n1,2,3\n" * 30, "of 60 rows, 30 with .* first line 3: '1,2,3'"),
    ],
)
def test_of_some_files_nothing_is_inferred(text: str, words: str) -> None:
    with pytest.raises(NotInferred, match=f"{words}.* Fix: "):
        of(text)


@pytest.mark.parametrize(
    "name", ["excel.csv", "trailing-commas.csv", "utf-16.csv", "cr-only.csv", "quotes.csv"]
)
def test_files_as_the_world_writes_them(name: str) -> None:
    found = of((CASES / name).read_bytes())
    assert (found.columns["vendorid"], found.columns["fare_amount"]) == ("BIGINT", "DOUBLE")
    assert found.columns["tpep_pickup_datetime"] == "TIMESTAMP_NTZ"


def test_the_sample() -> None:
    found = of(gzip.decompress(SAMPLE.read_bytes()))
    assert found.doubts == []
    assert found.rows == 29_999
    assert set(found.columns.values()) == {"BIGINT", "DOUBLE", "TIMESTAMP_NTZ", "BOOLEAN"}


def test_a_file_has_one_order_of_day_and_month() -> None:
    """Each pattern is of all columns, and the first that fits counts."""
    found = of("billed,delivered\n01/02/2016,31/12/2016\n01/03/2016,05/06/2016\n")
    assert found.declared["time_formats"] == ["d/M/yyyy"]
    assert set(found.columns.values()) == {"DATE"}
    assert "billed: '01/02/2016' may be M/d/yyyy or d/M/yyyy; taken for d/M/yyyy" in found.doubts
    other = of("at,day\n1/2/2016 10:00,31/12/2016\n")
    assert other.declared["time_formats"] == ["d/M/yyyy H:mm", "d/M/yyyy"]


def test_a_column_of_the_other_order_is_a_text() -> None:
    found = of("a,b,c\n1/31/2016,31/1/2016,2016-01-01\n2/3/2016,2/3/2016,2016-01-02\n")
    assert found.columns == {"a": "DATE", "b": "STRING", "c": "DATE"}
    assert found.declared["time_formats"] == ["M/d/yyyy", "yyyy-MM-dd"]
    assert any(doubt.startswith("b: '31/1/2016' is d/M/yyyy") for doubt in found.doubts)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["12345678901234567890", "7"], "more digits than a DOUBLE keeps"),
        (["12345678901234567.5", "7"], "more digits than a DOUBLE keeps"),
        (["1.234", "12.345", "987"], "'1.234' may be thousands"),
        (["1,234", "5"], "'1,234' may be thousands"),
        (["1.234.567", "5"], "may be thousands"),
        (["+491701234567", "+49"], "plus sign"),
        (["007", "1.5"], "zeros"),
    ],
)
def test_cells_that_a_number_would_alter_are_texts(cells: list[str], words: str) -> None:
    found = of("a;b\n" + "".join(f"{cell};x\n" for cell in cells))
    assert found.columns["a"] == "STRING"
    assert words in found.doubts[0]
    assert "decimal_comma" not in found.declared


@pytest.mark.parametrize(
    ("cells", "ddl"),
    [
        (["0.125", "0.250"], "DECIMAL(18, 3)"),
        (["1234.125", "1.250"], "DECIMAL(18, 3)"),
        (["1.5", "1.250"], "DOUBLE"),
    ],
)
def test_a_fraction_that_cannot_be_thousands_is_one(cells: list[str], ddl: str) -> None:
    assert of("a,b\n" + "".join(f"{cell},x\n" for cell in cells)).columns["a"] == ddl


def test_booleans_are_of_one_pair_and_years_of_two_digits_a_doubt() -> None:
    found = of("flag,code,day\nt,t,1/31/65\nf,y,1/31/66\nT,f,1/30/65\n")
    assert found.columns == {"flag": "BOOLEAN", "code": "STRING", "day": "DATE"}
    assert "day: '1/31/65' has a year of two digits, taken for one from 2000 on" in found.doubts


def test_a_cr_in_a_file_of_lf_is_a_character_and_a_doubt() -> None:
    found = of("a,b\n1,first\rsecond\n2,ok\n")
    assert (found.declared, found.rows) == ({"line_ends": "lf"}, 2)
    assert any("taken for line ends of LF" in doubt for doubt in found.doubts)
    assert "line_ends" not in of("a,b\r\n1,x\r\n").declared


@pytest.mark.parametrize("text", ["a,b\r1,Grün\r", "a,b\n1,x\n2,Grün"])
def test_other_bytes_than_utf8_are_seen_in_each_line(text: str) -> None:
    found = of(text.encode("cp1252"))
    assert found.declared == {"encoding": "windows-1252"}
    assert "encoding" not in of(text).declared
