"""What a file seems to be: its columns are read by what was inferred, and doubts are said."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from sluice.core.csv.inference import Inferred, NotInferred, infer

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
        "amount_eur": "DOUBLE", "plz": "STRING", "note": "STRING", "nothing": "STRING", "at": "TIMESTAMP",
    }  # fmt: skip
    assert found.declared == {
        "time_formats": ["yyyy-MM-dd H:mm:ss", "M/d/yyyy", "yyyy-MM-dd'T'H:mm:ssXXX"],
        "null_texts": ["", "NA"],
    }
    said = "\n".join(found.doubts)
    assert all(
        word in said for word in ("plz: its numbers", "nothing: it has no value", "amount_eur: NA", "cents")
    )


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


@pytest.mark.parametrize("text", ["", "a,b\n", "名前,b\n1,2\n", "a,A\n1,2\n"])
def test_of_some_files_nothing_is_inferred(text: str) -> None:
    with pytest.raises(NotInferred, match="Fix: "):
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
    assert found.rows == 29_999
    assert set(found.columns.values()) == {"BIGINT", "DOUBLE", "TIMESTAMP_NTZ", "BOOLEAN"}
