"""Data rows of a CSV: what counts as a row, and what is refused."""

from __future__ import annotations

import gzip

import pytest

from sluice.clients import objects
from sluice.clients.errors import Refused
from tests.support.raising import raising

CSV = b"a,b\n1,2\n\n3,4\r\n   \n5,6"


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_blank_lines_are_no_rows_wherever_the_chunks_end(size: int) -> None:
    assert objects.data_rows(cut(CSV, size), "x") == 3


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_gzip_is_told_by_its_first_bytes_and_may_have_members(size: int) -> None:
    data = gzip.compress(b"a,b\n1,2\n") + gzip.compress(b"3,4\n")
    assert objects.data_rows(cut(data, size), "x") == 2


def test_padding_after_gzip_is_no_member() -> None:
    assert objects.data_rows([gzip.compress(b"a\n1\n"), b"\0" * 100], "x") == 1


def test_a_header_alone_is_no_row() -> None:
    assert objects.data_rows([b"a,b"], "x") == 0


# Named: a test whose name holds the time of its collection is another one in each process.
@pytest.mark.parametrize(
    "data", [b"", b"\n1,2\n", gzip.compress(b"")], ids=["no bytes", "a blank line", "gzip of nothing"]
)
def test_no_header_is_refused_by_name(data: bytes) -> None:
    with raising(Refused, "s3://b/k", "header"):
        objects.data_rows([data], "s3://b/k")
    assert not objects.has_header([data], "s3://b/k")


def test_truncated_gzip_is_refused_by_name() -> None:
    data = gzip.compress(b"a,b\n" + b"1,2\n" * 10_000)
    with raising(Refused, "s3://b/k", "truncated"):
        objects.data_rows([data[:-9]], "s3://b/k")


def test_damaged_gzip_is_refused_by_name() -> None:
    data = bytearray(gzip.compress(b"a,b\n" + b"1,2\n" * 10_000))
    data[30] ^= 0xFF
    with raising(Refused, "s3://b/k", "gzip"):
        objects.data_rows([bytes(data)], "s3://b/k")


def test_a_line_without_end_is_refused() -> None:
    with raising(Refused, "s3://b/k", "10 bytes"):
        objects.data_rows([b"a\n", b"x" * 11], "s3://b/k", longest=10)
    assert objects.data_rows([b"a\n", b"x" * 10], "s3://b/k", longest=10) == 1
