"""Blocks of records of a file, wherever its chunks end; and its encodings."""

from __future__ import annotations

import codecs
import random
from collections.abc import Iterator

import pytest

from sluice.core.csv.form import ENCODINGS, Dialect
from sluice.core.csv.records import blocks as module
from sluice.core.csv.records.blocks import blocks, first_record
from sluice.core.csv.records.cut import cut
from sluice.core.csv.records.encodings import as_utf8

PIECES = ['"', '""', ",", "\n", "\r\n", "\r", "a", "bc", "\\", "#", "ä", "xxxxxxxx", '"l\nm"']


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 8)


def chunks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def read(data: bytes, size: int, dialect: Dialect) -> list[tuple[bytes, int, str | None]]:
    """Each record, its line, and its fault."""
    return [
        (block.records[n], block.line_of(n), block.records.faults.get(n))
        for block in blocks(chunks(data, size), dialect, None)
        for n in range(len(block.records))
    ]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("dialect", [Dialect(), Dialect(escape="\\"), Dialect(comment="#")])
def test_records_and_lines_do_not_depend_on_chunks(dialect: Dialect) -> None:
    chosen = random.Random(5)  # noqa: S311
    for number in range(300):
        data = "".join(chosen.choices(PIECES, k=chosen.randint(0, 20))).encode()
        whole = cut(data, dialect, is_end=True)
        expected = [(whole[n], 1 + int(whole.lines[n]), whole.faults.get(n)) for n in range(len(whole))]
        assert read(data, 1 + number % 7, dialect) == expected, data


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("dialect", [Dialect(), Dialect(escape="\\")])
def test_a_record_without_end_is_cut_and_those_behind_it_are_read(
    dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left out is read for its end alone, in any state of its quotes."""
    monkeypatch.setattr(module, "MAX_RECORD_BYTES", 20)
    chosen = random.Random(6)  # noqa: S311
    for number in range(300):
        data = "".join(chosen.choices(PIECES, k=chosen.randint(20, 60))).encode()
        whole = cut(data, dialect, is_end=True)
        expected = [(whole[n][:20], 1 + int(whole.lines[n])) for n in range(len(whole))]
        found = read(data, 1 + number % 9, dialect)
        assert [one[:2] for one in found] == expected, data
        for n, (_, _, fault) in enumerate(found):
            assert (fault or "").startswith("too large") == (len(whole[n]) > 20)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("size", [1, 3, 99])
def test_the_header_is_the_first_record_that_is_not_blank(size: int) -> None:
    data = b'\n#x\n,,\n"a\nb",c\r\n1,2\n3,4'
    source = chunks(data, size)
    found = first_record(source, Dialect(comment="#"), 1000)
    assert found is not None
    header, rest, line = found
    assert (header, line) == (b'"a\nb",c', 6)
    read_on = blocks([rest, *source], Dialect(), 2, line)
    lines = [(b.records[n], b.line_of(n)) for b in read_on for n in range(len(b.records))]
    assert lines == [(b"1,2", 6), (b"3,4", 7)]


def test_without_a_record_or_with_one_that_is_too_long_there_is_no_header() -> None:
    assert first_record(chunks(b"\n\n", 1), Dialect(), 10) is None
    assert first_record(chunks(b"x" * 99 + b"\n", 5), Dialect(), 10) is None


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("size", [1, 2, 5])
def test_each_encoding_becomes_utf8(encoding: str, size: int) -> None:
    text = "naïve,ä\r\n1,2\r\n"
    codec = {"utf-16": "utf-16-le", "windows-1252": "cp1252"}.get(encoding, encoding)
    assert b"".join(as_utf8(chunks(text.encode(codec), size), encoding)) == text.encode()


@pytest.mark.parametrize(
    ("mark", "codec"),
    [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")],
)
@pytest.mark.parametrize("size", [1, 2, 50])
def test_a_byte_order_mark_counts_and_is_left_out(mark: bytes, codec: str, size: int) -> None:
    data = mark + "a,\ufeffä😀\n".encode(codec)
    assert b"".join(as_utf8(chunks(data, size), "utf-8")) == "a,\ufeffä😀\n".encode()


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"a\x81\n", "windows-1252"),
        ("a\n".encode("utf-16-le") + b"\x00\xd8b\x00", "utf-16"),
        (b"a\0b", "utf-16"),
    ],
)
def test_what_is_no_text_of_its_encoding_is_none_of_its_row(data: bytes, encoding: str) -> None:
    found = cut(b"".join(as_utf8([data], encoding)), Dialect(), is_end=True)
    assert found.not_utf8().tolist()[-1]


def test_a_short_file_is_whole() -> None:
    assert b"".join(as_utf8([b"a"], "utf-8")) == b"a"
    assert b"".join(as_utf8([], "utf-8")) == b""
