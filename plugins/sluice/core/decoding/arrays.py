"""What Arrow's arrays are made of, for NumPy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.record_batches.cursor import Bytes, Flags, Ints


def bytes_of(array: pa.BinaryArray | pa.StringArray) -> tuple[Bytes, Ints]:
    """The bytes that an array shares with others, not copied, and its bounds in them: value ``n`` is from
    bound ``n`` up to bound ``n + 1``. A null may have bytes, too."""
    _, bounds, data = array.buffers()
    shared = np.frombuffer(data or b"", np.uint8)
    if not len(array):
        # Arrow may leave out the bounds.
        return shared, np.zeros(1, np.int64)
    return shared, np.frombuffer(bounds, np.int32, len(array) + 1, 4 * array.offset).astype(np.int64)


def is_null(array: pa.Array) -> Flags:
    """Which values are null."""
    found: Flags = np.asarray(array.is_null().to_numpy(zero_copy_only=False), np.bool_)
    return found


def not_utf8(texts: pa.StringArray) -> Flags | None:
    """Which texts are not UTF-8; None if all are."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        pass
    else:
        return None
    is_ascii = pc.fill_null(pc.string_is_ascii(texts), True).to_numpy(zero_copy_only=False)
    wrong: Flags = np.zeros(len(texts), np.bool_)
    others = np.flatnonzero(~is_ascii)
    for place, value in zip(others, texts.cast(pa.binary()).take(pa.array(others)), strict=True):
        try:
            value.as_py().decode()
        except UnicodeDecodeError:
            wrong[place] = True
    return wrong
