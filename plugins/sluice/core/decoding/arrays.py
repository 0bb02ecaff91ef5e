"""What Arrow's arrays are made of, for NumPy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sluice.core.record_batches.cursor import Bytes, Ints


def bytes_of(array: pa.BinaryArray | pa.StringArray) -> tuple[Bytes, Ints]:
    """The bytes that an array shares with others, not copied, and its bounds in them: value ``n`` is from
    bound ``n`` up to bound ``n + 1``. A null may have bytes, too."""
    _, bounds, data = array.buffers()
    shared = np.frombuffer(data or b"", np.uint8)
    if not len(array):
        # Arrow may leave out the bounds.
        return shared, np.zeros(1, np.int64)
    return shared, np.frombuffer(bounds, np.int32, len(array) + 1, 4 * array.offset).astype(np.int64)
