"""Members of objects that no column has, as they were sent: the text of an object of them.

Each member is cut out of its record, from the quote before its key to the end of its value, so that no number
loses a digit. All records at once by the places of their members; a key with an escape is for the
reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.decoding.arrays import bytes_of
from sluice.core.decoding.json.document import PARSER, WHITE_SPACE
from sluice.core.decoding.json.members import Bytes, Places, is_space, members
from sluice.core.decoding.json.parts import Flags


def unknown_text(text: str, known: Sequence[str]) -> str | None:
    """The reference: of one object, which is valid. None if all members are ``known``."""
    found = [text[start:end] for name, start, end in member_places(text) if name not in known]
    return "{%s}" % ",".join(found) if found else None  # noqa: UP031  (braces)


def member_places(text: str) -> Iterator[tuple[str, int, int]]:
    """The key of each member, and where it begins and ends."""
    at = _next(text, text.index("{") + 1)
    while text[at] == '"':
        name, end = PARSER.raw_decode(text, at)
        value = _next(text, _next(text, end) + 1)
        _, end = PARSER.raw_decode(text, value)
        yield name, at, end
        at = _next(text, _next(text, end) + 1)
        # Behind the last member and its bracket.
        if at >= len(text):
            return


def _next(text: str, at: int) -> int:
    """The next character that is no white space, or the end."""
    while at < len(text) and text[at] in WHITE_SPACE:
        at += 1
    return at


def unknown_texts(texts: pa.StringArray, known: pa.StringArray) -> tuple[pa.StringArray, Flags]:
    """The same of many objects, which are valid and have a member each; and whether one is odd: for the
    reference."""
    shared, bounds = bytes_of(texts)
    found = members(shared[bounds[0] : bounds[-1]], bounds - bounds[0])
    if found is None:
        return pa.nulls(len(texts), pa.utf8()), np.ones(len(texts), np.bool_)
    is_unknown = ~found.are_named(known)
    starts, ends = found.starts[is_unknown], found.ends[is_unknown]
    parts = _slices(found.data, starts, ends)
    if is_space(found.data[ends - 1]).any():
        parts = pc.ascii_rtrim(parts, WHITE_SPACE)
    counts = np.bincount(found.rows[is_unknown], minlength=len(texts))
    places = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(counts, out=places[1:])
    lists = pa.ListArray.from_arrays(pa.array(places), parts)
    joined = pc.binary_join_element_wise("{", pc.binary_join(lists, ","), "}", "")
    return pc.if_else(pa.array(counts > 0), joined, None), found.is_odd


def _slices(data: Bytes, starts: Places, ends: Places) -> pa.StringArray:
    """Texts between places, which rise. Arrow's bytes of an array are one behind the other: here every second
    one is what lies between, and ``take`` copies the others."""
    if not len(starts):
        return pa.array([], pa.utf8())
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2], bounds[1::2] = starts, ends
    every = pa.Array.from_buffers(
        pa.utf8(), len(bounds) - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)], null_count=0
    )
    return every.take(pa.array(np.arange(0, len(bounds) - 1, 2)))
