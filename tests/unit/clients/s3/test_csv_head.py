"""What is refused of a CSV object before anything is sent."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluice.clients.s3.csv_head import check_head
from sluice.config import streams
from sluice.config.csv_reading import CsvReading
from sluice.core.csv.form import Dialect, Form, Rules
from sluice.core.errors import Refused
from tests.support.bodies import Body
from tests.support.raising import raising

TAXI = streams.load("nyc_taxi")
CASES = Path(__file__).parents[3] / "data" / "csv"


@pytest.mark.parametrize(
    "data", [b"", b"\n,,\n \n", gzip.compress(b"")], ids=["no bytes", "blank lines", "gzip of nothing"]
)
def test_no_header_is_refused_by_name(data: bytes) -> None:
    with raising(Refused, "s3://b/k", "header"):
        check_head(Body(data), "s3://b/k", None, is_whole=True)


def head(name: str, **changes: Any) -> str:
    """What is wrong with a file's begin, as the taxi stream would read it."""
    reading = CsvReading.of(replace(TAXI, csv=replace(TAXI.csv, **changes)))
    data = (CASES / name).read_bytes()
    try:
        check_head(Body(data), "s3://b/k", reading, is_whole=True)
    except Refused as error:
        return f"{error.code} {error}"
    return ""


@pytest.mark.parametrize(
    ("name", "words", "changes"),
    [
        (
            "excel.csv",
            ["SLU-315", "100 rows (first: row 0, line 2)", "'2/8/2018 5:00'", "M/d/yyyy H:mm", "--no-load"],
            {"time_formats": ["M/d/yyyy H:mm"]},
        ),
        ("trailing-commas.csv", ["SLU-315", "300 rows", "19 columns"], {"trailing_empty_columns": True}),
        ("zip.csv", ["SLU-302", "zip archive"], {}),
        ("utf-16.csv", [], {}),
        ("cr-only.csv", [], {}),
        ("quotes.csv", [], {}),
        ("numbers.csv", [], {}),
    ],
)
def test_an_object_of_which_no_row_would_be_published_is_refused_before_anything_is_sent(
    name: str, words: list[str], changes: dict[str, Any]
) -> None:
    problem = head(name)
    assert bool(problem) is bool(words)
    assert all(word in problem for word in words), problem
    assert len(problem) < 700
    if changes:
        assert head(name, **changes) == ""


def test_utf16_without_a_mark_and_a_header_is_refused() -> None:
    schema = {"fields": [{"name": name, "type": ["null", "string"]} for name in "xy"]}
    reading = CsvReading(Form(names=("x", "y")), Rules(), schema, "")
    check_head(Body(b"1,x\n2,y\n"), "s3://b/k", reading, is_whole=True)
    with raising(
        Refused, "s3://b/k: the first row has zeros", "[csv] encoding is 'utf-8'", 'declare "utf-16-le"'
    ):
        check_head(Body("1,x\n2,y\n".encode("utf-16-le")), "s3://b/k", reading, is_whole=True)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("names", [("x", "y"), ("x",), ()], ids=["two names", "a name", "a header"])
def test_a_file_of_another_encoding_than_its_declared_utf16_is_refused(
    encoding: str, names: tuple[str, ...]
) -> None:
    """As UTF-16, it is a few rows of Chinese."""
    schema = {"fields": [{"name": name, "type": ["null", "string"]} for name in "xy"]}
    reading = CsvReading(Form(encoding=encoding, names=names), Rules(), schema, "")
    own, other = ("utf-16-be", "utf-16-le") if encoding == "utf-16-be" else ("utf-16-le", "utf-16-be")
    text = {0: "x,y\n2,ä\n", 1: "1\n2ä\n"}.get(len(names), "1,y\n2,ä\n")
    for codec in (own, "utf-16", "utf-8-sig"):
        check_head(Body(text.encode(codec)), "s3://b/k", reading, is_whole=True)
    for codec, words in (("utf-8", "no zeros"), (other, f"those of {other}")):
        with raising(Refused, "s3://b/k: it", words, f"[csv] encoding is {encoding!r}", "nothing was sent"):
            check_head(Body(text.encode(codec)), "s3://b/k", reading, is_whole=True)


def test_text_without_a_zero_may_be_utf16() -> None:
    schema = {"fields": [{"name": "x", "type": ["null", "string"]}]}
    reading = CsvReading(Form(encoding="utf-16", names=("x",)), Rules(), schema, "")
    check_head(Body("한국".encode("utf-16-le")), "s3://b/k", reading, is_whole=True)


def test_an_object_of_two_kinds_of_line_ends_is_refused_before_anything_is_sent() -> None:
    reading = CsvReading.of(TAXI)
    data = (CASES / "quotes.csv").read_bytes().replace(b'5"" disk', b"5\rdisk", 1)
    mixed = data + data.split(b"\n")[1].replace(b",1000,", b",1000\r,")
    with raising(Refused, "s3://b/k: row ", "ends with a CR alone", "line_ends = 'lf'", "nothing was sent"):
        check_head(Body(mixed), "s3://b/k", reading, is_whole=True)
    lf = replace(reading, form=Form(Dialect(line_ends="lf")))
    check_head(Body(mixed), "s3://b/k", lf, is_whole=True)


def test_a_part_of_an_object_is_enough_for_its_head() -> None:
    lines = [b"a,b", *(b"%d,%d" % (n, n * n) for n in range(90_000))]
    packed = gzip.compress(b"\n".join(lines))[:100_000]
    check_head(Body(packed), "s3://b/k", None, is_whole=False)
    with raising(Refused, "s3://b/k", "required"):
        check_head(Body(packed), "s3://b/k", CsvReading.of(TAXI), is_whole=False)


@pytest.mark.parametrize("encoding", ["windows-1252", "latin-1"])
def test_utf8_under_a_declared_encoding_of_single_bytes_is_refused(encoding: str) -> None:
    """Any bytes are a text of such an encoding: it would be loaded as "MÃ¼ller"."""
    schema = {"fields": [{"name": "x", "type": "string"}]}
    reading = CsvReading(Form(encoding=encoding), Rules(), schema, "")
    for data in ("x\nMüller\n".encode("latin-1"), b"x\nabc\n", "x\nMüller\n".encode("utf-8-sig")):
        check_head(Body(data), "s3://b/k", reading, is_whole=True)
    for data in ("x\nMüller\n".encode(), b"x\n" + b"abc\n" * 40_000 + "ü\n".encode()):
        with raising(
            Refused, "s3://b/k: its bytes are UTF-8", f"encoding is {encoding!r}", "nothing was sent"
        ):
            check_head(Body(data), "s3://b/k", reading, is_whole=True)


@pytest.mark.parametrize("header", ["x,y", "Y, X", '"x","y"'])
def test_a_header_is_no_row_of_a_file_whose_columns_are_declared(header: str) -> None:
    schema = {"fields": [{"name": name, "type": "string"} for name in "xy"]}
    reading = CsvReading(Form(names=("x", "y")), Rules(), schema, "")
    check_head(Body(b"x,z\n1,2\n"), "s3://b/k", reading, is_whole=True)
    with raising(Refused, "s3://b/k: its first row is a header", "Fix: remove [csv] names", "skip_lines = 1"):
        check_head(Body(f"{header}\n1,2\n".encode()), "s3://b/k", reading, is_whole=True)


@pytest.mark.parametrize(("header", "sign"), [("id|", '"|"'), ("id;;", '";"')])
def test_a_single_name_with_the_signs_of_another_separator_is_refused(header: str, sign: str) -> None:
    schema = {"fields": [{"name": "id", "type": "string"}]}
    reading = CsvReading(Form(), Rules(), schema, "")
    with raising(Refused, "s3://b/k: the header has a single column", f"[csv] separator = {sign}"):
        check_head(Body(f"{header}\n1\n".encode()), "s3://b/k", reading, is_whole=True)


@pytest.mark.parametrize(
    ("header", "sign"), [("id;amount, net;name", '";"'), ("id\tname", r'"\t"'), ("id|name", '"|"')]
)
def test_the_separator_that_a_header_seems_to_have_is_named_as_toml_spells_it(header: str, sign: str) -> None:
    schema = {"fields": [{"name": "id", "type": "string"}, {"name": "name", "type": "string"}]}
    reading = CsvReading(Form(), Rules(), schema, "")
    with raising(Refused, f"or declare [csv] separator = {sign}"):
        check_head(Body(f"{header}\n".encode()), "s3://b/k", reading, is_whole=True)


def test_a_head_is_tried_behind_the_lines_that_are_skipped() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "long"]}]}
    rows = b"".join(b"%d\n" % number for number in range(20))
    reading = CsvReading(Form(skip_lines=1), Rules(), schema, "")
    check_head(Body(b"Report of May\na\n" + rows), "x", reading, is_whole=True)
    named = replace(reading, form=Form(names=("a",), skip_lines=2))
    check_head(Body(b"Report of May\nb\n" + rows), "x", named, is_whole=True)
    with raising(Refused, "x: no column of the header", "Report of May"):
        check_head(Body(b"Report of May\na\n" + rows), "x", replace(reading, form=Form()), is_whole=True)


PAIR = {"fields": [{"name": name, "type": ["null", "string"]} for name in ("id", "name")]}


@pytest.mark.parametrize(
    ("top", "changes", "advised"),
    [
        ("# exported by Foo, see wiki\n", {}, 'declare [csv] comment = "#", if such'),
        ("% exported\n", {"comment": "#"}, 'declare [csv] comment = "%", if such'),
        (
            "Report of May\n",
            {},
            "remove the lines above the header, or declare [csv] skip_lines = 1: the first",
        ),
        ("Report\nof May\n\n", {}, "skip_lines = 3: the first line has 1 cells, and those behind it have 2"),
        ("\nReport\n", {}, "skip_lines = 2: the"),
        ("Report of May\n", {"comment": "#"}, "those behind it have 2"),
    ],
)
def test_a_preamble_is_named(top: str, changes: dict[str, Any], advised: str) -> None:
    reading = CsvReading(Form(Dialect(**changes)), Rules(), PAIR, "")
    text = "id,name\n1,x\n2,y\n"
    check_head(Body(text.encode()), "s3://b/k", reading, is_whole=True)
    with raising(Refused, "s3://b/k: ", advised, "sluice new-stream NAME --from FILE --no-load"):
        check_head(Body(f"{top}{text}".encode()), "s3://b/k", reading, is_whole=True)


@pytest.mark.parametrize("text", ["id;x\n1;2,5\n2;3,5\n", "ids,x\n1,2\n3,4\n", "x,y\n"])
def test_another_header_is_no_preamble(text: str) -> None:
    reading = CsvReading(Form(), Rules(), PAIR, "")
    with raising(Refused, "s3://b/k: ") as caught:
        check_head(Body(text.encode()), "s3://b/k", reading, is_whole=True)
    assert "above the header" not in str(caught.value)
    assert "comment" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "windows-1252"])
@pytest.mark.parametrize("names", [(), ("id", "name")], ids=["a header", "names"])
def test_the_likely_encoding_is_named(encoding: str, names: tuple[str, ...]) -> None:
    reading = CsvReading(Form(names=names), Rules(), PAIR, "")
    text = "id,größe\n" + "1,größe\n" * 10
    with raising(Refused, "s3://b/k: ", f'"{encoding}"') as caught:
        check_head(Body(text.encode(encoding)), "s3://b/k", reading, is_whole=True)
    others = {"utf-16-le", "utf-16-be", "windows-1252"} - {encoding}
    assert not any(f'"{other}"' in str(caught.value) for other in others)


TYPED = {
    "fields": [
        {"name": n, "type": ["null", t]} for n, t in zip("abc", ("string", "long", "double"), strict=True)
    ]
}


def first_row(row: str, rows: int = 20, **more: Any) -> str:
    """What is wrong with a file of declared names that begins with this row."""
    reading = CsvReading(Form(names=("a", "b", "c")), Rules(), TYPED | more, "")
    data = f"{row}\n" + "x,1,2.5\n" * rows
    try:
        check_head(Body(data.encode()), "s3://b/k", reading, is_whole=True)
    except Refused as error:
        return str(error)
    return ""


@pytest.mark.parametrize("row", ["A, b ,C", "name,Number of rides,Share (%)", "Größe,Zahl,Anteil"])
def test_a_first_row_of_words_is_a_header(row: str) -> None:
    assert "its first row is a header, '" in first_row(row)


@pytest.mark.parametrize(
    "row",
    [
        "y,1,2.5",
        "y,,",
        "y,unknown,2.5",
        "y,NA,n/a",
        "y,?,-",
        "y,none,none",
        "y,1 ride,x",
        "y,far,far",
        "y,far",
    ],
)
def test_a_first_row_that_may_be_one_is_none(row: str) -> None:
    """It goes to the quarantine alone."""
    assert first_row(row) == ""


def test_a_first_row_of_words_is_no_header_if_others_are_wrong_too_or_few() -> None:
    row = "name,number,share"
    assert first_row(row)
    assert first_row(row, rows=5) == ""
    assert first_row(f"{row}\nz,far,near") == ""
    assert first_row(row, fields=[*TYPED["fields"][:2], {"name": "c", "type": "string"}]) == ""
