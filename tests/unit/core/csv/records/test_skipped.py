"""Which lines are skipped, wherever a chunk ends."""

from __future__ import annotations

from itertools import chain

import pytest

from sluice.core.csv.form import DECLARED_ENDS
from sluice.core.csv.records.skipped import behind_lines

DATA = b"one\ra\r\ntwo\n\r\n\rthree\n"
BEHIND = {
    ("any", 1): b"a\r\ntwo\n\r\n\rthree\n",
    ("any", 4): b"\rthree\n",
    ("any", 6): b"",
    ("lf", 1): b"two\n\r\n\rthree\n",
    ("lf", 4): b"",
    ("crlf", 2): b"\rthree\n",
    ("cr", 2): b"\ntwo\n\r\n\rthree\n",
    ("any", 99): b"",
}


@pytest.mark.parametrize("size", [1, 2, 3, 99])
@pytest.mark.parametrize(("ends", "count"), BEHIND)
def test_lines_end_as_declared(ends: str, count: int, size: int) -> None:
    chunks = iter([DATA[start : start + size] for start in range(0, len(DATA), size)])
    found = behind_lines(chunks, count, ends)
    assert b"".join(chain([found], chunks)) == BEHIND[ends, count]


def test_each_kind_of_line_ends_is_tried() -> None:
    assert {ends for ends, _ in BEHIND} == set(DECLARED_ENDS)


def test_no_more_is_read_than_needed() -> None:
    chunks = iter([b"one\n", b"two\n", b"three\n"])
    assert (behind_lines(chunks, 1, "lf"), list(chunks)) == (b"", [b"two\n", b"three\n"])
    # After a CR, an LF may come.
    chunks = iter([b"one\r", b"two\n", b"three\n"])
    assert (behind_lines(chunks, 1, "any"), list(chunks)) == (b"two\n", [b"three\n"])
