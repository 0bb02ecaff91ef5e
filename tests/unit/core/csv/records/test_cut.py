"""Records and cells against Python's csv on generated files; one way of reading quotes against the other."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import settings

from sluice.core.csv.form import WHITE, Dialect
from sluice.core.csv.records import quotes
from sluice.core.csv.records.cells import columns
from sluice.core.csv.records.cut import cut
from sluice.core.csv.records.quotes import cells_of, quoted_spans, shown, walked_spans

PIECES = [
    '"',
    '""',
    ",",
    ",",
    "\n",
    "\r\n",
    "\r",
    "a",
    "bc",
    " ",
    "\t",
    "\0",
    "ä",
    "\ufeff",
    "'",
    ";",
    "\\",
    "#",
]
REGULAR = ['"x ""y"" z"', '"', "a", "1", ",", ",", "\n", "\r\n", '"l\nm"', '"k,\r\n"', '""']
ENDS = ("lf", "crlf", "cr")
DIALECTS = [
    Dialect(),
    Dialect(skip_blank=False),
    Dialect(separator=";"),
    Dialect(separator="\t"),
    Dialect(quote="'"),
    Dialect(quote=""),
    Dialect(escape="\\"),
    Dialect(comment="#"),
    Dialect(escape="\\", comment="#", quote="'"),
    *(Dialect(line_ends=ends) for ends in ENDS),
    Dialect(line_ends="crlf", escape="\\"),
]


def files(count: int, seed: int) -> Iterator[str]:
    chosen = random.Random(seed)  # noqa: S311
    for number in range(count):
        pieces = REGULAR if number % 2 else PIECES
        yield "".join(chosen.choices(pieces, k=chosen.randint(0, 24)))


def by_python(text: str, dialect: Dialect, strict: bool) -> list[list[str]] | None:
    """The rows that are not blank; None if it refuses the text."""
    quote = {"quotechar": dialect.quote} if dialect.quote else {"quoting": csv.QUOTE_NONE, "quotechar": None}
    reader = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=dialect.separator,
        escapechar=dialect.escape or None,
        strict=strict,
        **quote,
    )
    try:
        rows = list(reader)
    except csv.Error:
        return None
    return [row for row in rows if not is_blank(row, dialect)]


def is_blank(row: list[str], dialect: Dialect) -> bool:
    if dialect.skip_blank:
        return not any(cell.strip(WHITE) for cell in row)
    return len(row) < 2 and not any(cell.strip(WHITE) for cell in row)


def by_sluice(text: str, dialect: Dialect) -> tuple[list[list[str]], bool]:
    """The rows, and whether one of them is malformed."""
    records = cut(text.encode(), dialect, is_end=True)
    rows = [[cell.decode() for cell in cells_of(records[n], dialect)] for n in range(len(records))]
    assert [len(row) for row in rows] == records.widths.tolist()
    return rows, bool(records.faults)


def compare(text: str, dialect: Dialect) -> None:
    rows, malformed = by_sluice(text, dialect)
    strict = by_python(text, dialect, strict=True)
    if strict is None:
        # A record whose wrong quotes have nothing but white space in them is blank.
        assert malformed or rows == by_python(text, dialect, strict=False), text
    else:
        assert (rows, malformed) == (strict, False), text
    # Also of what is refused, the records are the same: the other rows of a file are loaded.
    assert len(rows) == len(by_python(text, dialect, strict=False) or []), text


def dialects() -> list[Dialect]:
    # Python's csv knows no comments and no declared line ends.
    return [one for one in DIALECTS if not one.comment and one.line_ends == "any"]


@pytest.mark.parametrize("dialect", range(len(dialects())))
def test_records_and_cells_are_those_of_pythons_csv(dialect: int) -> None:
    for text in files(4 * settings().max_examples, dialect):
        compare(text, dialects()[dialect])


@pytest.mark.exhaustive
def test_of_a_hundred_thousand_files_none_is_read_otherwise_than_by_pythons_csv() -> None:
    for number, text in enumerate(files(100_000, 77)):
        compare(text, dialects()[number % len(dialects())])


@pytest.mark.parametrize("dialect", range(len(DIALECTS)))
def test_arrow_cuts_regular_records_into_the_same_cells(dialect: int) -> None:
    chosen = DIALECTS[dialect]
    for text in files(3 * settings().max_examples, 50 + dialect):
        records = cut(text.encode(), chosen, is_end=True)
        regular = np.array([number not in records.faults for number in range(len(records))], bool)
        for width in set(records.widths[regular].tolist()):
            rows = regular & (records.widths == width)
            found = columns(records.only(rows), width, int(rows.sum()), chosen)
            texts = [
                [cell.decode() for cell in cells_of(records[n], chosen)]
                for n in np.flatnonzero(rows).tolist()
            ]
            assert [list(row) for row in zip(*(c.to_pylist() for c in found), strict=True)] == texts, text


@pytest.mark.parametrize("dialect", range(len(DIALECTS)))
def test_quotes_that_are_walked_through_have_the_spans_of_those_read_at_once(dialect: int) -> None:
    chosen = DIALECTS[dialect]
    for text in files(3 * settings().max_examples, 90 + dialect):
        data = shown(text.encode(), chosen, is_end=True)
        found = quoted_spans(data, np.frombuffer(data, np.uint8), chosen)
        walked = walked_spans(data, chosen)
        assert found.is_open == walked.is_open
        # A doubled quote ends one span and begins another, or is inside of one.
        assert _inside(len(data), found) == _inside(len(data), walked), text
        assert found.broken.tolist() == walked.broken.tolist()


def _inside(size: int, spans: object) -> list[bool]:
    inside = np.zeros(size + 1, bool)
    for start, end in zip(spans.opens, spans.closes, strict=True):  # type: ignore[attr-defined]
        inside[start:end] = True
        if end < size:
            inside[end] = True
    return inside.tolist()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_records_do_not_depend_on_where_blocks_end(size: int) -> None:
    for text in files(settings().max_examples, size):
        for dialect in (DIALECTS[0], *DIALECTS[-6:]):
            data = text.encode()
            whole = cut(data, dialect, is_end=True)
            expected = [(whole[n], int(whole.widths[n]), int(whole.lines[n])) for n in range(len(whole))]
            found, block, lines = [], b"", 0
            for start in range(0, len(data) + 1, size):
                block += data[start : start + size]
                is_end = start + size > len(data)
                part = cut(block, dialect, is_end)
                found += [
                    (part[n], int(part.widths[n]), lines + int(part.lines[n])) for n in range(len(part))
                ]
                block, lines = block[part.used :], lines + part.line_count
            assert found == expected, text


def test_each_line_end_ends_a_record_and_a_line_break_in_quotes_is_of_its_cell() -> None:
    records = cut(b'a,b\r\n"x\r\ny",1\r2,"z\n"\n3,4', Dialect(), is_end=True)
    assert [records[n] for n in range(4)] == [b"a,b", b'"x\r\ny",1', b'2,"z\n"', b"3,4"]
    assert records.lines.tolist() == [0, 1, 3, 5]


@pytest.mark.parametrize(
    ("text", "faults"),
    [('a,"b"c\nd,e\n', {0: "text follows"}), ('a,b\nc,"d\ne,f\n', {1: "never closed"}), ('5" disk,x\n', {})],
)
def test_a_wrong_quote_is_a_fault_of_its_record(text: str, faults: dict[int, str]) -> None:
    found = cut(text.encode(), Dialect(), is_end=True).faults
    assert list(found) == list(faults)
    assert all(words in found[number] for number, words in faults.items())


def test_comments_and_blank_records_are_no_rows() -> None:
    text = b'# "made by\n1,2\n,,\n \t\n\n#3,4\n"","  "\n5,#6\n'
    records = cut(text, Dialect(comment="#"), is_end=True)
    assert [records[n] for n in range(len(records))] == [b"1,2", b"5,#6"]
    kept = cut(text, replace(Dialect(), skip_blank=False), is_end=True)
    assert b",," in [kept[n] for n in range(len(kept))]


def test_bytes_that_are_not_utf8_are_of_their_record_alone() -> None:
    assert cut("ä\n".encode() + b"\xff\nb\n", Dialect(), is_end=True).not_utf8().tolist() == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("ends", "rows"),
    [
        ("any", [["1", "a"], ["b"], ["2", "c"], ["d"], ["3", "e"]]),
        ("lf", [["1", "a\rb"], ["2", "c"], ["d"], ["3", "e"]]),
        ("crlf", [["1", "a\rb"], ["2", "c\nd"], ["3", "e"]]),
        ("cr", [["1", "a"], ["b"], ["\n2", "c\nd"], ["\n3", "e"], ["\n"]]),
    ],
)
def test_other_line_breaks_than_the_declared_ones_are_characters(ends: str, rows: list[list[str]]) -> None:
    dialect = Dialect(line_ends=ends, skip_blank=False)
    data = b"1,a\rb\r\n2,c\nd\r\n3,e\r\n"
    records = cut(data, dialect, is_end=True)
    found = [[cell.decode() for cell in cells_of(records[n], dialect)] for n in range(len(records))]
    assert found == (rows if ends != "cr" else rows[:-1])
    assert b"".join(data[a:b] for a, b in zip(records.starts, records.nexts, strict=True)) in data


def test_quotes_are_walked_through_only_where_a_comment_or_an_escape_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dialect = Dialect(comment="#", escape="\\")
    walked: list[bytes] = []

    def watched(data: bytes, dialect: Dialect) -> object:
        walked.append(data)
        return walked_spans(data, dialect)

    monkeypatch.setattr(quotes, "walked_spans", watched)
    for data in (b'"a",#b\n', b"#a\n", b"a\n#b\n", b"a\r#b", b"a,\\#\n"):
        quoted_spans(data, np.frombuffer(data, np.uint8), dialect)
    assert walked == [b"#a\n", b"a\n#b\n", b"a\r#b", b"a,\\#\n"]
