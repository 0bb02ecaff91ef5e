"""A file that is read in ranges has the rows, numbers and lines of one that is read as one."""

from __future__ import annotations

import codecs
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sluice.core.csv.form import Dialect, Form
from sluice.core.csv.records import blocks as blocks_module
from sluice.core.csv.records import ranges as module
from sluice.core.csv.records.blocks import First, blocks, first_record
from sluice.core.csv.records.encodings import as_utf8
from sluice.core.csv.records.line_ends import LineEnds, UncertainRecords
from sluice.core.csv.records.ranges import (
    Facts,
    Part,
    Range,
    Start,
    blocks_of,
    combine,
    facts,
    ranges,
    wrong_guess,
)

DIALECTS = [
    Dialect(),
    Dialect(skip_blank=False),
    Dialect(quote=""),
    Dialect(escape="\\"),
    Dialect(comment="#"),
    Dialect(trailing_empty=True),
    *(Dialect(line_ends=ends) for ends in ("lf", "crlf", "cr")),
]
WILD = ['"', '""', ",", "\n", "\r\n", "\r", "a", "bc", "\\", "#", "ä", "þ", "ÿ", " ", '"l\nm"', "\n\n"]
USUAL = [
    *('1,"a"\n', '"k, l","""x"""\n', '"two\nlines","and\r\n""three"""\n', "2,b\r\n", '"",""\n', ",\n"),
    *("\n", '3,5" disk\n', "ä,é\n", '"x\n1,2\n3,4\ny",z\n', "long text, long text, long text\n"),
]
CODECS = {"utf-8": "utf-8", "latin-1": "latin-1", "windows-1252": "cp1252"}
Rows = list[tuple[int, bytes, int, str | None]]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "BLOCK_BYTES", 16)
    monkeypatch.setattr(module, "_PROBE", 8)


def chunks(data: bytes, size: int = 5) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def as_one(data: bytes, form: Form, width: int) -> Rows | None:
    """Each row with its number, line and fault; None if no one can count them."""
    source, first, found = (
        as_utf8(chunks(data), form.encoding),
        First(),
        list[tuple[int, bytes, int, str | None]](),
    )
    if not form.names:
        first = first_record(source, form.dialect, 10**6) or First()
    ends = LineEnds(form.dialect, first.end)
    try:
        for block in blocks([first.behind, *source], form.dialect, width, first.line):
            ends.check(block.records, len(found), block.line)
            for n in range(len(block.records)):
                found.append((len(found), block.records[n], block.line_of(n), block.records.faults.get(n)))
    except UncertainRecords:
        return None
    return found


def read_facts(data: bytes, start: Start, most: int, dialect: Dialect, width: int) -> tuple[list[Facts], int]:
    """Facts of each range, and how many guesses were wrong."""
    cuts, wrong = ranges(start, len(data), most), 0
    found = [
        facts(chunks(data[start.byte :]), one, dialect, width, start.byte)
        if number == 0
        else facts(chunks(data[one.read_from :]), one, dialect, width)
        for number, one in enumerate(cuts)
    ]
    while (again := wrong_guess(found)) is not None:
        number, begin = again
        found[number] = facts(chunks(data[begin:]), cuts[number], dialect, width, begin)
        wrong += 1
        assert wrong <= len(cuts)
    return found, wrong


def rows_of(data: bytes, parts: list[Part], dialect: Dialect, width: int) -> Rows | None:
    found = list[tuple[int, bytes, int, str | None]]()
    try:
        for part in parts:
            ends = LineEnds(dialect, part.end)
            for block, row in blocks_of(chunks(data[part.start : part.stop], 3), part, dialect, width):
                ends.check(block.records, row, block.line)
                found += [
                    (row + n, block.records[n], block.line_of(n), block.records.faults.get(n))
                    for n in range(len(block.records))
                ]
    except UncertainRecords:
        return None
    return found


def compare(data: bytes, form: Form, most: int) -> bool:
    """Whether the file was read in several parts; that its rows are the same is asserted."""
    width = 2
    expected = as_one(data, form, width)
    start = Start.of(data, form)
    if start is None:
        # A header alone, whose CR may be the first of a CRLF; or two letters that are UTF-16's mark.
        assert not expected or data.startswith(("ÿþ".encode("latin-1"), "þÿ".encode("latin-1")))
        return False
    found, _ = read_facts(data, start, most, form.dialect, width)
    parts = combine(found, start)
    if not parts:
        assert not expected, data
        return False
    assert rows_of(data, parts, form.dialect, width) == expected, data
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
    return len(parts) > 1


def files(seed: int, count: int) -> Iterator[tuple[bytes, Form, int]]:
    chosen = random.Random(seed)  # noqa: S311
    for number in range(count):
        dialect = DIALECTS[number % len(DIALECTS)]
        encoding = chosen.choice(list(CODECS))
        form = Form(dialect, encoding, ("x", "y") if chosen.random() < 0.3 else ())
        pieces = USUAL if chosen.random() < 0.6 else WILD
        body = "".join(chosen.choices(pieces, k=chosen.randint(0, 14)))
        end = {"crlf": "\r\n", "cr": "\r"}.get(dialect.line_ends, "\n")
        head = "" if form.names else f"x,y{end}"
        mark = codecs.BOM_UTF8 if encoding == "utf-8" and chosen.random() < 0.3 else b""
        yield mark + f"{head}{body}".encode(CODECS[encoding]), form, chosen.randint(1, 40)


@pytest.mark.parametrize("seed", range(4))
def test_a_file_read_in_ranges_has_the_same_rows_with_the_same_numbers_and_lines(seed: int) -> None:
    split = [compare(*file) for file in files(seed, 250)]
    assert sum(split) > 100


@pytest.mark.exhaustive
def test_of_a_hundred_thousand_files_none_has_other_rows_in_ranges() -> None:
    for file in files(99, 100_000):
        compare(*file)


def test_a_range_that_begins_in_a_cell_of_several_lines_is_guessed_by_its_quotes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else each of them is read twice."""
    monkeypatch.setattr(module, "_PROBE", 64)
    data = b"x,y\n" + b'"one\ntwo, three",1\n"a, ""b""",\n' * 30
    start = Start.of(data, Form())
    assert start is not None
    wrong = [read_facts(data, start, most, Dialect(), 2)[1] for most in range(40, 90)]
    assert sum(wrong) <= 5


def test_a_wrong_guess_is_found_and_its_range_read_again() -> None:
    """A cell that looks as rows do."""
    data = b'x,y\n1,"' + b"a,b\n" * 30 + b'"\n2,c\n3,d\n'
    start = Start.of(data, Form())
    assert start is not None
    found, wrong = read_facts(data, start, 40, Dialect(), 2)
    assert wrong == 1
    parts = combine(found, start)
    assert [(part.row, part.rows, part.line) for part in parts] == [(0, 1, 2), (1, 2, 33)]


def test_a_range_takes_its_rows_from_the_one_before_and_no_more() -> None:
    cuts = ranges(Start(4, "utf-8"), 104, 30)
    assert [(one.start, one.stop) for one in cuts] == [(4, 29), (29, 54), (54, 79), (79, 104)]
    assert ranges(Start(4, "utf-8"), 4, 30) == [Range(4, 4)]


def test_no_more_is_read_than_needed() -> None:
    data = b"1,a\n" * 1000
    taken = 0

    def watched() -> Iterator[bytes]:
        nonlocal taken
        for chunk in chunks(data, 8):
            taken += len(chunk)
            yield chunk

    found = facts(watched(), Range(0, 100), Dialect(), 2, 0)
    assert (found.first, found.rows, found.following) == (0, 25, 100)
    assert taken < 150


@pytest.mark.parametrize(
    ("head", "form"),
    [
        ("x,y\n1,2\n".encode("utf-16"), Form()),
        ("x,y\n1,2\n".encode("utf-16-le"), Form(encoding="utf-16")),
        (b"x,y", Form()),
        (b"x,y\r", Form()),
        (b"", Form()),
    ],
    ids=["a mark", "declared", "no end", "half an end", "nothing"],
)
def test_without_a_whole_header_or_with_two_bytes_a_character_there_are_no_ranges(
    head: bytes, form: Form
) -> None:
    assert Start.of(head, form) is None


def test_rows_begin_behind_header_and_byte_order_mark() -> None:
    mark = codecs.BOM_UTF8
    assert Start.of(mark + b"\n#\nx,y\r\n1,2", Form()) == Start(6, "utf-8", 3, b"\n")
    assert Start.of("x,ä\r\n1,é".encode("latin-1"), Form(encoding="latin-1")) == Start(
        5, "latin-1", 2, b"\r\n"
    )
    assert Start.of(mark + "ä,y\n1,é".encode(), Form(encoding="latin-1")) == Start(8, "utf-8", 2, b"\n")
    assert Start.of(mark + b"1,2\n", Form(names=("x", "y"))) == Start(3, "utf-8")


def test_rows_that_no_one_can_count_are_read_as_one() -> None:
    data = b'x,y\n1,a\n2,"5 disk\n' + b"3,b\n" * 30
    start = Start.of(data, Form())
    assert start is not None
    assert combine(read_facts(data, start, 40, Dialect(), 2)[0], start) == []


def test_a_part_with_other_rows_than_were_counted_is_refused() -> None:
    part = Part(4, 8, 0, 2, 2, b"\n", "utf-8")
    assert list(blocks_of([b"1,a\n2,b\n"], part, Dialect(), 2))
    with pytest.raises(ArithmeticError, match=r"have 2 rows where 3 were counted.*Fix: load"):
        list(blocks_of([b"1,a\n2,b\n"], replace(part, rows=3), Dialect(), 2))
