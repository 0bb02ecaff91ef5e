"""Data rows of a CSV: what counts as a row, and what is refused."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from unittest.mock import patch

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from sluice.clients.s3 import csv_rows
from sluice.core.csv.form import Dialect, Form
from sluice.core.csv.records.blocks import First, WrongQuotes, begin, blocks
from sluice.core.csv.records.quotes import cells_of
from sluice.core.errors import Refused
from tests.support.bodies import Body
from tests.support.raising import raising

CSV = b"a,b\n1,2\n\n3,4\r\n   \n5,6"


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


def test_the_line_in_a_truncated_object_is_refused_by_name() -> None:
    data = gzip.compress(b"a,b\n" + b"1,2\n" * 10_000)[:-9]
    with raising(Refused, "s3://b/k", "truncated"):
        csv_rows.line_of_row(Body(data), 9_999_999, "s3://b/k")


LATE = "x\n" + "a\n" * 300_000


@pytest.mark.parametrize("encoding", ["windows-1252", "latin-1"])
@pytest.mark.parametrize("block", [1 << 20, 99_999])
def test_utf8_behind_the_begin_of_a_file_of_single_bytes_is_refused(
    encoding: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its begin was tried, and is ASCII; its texts are in the table as "MÃ¼ller"."""
    monkeypatch.setattr(csv_rows, "BLOCK_BYTES", block)
    body, form = (LATE + "Müller\n" + LATE + "ß\n").encode(), Form(encoding=encoding)
    with raising(Refused, "s3://b/k: its bytes are UTF-8", repr(encoding), 'encoding = "utf-8"', "revert"):
        csv_rows.data_rows(Body(body, 100_000), "s3://b/k", form)
    assert csv_rows.line_of_row(Body(body, 100_000), 300_000, "s3://b/k", form) == 300_002


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (LATE.encode(), "latin-1"),
        ((LATE + "über\n").encode("latin-1"), "latin-1"),
        ((LATE + "Müller\n").encode() + "ß\n".encode("cp1252"), "windows-1252"),
        ((LATE + "Müller").encode()[:-5], "windows-1252"),
        ((LATE + "Müller\n").encode(), "utf-8"),
        ((LATE + "Müller\n").encode("utf-8-sig"), "latin-1"),
        ((LATE + "Müller\n").encode("utf-16-le"), "utf-16"),
    ],
    ids=["ascii", "latin-1", "both", "cut", "utf-8", "a mark", "utf-16"],
)
def test_other_bytes_behind_the_begin_of_a_file_are_counted(data: bytes, encoding: str) -> None:
    assert csv_rows.data_rows(Body(data, 5000), "s3://b/k", Form(encoding=encoding)) >= 300_000
