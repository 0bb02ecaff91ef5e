"""Lines at a file's begin that are no part of its records, whatever is in them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sluice.core.csv.form import ANY, ONLY_CR, ONLY_CRLF, ONLY_LF

# What may follow belongs to a line's end, too: so a CR at the end of the data is none yet.
_ENDS = {
    ANY: re.compile(rb"\r\n|\r(?=.)|\n", re.DOTALL),
    ONLY_LF: re.compile(rb"\n"),
    ONLY_CRLF: re.compile(rb"\r\n"),
    ONLY_CR: re.compile(rb"\r"),
}


def behind_lines(chunks: Iterator[bytes], count: int, line_ends: str) -> bytes:
    """What was read behind the first ``count`` lines; empty if there are no more. ``line_ends``: one of
    ``form.DECLARED_ENDS``. Holds one chunk, and reads no more of ``chunks`` than needed."""
    held = b""
    for chunk in chunks:
        data, at = held + chunk, 0
        while count and (end := _ENDS[line_ends].search(data, at)):
            count, at = count - 1, end.end()
        if not count:
            return data[at:]
        # Perhaps the first of a CRLF.
        held = data[-1:] if data.endswith(b"\r", at) else b""
    return b""
