"""Rows of CSV objects: counted and found without Spark, to verify its job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from sluice.clients.s3.requests import GZIP_ERRORS, unpacked
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused

MAX_HEADER_BYTES = 64 * 1024 * 1024
# Small, because gzip may make a thousand times as much of it.
CHUNK_BYTES = 64 * 1024
BLOCK_BYTES = 1024 * 1024
_LF = ord("\n")


def data_rows(body: Any, name: str) -> int:
    """Count the rows after the header of a CSV: lines that are not blank, in constant memory.

    Lines end with LF, so a line break inside quotes makes two rows, as in the producer
    (``spark_jobs/common/producer/lines.py``). Gzip is recognised by its first bytes, not by ``name``.
    Raises Refused without a header line, for one over MAX_HEADER_BYTES, and for truncated or corrupt gzip
    data.
    """
    with _readable(name):
        reader = unpacked(body, CHUNK_BYTES)
        if not _line(reader, name).strip():
            message = f"{name}: no header line. Fix: upload the file with one, or leave it out"
            raise Refused(message, ErrorCode.INVALID_HEADER)
        return _count_rows(iter(lambda: reader.read(BLOCK_BYTES), b""))


def line_of_row(body: Any, row: int, name: str) -> int | None:
    """The 1-based line of a 0-based row; None if there are fewer rows. What is a row, and errors, are as of
    :func:`data_rows`. Reads no further than the row."""
    with _readable(name):
        reader, left = unpacked(body, CHUNK_BYTES), row
        _line(reader, name)
        for number, is_blank in enumerate(iter(lambda: _is_blank(reader), None), start=2):
            if not is_blank:
                if not left:
                    return number
                left -= 1
        return None


def has_header(body: Any, name: str) -> bool:
    """Whether the first line is one; reads little more than that."""
    with _readable(name):
        return bool(_line(unpacked(body, CHUNK_BYTES), name).strip())


def _line(reader: Any, name: str) -> bytes:
    line: bytes = reader.readline(MAX_HEADER_BYTES + 1)
    if len(line.removesuffix(b"\n")) > MAX_HEADER_BYTES:
        message = f"{name}: the first line is longer than {MAX_HEADER_BYTES} bytes. Fix: upload a CSV"
        raise Refused(message, ErrorCode.CORRUPT_OBJECT)
    return line


def _is_blank(reader: Any) -> bool | None:
    """Whether the next line is blank, of whatever length; None at the end."""
    piece, is_blank = reader.readline(BLOCK_BYTES), True
    if not piece:
        return None
    while piece:
        is_blank = is_blank and not piece.strip()
        piece = b"" if piece.endswith(b"\n") else reader.readline(BLOCK_BYTES)
    return is_blank


def _count_rows(blocks: Iterable[bytes]) -> int:
    """Count lines that are not blank, a block at a time: a line at a time takes five times the CPU."""
    rows = 0
    # The line that the blocks so far end in.
    is_blank = True
    for block in blocks:
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _LF)
        first = block[: ends[0]] if len(ends) else block
        is_blank = is_blank and not first.strip()
        if not len(ends):
            continue
        begins, ends = ends[:-1] + 1, ends[1:]
        rows += len(begins) + (not is_blank)
        # A blank line begins with white space, or with its end.
        may_be_blank = np.flatnonzero(np.frombuffer(block, np.uint8)[begins] <= ord(" "))
        rows -= sum(not block[begins[n] : ends[n]].strip() for n in may_be_blank)
        is_blank = not block[block.rindex(b"\n") + 1 :].strip()
    return rows + (not is_blank)


@contextmanager
def _readable(name: str) -> Iterator[None]:
    try:
        yield
    except GZIP_ERRORS as error:
        kind = "truncated" if isinstance(error, EOFError) else "corrupt"
        message = f"{name}: {kind} gzip data ({error}). Fix: upload the file again"
        raise Refused(message, ErrorCode.CORRUPT_OBJECT) from error
