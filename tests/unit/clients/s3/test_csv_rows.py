"""Data rows of a CSV: what counts as a row, and what is refused."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from sluice.clients.s3 import csv_rows
from sluice.config import streams
from sluice.config.csv_reading import CsvReading
from sluice.core.csv.form import Dialect, Form, Rules
from sluice.core.csv.records.blocks import First, WrongQuotes, begin, blocks
from sluice.core.csv.records.quotes import cells_of
from sluice.core.errors import Refused
from tests.support.raising import raising

CSV = b"a,b\n1,2\n\n3,4\r\n   \n5,6"


class Body(io.RawIOBase):
    """A response that gives at most ``size`` bytes at a time."""

    def __init__(self, data: bytes, size: int = 1000) -> None:
        self.rest, self.size = data, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self.rest[: min(self.size, len(buffer))]
        buffer[: len(part)], self.rest = part, self.rest[len(part) :]
        return len(part)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_blank_lines_are_no_rows_wherever_the_chunks_end(size: int) -> None:
    assert csv_rows.data_rows(Body(CSV, size), "x") == 3


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_gzip_is_told_by_its_first_bytes_and_may_have_members(size: int) -> None:
    data = gzip.compress(b"a,b\n1,2\n") + gzip.compress(b"3,4\n")
    assert csv_rows.data_rows(Body(data, size), "x") == 2


def test_padding_after_gzip_is_no_member() -> None:
    assert csv_rows.data_rows(Body(gzip.compress(b"a\n1\n") + b"\0" * 100), "x") == 1


def test_a_header_alone_is_no_row() -> None:
    assert csv_rows.data_rows(Body(b"a,b"), "x") == 0


# Named: a test whose name holds the time of its collection is another one in each process.
@pytest.mark.parametrize(
    "data", [b"", b"\n,,\n \n", gzip.compress(b"")], ids=["no bytes", "blank lines", "gzip of nothing"]
)
def test_no_header_is_refused_by_name(data: bytes) -> None:
    with raising(Refused, "s3://b/k", "header"):
        csv_rows.data_rows(Body(data), "s3://b/k")
    with raising(Refused, "s3://b/k", "header"):
        csv_rows.check_head(Body(data), "s3://b/k", None, is_whole=True)


def test_truncated_gzip_is_refused_by_name() -> None:
    data = gzip.compress(b"a,b\n" + b"1,2\n" * 10_000)
    with raising(Refused, "s3://b/k", "truncated"):
        csv_rows.data_rows(Body(data[:-9]), "s3://b/k")


def test_damaged_gzip_is_refused_by_name() -> None:
    data = bytearray(gzip.compress(b"a,b\n" + b"1,2\n" * 10_000))
    data[30] ^= 0xFF
    with raising(Refused, "s3://b/k", "packed data"):
        csv_rows.data_rows(Body(bytes(data)), "s3://b/k")


def test_something_else_after_gzip_is_refused() -> None:
    with raising(Refused, "s3://b/k", "packed data"):
        csv_rows.data_rows(Body(gzip.compress(b"a\n1\n") + b"b"), "s3://b/k")


def test_a_zip_is_named() -> None:
    with raising(Refused, "s3://b/k", "zip archive"):
        csv_rows.data_rows(Body(b"PK\x03\x04" + bytes(50)), "s3://b/k")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("a,b\n".encode("utf-32"), "UTF-32"),
        (gzip.compress(gzip.compress(b"a\n1\n", mtime=0), mtime=0), "packed twice"),
        (gzip.compress(b"PK\x03\x04", mtime=0), "zip archive"),
        (b"\x50\x2a\x4d\x18\0\0\0\0\x28\xb5\x2f\xfd", "skippable frame"),
    ],
    ids=["utf-32", "gzip", "zip", "zstd"],
)
def test_another_format_is_named(data: bytes, words: str) -> None:
    with raising(Refused, "s3://b/k: it is", words):
        csv_rows.data_rows(Body(data), "s3://b/k")


PARTS = [
    b"\n",
    b"\r\n",
    b"\r",
    b" ",
    b"\t",
    b'"',
    b'""',
    b'"a\nb"',
    b",",
    b",,",
    b"12",
    b"\xef\xbb\xbf",
    b"\x85",
    b"\\",
    b"#",
]
FORMS = [
    Form(),
    Form(Dialect(skip_blank=False)),
    Form(Dialect(trailing_empty=True)),
    Form(Dialect(escape="\\")),
    Form(Dialect(comment="#")),
    Form(Dialect(quote="")),
    Form(names=("x", "y")),
    *(Form(Dialect(line_ends=ends)) for ends in ("lf", "crlf", "cr")),
    Form(skip_lines=2),
    Form(Dialect(line_ends="lf", comment="#"), names=("x", "y"), skip_lines=3),
    Form(Dialect(line_ends="crlf"), skip_lines=1),
]


def producers(data: bytes, form: Form) -> list[int]:
    """The line of each row, by the producer's parser."""
    chunks = iter([data])
    header, behind, line, _ = begin(chunks, form, 10**6) or First()
    width = len(form.names) or len(names(header, form))
    found = blocks([behind, *chunks], form.dialect, width, line)
    return [block.line_of(n) for block in found for n in range(len(block.records))]


def names(header: bytes, form: Form) -> list[bytes]:
    cells = cells_of(header, form.dialect)
    while form.dialect.trailing_empty and len(cells) > 1 and not cells[-1].strip():
        cells.pop()
    return cells


@given(
    st.lists(st.sampled_from(PARTS), max_size=25).map(b"".join),
    st.integers(1, 9),
    st.integers(1, 9),
    st.sampled_from([bytes, gzip.compress]),
    st.sampled_from(FORMS),
)
def test_rows_and_their_lines_are_those_of_the_producers_parser(
    rest: bytes, size: int, block: int, pack: Callable[[bytes], bytes], form: Form
) -> None:
    """Quotes, line ends of all kinds, byte-order marks, no line end at the end, wherever a block ends."""
    end = {"crlf": b"\r\n", "cr": b"\r"}.get(form.dialect.line_ends, b"\n")
    data = (b'"title' + end) * form.skip_lines + b"a,b" + end + rest
    try:
        found = producers(data, form)
    except WrongQuotes:
        # Nothing of such an object is sent, so nothing is counted.
        reject()
    with patch.object(csv_rows, "BLOCK_BYTES", block):
        assert csv_rows.data_rows(Body(pack(data), size), "s3://b/k", form) == len(found)
        for row, line in enumerate(found):
            assert csv_rows.line_of_row(Body(pack(data), size), row, "x", form) == line
        assert csv_rows.line_of_row(Body(pack(data), size), len(found), "x", form) is None


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_that_are_skipped_are_no_rows_and_count_as_lines(end: bytes) -> None:
    data = end.join([b'"of May', b"", b"a,b", b"1,2", b"3,4", b""])
    form = Form(skip_lines=2)
    for block in (1, 2, 99):
        with patch.object(csv_rows, "BLOCK_BYTES", block):
            assert csv_rows.data_rows(Body(data, 1), "x", form) == 2
            found = [csv_rows.line_of_row(Body(data, 1), row, "x", form) for row in range(3)]
            assert found == [4, 5, None]
    with raising(Refused, "x: no header line"):
        csv_rows.data_rows(Body(data), "x", Form(skip_lines=9))


def test_a_head_is_tried_behind_the_lines_that_are_skipped() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "long"]}]}
    rows = b"".join(b"%d\n" % number for number in range(20))
    reading = CsvReading(Form(skip_lines=1), Rules(), schema, "")
    csv_rows.check_head(Body(b"Report of May\na\n" + rows), "x", reading, is_whole=True)
    named = replace(reading, form=Form(names=("a",), skip_lines=2))
    csv_rows.check_head(Body(b"Report of May\nb\n" + rows), "x", named, is_whole=True)
    with raising(Refused, "x: no column of the header", "Report of May"):
        csv_rows.check_head(
            Body(b"Report of May\na\n" + rows), "x", replace(reading, form=Form()), is_whole=True
        )


def test_comments_are_no_rows_and_count_as_lines() -> None:
    data, form = b'#x "\na,b\n1,2\n#3,4\n"5\n#6",7\n', Form(Dialect(comment="#"))
    assert csv_rows.data_rows(Body(data), "x", form) == len(producers(data, form)) == 2
    assert [csv_rows.line_of_row(Body(data), row, "x", form) for row in range(2)] == [3, 5]


def test_a_quoted_line_break_is_of_its_row() -> None:
    data = b'a,b\n"1\n2",3\n\n4,5\n'
    assert [csv_rows.line_of_row(Body(data), row, "x") for row in range(3)] == [2, 5, None]


def test_a_cell_without_end_is_refused_in_little_memory() -> None:
    data = b'a,b\n1,"' + b"text of a cell that has no end, " * 90_000
    with patch.object(csv_rows, "MAX_CELL", 100_000), patch.object(csv_rows, "BLOCK_BYTES", 50_000):
        usual = csv.field_size_limit(100_000)
        try:
            with raising(Refused, "s3://b/k", "quote that is not closed"):
                csv_rows.data_rows(Body(data), "s3://b/k")
        finally:
            csv.field_size_limit(usual)


@pytest.mark.parametrize(
    "text",
    ["x" * 99, "c.c.c." * 30, "\u0436\u044f " * 30, "a b\tc; " * 30],
    ids=["x", "points", "cyrillic", "words"],
)
@pytest.mark.parametrize("form", [Form(), Form(Dialect(separator="\t", escape="\\"))], ids=["comma", "tab"])
def test_a_long_text_is_counted(text: str, form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its producer rejects it alone, as too large."""
    monkeypatch.setattr(csv_rows, "BLOCK_BYTES", 50)
    monkeypatch.setattr(csv_rows, "_LONG_LINE", 60)
    monkeypatch.setattr(csv_rows, "MAX_CELL", 100)
    row = "1,x\n".replace(",", form.dialect.separator)
    data = f"{row}1{form.dialect.separator}{text.replace(form.dialect.separator, '')}\n{row}".encode()
    assert csv_rows.data_rows(Body(data), "s3://b/k", form) == 2


TAXI = streams.load("nyc_taxi")
CASES = Path(__file__).parents[3] / "data" / "csv"


def head(name: str, **changes: Any) -> str:
    """What is wrong with a file's begin, as the taxi stream would read it."""
    reading = CsvReading.of(replace(TAXI, csv=replace(TAXI.csv, **changes)))
    data = (CASES / name).read_bytes()
    try:
        csv_rows.check_head(Body(data), "s3://b/k", reading, is_whole=True)
    except Refused as error:
        return f"{error.code} {error}"
    return ""


@pytest.mark.parametrize(
    ("name", "words", "changes"),
    [
        (
            "excel.csv",
            ["SLU-315", "100 rows", "'2/8/2018 5:00'", "M/d/yyyy H:mm"],
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
    assert len(problem) < 500
    if changes:
        assert head(name, **changes) == ""


def test_utf16_without_a_mark_and_a_header_is_refused() -> None:
    schema = {"fields": [{"name": name, "type": ["null", "string"]} for name in "xy"]}
    reading = CsvReading(Form(names=("x", "y")), Rules(), schema, "")
    csv_rows.check_head(Body(b"1,x\n2,y\n"), "s3://b/k", reading, is_whole=True)
    with raising(Refused, "s3://b/k: the first row has zeros", "[csv] encoding is 'utf-8'"):
        csv_rows.check_head(Body("1,x\n2,y\n".encode("utf-16-le")), "s3://b/k", reading, is_whole=True)


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
        csv_rows.check_head(Body(text.encode(codec)), "s3://b/k", reading, is_whole=True)
    for codec, words in (("utf-8", "no zeros"), (other, f"those of {other}")):
        with raising(Refused, "s3://b/k: it", words, f"[csv] encoding is {encoding!r}", "nothing was sent"):
            csv_rows.check_head(Body(text.encode(codec)), "s3://b/k", reading, is_whole=True)


def test_text_without_a_zero_may_be_utf16() -> None:
    schema = {"fields": [{"name": "x", "type": ["null", "string"]}]}
    reading = CsvReading(Form(encoding="utf-16", names=("x",)), Rules(), schema, "")
    csv_rows.check_head(Body("한국".encode("utf-16-le")), "s3://b/k", reading, is_whole=True)


def test_an_object_of_two_kinds_of_line_ends_is_refused_before_anything_is_sent() -> None:
    reading = CsvReading.of(TAXI)
    data = (CASES / "quotes.csv").read_bytes().replace(b'5"" disk', b"5\rdisk", 1)
    mixed = data + data.split(b"\n")[1].replace(b",1000,", b",1000\r,")
    with raising(Refused, "s3://b/k: row ", "ends with a CR alone", "line_ends = 'lf'", "nothing was sent"):
        csv_rows.check_head(Body(mixed), "s3://b/k", reading, is_whole=True)
    lf = replace(reading, form=Form(Dialect(line_ends="lf")))
    csv_rows.check_head(Body(mixed), "s3://b/k", lf, is_whole=True)


def test_a_part_of_an_object_is_enough_for_its_head() -> None:
    lines = [b"a,b", *(b"%d,%d" % (n, n * n) for n in range(90_000))]
    packed = gzip.compress(b"\n".join(lines))[:100_000]
    csv_rows.check_head(Body(packed), "s3://b/k", None, is_whole=False)
    with raising(Refused, "s3://b/k", "required"):
        csv_rows.check_head(Body(packed), "s3://b/k", CsvReading.of(TAXI), is_whole=False)


def test_the_line_in_a_truncated_object_is_refused_by_name() -> None:
    data = gzip.compress(b"a,b\n" + b"1,2\n" * 10_000)[:-9]
    with raising(Refused, "s3://b/k", "truncated"):
        csv_rows.line_of_row(Body(data), 9_999_999, "s3://b/k")


@pytest.mark.parametrize("encoding", ["windows-1252", "latin-1"])
def test_utf8_under_a_declared_encoding_of_single_bytes_is_refused(encoding: str) -> None:
    """Any bytes are a text of such an encoding: it would be loaded as "MÃ¼ller"."""
    schema = {"fields": [{"name": "x", "type": "string"}]}
    reading = CsvReading(Form(encoding=encoding), Rules(), schema, "")
    for data in ("x\nMüller\n".encode("latin-1"), b"x\nabc\n", "x\nMüller\n".encode("utf-8-sig")):
        csv_rows.check_head(Body(data), "s3://b/k", reading, is_whole=True)
    for data in ("x\nMüller\n".encode(), b"x\n" + b"abc\n" * 40_000 + "ü\n".encode()):
        with raising(
            Refused, "s3://b/k: its bytes are UTF-8", f"encoding is {encoding!r}", "nothing was sent"
        ):
            csv_rows.check_head(Body(data), "s3://b/k", reading, is_whole=True)


@pytest.mark.parametrize("header", ["x,y", "Y, X", '"x","y"'])
def test_a_header_is_no_row_of_a_file_whose_columns_are_declared(header: str) -> None:
    schema = {"fields": [{"name": name, "type": "string"} for name in "xy"]}
    reading = CsvReading(Form(names=("x", "y")), Rules(), schema, "")
    csv_rows.check_head(Body(b"x,z\n1,2\n"), "s3://b/k", reading, is_whole=True)
    with raising(Refused, "s3://b/k: its first row is a header", "Fix: remove [csv] names", "skip_lines = 1"):
        csv_rows.check_head(Body(f"{header}\n1,2\n".encode()), "s3://b/k", reading, is_whole=True)


@pytest.mark.parametrize(("header", "sign"), [("id|", '"|"'), ("id;;", '";"')])
def test_a_single_name_with_the_signs_of_another_separator_is_refused(header: str, sign: str) -> None:
    schema = {"fields": [{"name": "id", "type": "string"}]}
    reading = CsvReading(Form(), Rules(), schema, "")
    with raising(Refused, "s3://b/k: the header has a single column", f"[csv] separator = {sign}"):
        csv_rows.check_head(Body(f"{header}\n1\n".encode()), "s3://b/k", reading, is_whole=True)


@pytest.mark.parametrize(
    ("header", "sign"), [("id;amount, net;name", '";"'), ("id\tname", r'"\t"'), ("id|name", '"|"')]
)
def test_the_separator_that_a_header_seems_to_have_is_named_as_toml_spells_it(header: str, sign: str) -> None:
    schema = {"fields": [{"name": "id", "type": "string"}, {"name": "name", "type": "string"}]}
    reading = CsvReading(Form(), Rules(), schema, "")
    with raising(Refused, f"or declare [csv] separator = {sign}"):
        csv_rows.check_head(Body(f"{header}\n".encode()), "s3://b/k", reading, is_whole=True)
