"""Data rows of a CSV: what counts as a row, and what is refused."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.clients.s3 import csv_lines
from sluice.core.errors import Refused
from spark_jobs.common.producer import lines
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
    assert csv_lines.data_rows(Body(CSV, size), "x") == 3


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_gzip_is_told_by_its_first_bytes_and_may_have_members(size: int) -> None:
    data = gzip.compress(b"a,b\n1,2\n") + gzip.compress(b"3,4\n")
    assert csv_lines.data_rows(Body(data, size), "x") == 2


def test_padding_after_gzip_is_no_member() -> None:
    assert csv_lines.data_rows(Body(gzip.compress(b"a\n1\n") + b"\0" * 100), "x") == 1


def test_a_header_alone_is_no_row() -> None:
    assert csv_lines.data_rows(Body(b"a,b"), "x") == 0


# Named: a test whose name holds the time of its collection is another one in each process.
@pytest.mark.parametrize(
    "data", [b"", b"\n1,2\n", gzip.compress(b"")], ids=["no bytes", "a blank line", "gzip of nothing"]
)
def test_no_header_is_refused_by_name(data: bytes) -> None:
    with raising(Refused, "s3://b/k", "header"):
        csv_lines.data_rows(Body(data), "s3://b/k")
    assert not csv_lines.has_header(Body(data), "s3://b/k")


def test_truncated_gzip_is_refused_by_name() -> None:
    data = gzip.compress(b"a,b\n" + b"1,2\n" * 10_000)
    with raising(Refused, "s3://b/k", "truncated"):
        csv_lines.data_rows(Body(data[:-9]), "s3://b/k")


def test_damaged_gzip_is_refused_by_name() -> None:
    data = bytearray(gzip.compress(b"a,b\n" + b"1,2\n" * 10_000))
    data[30] ^= 0xFF
    with raising(Refused, "s3://b/k", "gzip"):
        csv_lines.data_rows(Body(bytes(data)), "s3://b/k")


def test_something_else_after_gzip_is_refused() -> None:
    with raising(Refused, "s3://b/k", "gzip"):
        csv_lines.data_rows(Body(gzip.compress(b"a\n1\n") + b"b"), "s3://b/k")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_header_without_end_is_refused(pack: Callable[[bytes], bytes]) -> None:
    with patch.object(csv_lines, "MAX_HEADER_BYTES", 10):
        with raising(Refused, "s3://b/k", "10 bytes"):
            csv_lines.data_rows(Body(pack(b"x" * 11 + b"\nb")), "s3://b/k")
        assert csv_lines.data_rows(Body(pack(b"x" * 10 + b"\nb")), "s3://b/k") == 1


def rows_line_by_line(data: bytes) -> int:
    """As the producer reads them."""
    return sum(1 for line in data.split(b"\n")[1:] if line.strip())


ENDS, SPACES = [b"\n", b"\r\n", b"\r"], [b" ", b"\t", b"\x0b\x0c"]
PARTS = [*ENDS, *SPACES, b'"', b'"a\nb"', b",", b"12", b"\xef\xbb\xbf", b"\x85", b"\0"]


@given(
    st.lists(st.sampled_from(PARTS), max_size=25).map(b"".join),
    st.integers(1, 9),
    st.integers(1, 9),
    st.sampled_from([bytes, gzip.compress]),
)
def test_blocks_are_counted_as_lines_are(
    rest: bytes, size: int, block: int, pack: Callable[[bytes], bytes]
) -> None:
    """Quotes, line ends of all kinds, byte-order marks, no line end at the end, wherever a block ends."""
    data = b"a,b" + rest
    with patch.object(csv_lines, "BLOCK_BYTES", block):
        assert csv_lines.data_rows(Body(pack(data), size), "s3://b/k") == rows_line_by_line(data)


@given(
    st.lists(st.sampled_from(PARTS), max_size=25).map(b"".join),
    st.integers(1, 9),
    st.sampled_from([bytes, gzip.compress]),
)
def test_a_rows_line_is_the_producers(rest: bytes, size: int, pack: Callable[[bytes], bytes]) -> None:
    """Which quarantines a row with its line: quoted line breaks, blank lines, gzip."""
    data = b"a,b" + rest
    client = SimpleNamespace(get_object=lambda **_: {"Body": Body(pack(data))})
    source = lines.SourceObject("a" * 16, "b", "k", None, 1)
    found = [pair for b in lines.blocks(client, source) for pair in zip(b.rows, b.numbers, strict=True)]
    with patch.object(csv_lines, "BLOCK_BYTES", 3):
        for row, number in found:
            assert csv_lines.line_of_row(Body(pack(data), size), int(row), "x") == number
    assert csv_lines.line_of_row(Body(pack(data), size), len(found), "x") is None


def test_a_quoted_line_break_makes_two_rows() -> None:
    data = b'a,b\n"1\n2",3\n\n4,5\n'
    assert [csv_lines.line_of_row(Body(data), row, "x") for row in range(4)] == [2, 3, 5, None]


def test_the_line_in_a_truncated_object_is_refused_by_name() -> None:
    data = gzip.compress(b"a,b\n" + b"1,2\n" * 10_000)[:-9]
    with raising(Refused, "s3://b/k", "truncated"):
        csv_lines.line_of_row(Body(data), 9_999_999, "s3://b/k")
