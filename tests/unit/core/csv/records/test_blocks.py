"""Blocks of records of a file, wherever its chunks end; and its encodings."""

from __future__ import annotations

import codecs
import random
from collections.abc import Iterator

import pytest
from hypothesis import settings

from sluice.core.csv.form import ENCODINGS, Dialect
from sluice.core.csv.records import blocks as module
from sluice.core.csv.records.blocks import WrongQuotes, blocks, first_record
from sluice.core.csv.records.cut import Records, cut
from sluice.core.csv.records.encodings import as_utf8
from sluice.core.csv.records.line_ends import UncertainRecords

ENDS = [Dialect(line_ends=ends) for ends in ("lf", "crlf", "cr")]
PIECES = ['"', '""', ",", "\n", "\r\n", "\r", "a", "bc", "\\", "#", "ä", "xxxxxxxx", '"l\nm"']


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 8)


def chunks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def read(data: bytes, size: int, dialect: Dialect) -> list[tuple[bytes, int, str | None]]:
    """Each record, its line, and its fault; after them, why the file is not read on."""
    found: list[tuple[bytes, int, str | None]] = []
    try:
        for block in blocks(chunks(data, size), dialect, None):
            records = block.records
            found += [(records[n], block.line_of(n), records.faults.get(n)) for n in range(len(records))]
    except WrongQuotes as error:
        found.append((b"", 0, str(error)))
    return found


def expected_of(whole: Records, longest: int = 10**6) -> list[tuple[bytes, int, str | None]]:
    """As :func:`read`, up to the first record whose quotes are wrong over several lines."""
    found: list[tuple[bytes, int, str | None]] = []
    for n in range(len(whole)):
        line = 1 + int(whole.lines[n])
        text = whole.shown[whole.starts[n] : whole.ends[n]].rstrip(b"\r\n")
        breaks = len(text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")) - 1
        if n in whole.faults and breaks:
            found.append((b"", 0, str(WrongQuotes(line, breaks + 1, whole.faults[n]))))
            return found
        found.append((whole[n][:longest], line, whole.faults.get(n)))
    return found


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("dialect", [Dialect(), Dialect(escape="\\"), Dialect(comment="#"), *ENDS])
def test_records_and_lines_do_not_depend_on_chunks(dialect: Dialect) -> None:
    chosen = random.Random(5)  # noqa: S311
    for number in range(6 * settings().max_examples):
        data = "".join(chosen.choices(PIECES, k=chosen.randint(0, 20))).encode()
        whole = cut(data, dialect, is_end=True)
        found, expected = read(data, 1 + number % 7, dialect), expected_of(whole)
        # Where a block ends in such a record, the ones before it are not read.
        assert found[-1:] == expected[-1:], data
        if len(found) < len(expected):
            assert found[:-1] == expected[: len(found) - 1]
        else:
            assert found == expected, data


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("dialect", [Dialect(), Dialect(escape="\\"), *ENDS])
def test_a_record_without_end_is_cut_and_those_behind_it_are_read(
    dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left out is read for its end alone, in any state of its quotes."""
    monkeypatch.setattr(module, "MAX_RECORD_BYTES", 20)
    chosen = random.Random(6)  # noqa: S311
    for number in range(20 * settings().max_examples):
        data = "".join(chosen.choices(PIECES, k=chosen.randint(20, 60))).encode()
        whole = cut(data, dialect, is_end=True)
        if whole.faults:
            continue
        found = read(data, 1 + number % 9, dialect)
        assert [one[:2] for one in found] == [one[:2] for one in expected_of(whole, 20)], data
        for n, (_, _, fault) in enumerate(found):
            assert (fault or "").startswith("too large") == (len(whole[n]) > 20)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("longest", [10**6, 20])
def test_a_quote_that_is_never_closed_is_no_row_that_is_rejected(
    longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All lines behind it would count as one."""
    monkeypatch.setattr(module, "MAX_RECORD_BYTES", longest)
    data = b'1,a\n2,"5 disk\n' + b"3,b\n" * 30
    *rows, (_, _, why) = read(data, 7, Dialect())
    assert rows[0][:2] == (b"1,a", 1)
    assert why is not None
    assert why.startswith("the row that begins in line 2 has 3")
    assert "never closed" in why
    # In one line, it is a row.
    assert read(b'1,a\n2,"5 disk', 7, Dialect())[1][0] == b'2,"5 disk'


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("size", [1, 3, 99])
def test_the_header_is_the_first_record_that_is_not_blank(size: int) -> None:
    data = b'\n#x\n,,\n"a\nb",c\r\n1,2\n3,4'
    source = chunks(data, size)
    found = first_record(source, Dialect(comment="#"), 1000)
    assert found is not None
    header, rest, line, end = found
    assert (header, line, end) == (b'"a\nb",c', 6, b"\r\n")
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


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("text", "dialect", "words"),
    [
        (" " * 99, Dialect(), "line 2 begins a row whose first cells are empty"),
        ("," * 99, Dialect(trailing_empty=True), "line 2 begins a row whose first cells are empty"),
        ('"' + "\n" * 99 + '"', Dialect(), "line 2 begins a row whose first cells are empty"),
        ("#" + "x" * 99, Dialect(comment="#"), "line 2 begins a comment"),
    ],
    ids=["blanks", "separators", "line breaks", "comment"],
)
def test_a_long_record_that_may_be_none_is_no_row_that_is_rejected(
    text: str, dialect: Dialect, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parser that counts rows does not count it."""
    monkeypatch.setattr(module, "MAX_RECORD_BYTES", 20)
    with pytest.raises(UncertainRecords, match=words):
        list(blocks(chunks(f"1,2\n{text}\n3,4\n".encode(), 7), dialect, 2))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("text", ['"' * 2000, '\\"' * 1000, "\r" * 2000], ids=["quotes", "escapes", "CRs"])
def test_of_a_record_that_is_too_long_a_few_bytes_are_kept(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each chunk of it takes as long as all before it."""
    monkeypatch.setattr(module, "MAX_RECORD_BYTES", 20)
    longest, usual = 0, module.cut

    def watched(data: bytes, *rest: object) -> Records:
        nonlocal longest
        longest = max(longest, len(data))
        return usual(data, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "cut", watched)
    data = f'1,"x{text}"'.encode()
    found = list(blocks(chunks(data, 8), Dialect(escape="\\"), 2))
    assert [len(block.records) for block in found] == [1]
    assert longest < 60
