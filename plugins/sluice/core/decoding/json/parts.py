"""Rows of which Arrow refuses some: its calls fail for all rows, and the others must not pay for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
Part = TypeVar("Part")
# Below this it costs less to have the reference read all rows than to call Arrow again.
_FEW = 8
# So it does once Arrow has failed often, but for this number of times.
_MIN_FAILURES = 8
# The end of what the JSON parser says of a syntax error.
_ROW = re.compile(r" in row ([0-9]+)$")


def in_parts(
    rows: pa.Array, read: Callable[[pa.Array], Part], nothing: Callable[[int], Part], max_failures: float
) -> tuple[list[Part], Flags]:
    """Read rows, in as few parts as possible, and which of them ``read`` refuses by ArrowInvalid: those of
    ``nothing``, which has their number. Some of their neighbours are among them; and all that follow, once it
    has failed for more than ``max_failures`` of the rows, a share that depends on what a call costs.

    The error may name the first row that it refuses; else the rows are halved.
    """
    allowed = max(_MIN_FAILURES, len(rows) * max_failures)
    is_refused: Flags = np.zeros(len(rows), np.bool_)
    parts, failures, ranges = [], 0, [(0, len(rows))]
    while ranges:
        start, end = ranges.pop()
        if end - start >= _FEW and failures <= allowed:
            try:
                parts.append(read(rows[start:end]))
                continue
            except pa.ArrowInvalid as error:
                failures += 1
                found = _ROW.search(str(error))
            if end - start > 1:
                middle = start + int(found[1]) if found else (start + end) // 2
                behind = middle + 1 if found else middle
                # The first one last, to be taken next.
                following = [(behind, end), (middle, behind), (start, middle)]
                ranges += [part for part in following if start <= part[0] < part[1] <= end]
                continue
        is_refused[start:end] = True
        parts.append(nothing(end - start))
    return parts, is_refused
