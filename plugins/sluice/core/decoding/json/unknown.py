"""Members of objects that no column has, as they were sent: the text of an object of them.

Each member is cut out of its record, from the quote before its key to the end of its value, so that no number
loses a digit. All records at once by the places of their quotes, brackets and commas; a key with an escape is
for the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sluice.core.decoding.arrays import bytes_of
from sluice.core.decoding.json.document import PARSER, WHITE_SPACE
from sluice.core.decoding.json.parts import Flags

_QUOTE, _BACKSLASH, _COLON, _COMMA, _END = b'"\\:,}'
_IS_MARK = np.isin(np.arange(256), list(b'"\\{}[]:,'))
_STEPS = np.zeros(256, np.int8)
_STEPS[list(b"{[")], _STEPS[list(b"}]")] = 1, -1
_Places = NDArray[np.int64]


def unknown_text(text: str, known: Sequence[str]) -> str | None:
    """The reference: of one object, which is valid. None if all members are ``known``."""
    found = [text[start:end] for name, start, end in _members(text) if name not in known]
    return "{%s}" % ",".join(found) if found else None  # noqa: UP031  (braces)


def _members(text: str) -> Iterator[tuple[str, int, int]]:
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
    data = shared[bounds[0] : bounds[-1]]
    at, kinds, has_escapes = _marks(data)
    depth = np.cumsum(_STEPS[kinds], dtype=np.int32)
    is_outer = depth == 1
    colons = np.flatnonzero((kinds == _COLON) & is_outer)
    ends = at[((kinds == _COMMA) & is_outer) | ((kinds == _END) & (depth == 0))]
    is_odd: Flags = np.zeros(len(texts), np.bool_)
    if len(ends) != len(colons):
        # Not valid.
        return pa.nulls(len(texts), pa.utf8()), ~is_odd
    starts, behind = at[colons - 2], at[colons - 1]
    names = _slices(data, starts + 1, behind)
    rows = np.searchsorted(bounds - bounds[0], starts, side="right") - 1
    if has_escapes:
        escaped = pc.match_substring(names, "\\").to_numpy(zero_copy_only=False)
        is_odd[rows[escaped]] = True
    is_unknown = ~pc.is_in(names, value_set=known).to_numpy(zero_copy_only=False)
    members = pc.ascii_rtrim(_slices(data, starts[is_unknown], ends[is_unknown]), WHITE_SPACE)
    counts = np.bincount(rows[is_unknown], minlength=len(texts))
    places = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(counts, out=places[1:])
    lists = pa.ListArray.from_arrays(pa.array(places), members)
    found = pc.binary_join_element_wise("{", pc.binary_join(lists, ","), "}", "")
    return pc.if_else(pa.array(counts > 0), found, None), is_odd


def _marks(data: NDArray[np.uint8]) -> tuple[_Places, NDArray[np.uint8], bool]:
    """The places of quotes, and outside of texts of brackets, colons and commas; which of these they are; and
    whether there is a backslash."""
    at = np.flatnonzero(_IS_MARK[data])
    kinds = data[at]
    is_backslash = kinds == _BACKSLASH
    has_escapes = bool(is_backslash.any())
    if has_escapes:
        escaped = _escaped(at[is_backslash])
        is_kept = ~is_backslash
        # Neither a backslash is one, nor what it escapes.
        place = np.searchsorted(at, escaped)
        place = place[at[np.minimum(place, len(at) - 1)] == escaped]
        is_kept[place] = False
        at, kinds = at[is_kept], kinds[is_kept]
    is_quote = kinds == _QUOTE
    is_within = (np.cumsum(is_quote, dtype=np.int32) & 1).astype(np.bool_)
    is_kept = is_quote | ~is_within
    return at[is_kept], kinds[is_kept], has_escapes


def _escaped(backslashes: _Places) -> _Places:
    """The places of what backslashes escape: of some in a row the first escapes the second."""
    begins = np.append(True, np.diff(backslashes) != 1)
    first = np.maximum.accumulate(np.where(begins, np.arange(len(backslashes)), 0))
    escapes = (np.arange(len(backslashes)) - first) % 2 == 0
    return backslashes[escapes] + 1


def _slices(data: NDArray[Any], starts: _Places, ends: _Places) -> pa.StringArray:
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
