"""Files after public bug reports (``tests/data/csv``), as the taxi stream reads them: the right values, or
rejected."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import fastavro
import pytest

from sluice.clients.s3.csv_rows import data_rows
from sluice.clients.s3.unpacking import OtherFormat, unpacked
from sluice.config import streams
from sluice.config.csv_reading import CsvReading
from sluice.core.csv.header import HEADER_BYTES, InvalidHeader, names_of
from sluice.core.csv.records.blocks import blocks, first_record
from sluice.core.csv.records.encodings import as_utf8

TAXI = streams.load("nyc_taxi")
CASES = Path(__file__).parents[3] / "data" / "csv"


class Read:
    """A file's rows: ``good``, records by PULocationID; ``rejected``, the reasons of the others in their
    order."""

    def __init__(self, data: bytes, **changes: Any) -> None:
        reading = CsvReading.of(replace(TAXI, csv=replace(TAXI.csv, **changes)))
        self.good, self.rejected = dict[int, Any](), list[str]()
        chunks = as_utf8(unpacked(io.BytesIO(data), 4096), reading.form.encoding)
        found = first_record(iter(chunks), reading.form.dialect, HEADER_BYTES)
        assert found is not None
        header, behind, line, _ = found
        layout = reading.layout(names_of(header, reading.form.dialect, "x.csv"), "x.csv", 1_000_000)
        schema = fastavro.parse_schema(dict(reading.schema))
        rest: Iterator[bytes] = chain([behind], chunks)
        for block in blocks(rest, reading.form.dialect, layout.width, line):
            rows = layout.rows(block.records)
            self.rejected += [why for _, why in sorted(rows.reasons.items())]
            for body in rows.bodies:
                record: Any = fastavro.schemaless_reader(io.BytesIO(body.as_py()), schema, None)
                self.good[record["PULocationID"]] = record
        # The second parser, by which a load is verified.
        assert data_rows(io.BytesIO(data), "x.csv", reading.form) == len(self.good) + len(self.rejected)


def case(name: str, **changes: Any) -> Read:
    return Read((CASES / name).read_bytes(), **changes)


def test_quotes_after_rfc_4180() -> None:
    found = case("quotes.csv")
    notes = [(found.good[1000 + n]["other_columns"] or {}).get("note") for n in range(13)]
    assert notes == [
        'He said "hi"', 'a "b", c', "C:\\temp\\", "C:\\temp\\", "x\\\\y", '5" disk', "two, words", "\\N",
        None, '"', "'", "#comment", "back\\slash, and comma",
    ]  # fmt: skip
    assert found.rejected == []


@pytest.mark.parametrize("name", ["cr-only.csv", "utf-16.csv"])
def test_a_file_has_the_right_values(name: str) -> None:
    found = case(name)
    assert (sorted(found.good), found.rejected) == (list(range(1000, 1020)), [])
    assert {record["total_amount"] for record in found.good.values()} == {10.8}


def test_a_zip_is_named() -> None:
    with pytest.raises(OtherFormat, match="zip"):
        case("zip.csv")


def test_one_row_of_25000_cells_is_rejected_alone() -> None:
    found = case("25000-commas.csv.gz")
    assert len(found.good) == 199
    assert found.rejected == ["the row has 25001 columns, the header names 17, and the last 24984 are empty"]


def test_cells_behind_the_header_are_ignored_if_declared() -> None:
    assert len(case("trailing-commas.csv", trailing_empty_columns=True).good) == 300
    found = case("trailing-commas.csv")
    assert (len(found.good), len(found.rejected)) == (0, 300)
    assert found.rejected[0] == "the row has 19 columns, the header names 17, and the last 2 are empty"


def test_a_file_that_a_spreadsheet_saved_again() -> None:
    found = case("excel.csv", time_formats=["M/d/yyyy H:mm"])
    assert (len(found.good), found.rejected) == (100, [])
    assert f"{found.good[1001]['tpep_pickup_datetime']:%Y-%m-%d %H:%M}" == "2018-02-08 05:01"


def test_a_column_with_the_name_of_the_map_is_kept() -> None:
    found = case("name-of-the-map.csv")
    assert [record["other_columns"] for record in found.good.values()] == [
        {"other_columns": "keep-me", "ehail_fee": "1.25"},
        {"ehail_fee": "1.25"},
        {"other_columns": "keep-me-too"},
    ]


def test_numbers_are_exact_or_rejected() -> None:
    found, checked = case("numbers.csv"), 0
    with (CASES / "numbers.expected.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            number, column, expected = int(row["PULocationID"]), row["column"], row["expected"]
            if number not in found.good:
                assert "quarantine" in expected, row
                checked += 1
                continue
            value = found.good[number][column]
            allowed = [row["cell"] if text in ("exact", "BOM N") else text for text in expected.split(" or ")]
            assert str(value) in allowed or value in map(_number, allowed), row
            checked += 1
    assert checked == 19
    assert len(found.rejected) == 19 - len(found.good)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def test_a_row_of_a_megabyte_and_a_half_is_rejected_and_named() -> None:
    head, row = (CASES / "quotes.csv").read_bytes().split(b"\n")[:2]
    large = row.replace(b'"He said ""hi"""', b"x" * 1_500_000)
    found = Read(b"\n".join([head, row, large, row.replace(b",1000,", b",1001,")]))
    assert sorted(found.good) == [1000, 1001]
    assert found.rejected[0].startswith("too large: the record's value has 15")


def test_an_extra_column_without_a_map_is_refused() -> None:
    with pytest.raises(InvalidHeader, match="'note' of the header is not in the schema"):
        case("quotes.csv", extra_columns="")
