"""The column of headers: as the quarantine has them, in their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.decoding.arrays import not_utf8
from sluice.core.decoding.decoder import Malformed, RawHeaders

TYPE = pa.list_(pa.struct([("key", pa.utf8()), ("value", pa.binary())]))
# Kafka's protocol has texts for keys, and no broker checks it.
_NOT_UTF8 = "the key of a header is not UTF-8"


def column(headers: pa.ListArray) -> tuple[pa.ListArray, dict[int, str]]:
    """Headers of ``record_batches.records.SCHEMA`` as a column, null where a record has none; and the reasons
    of records that have a key which is no text."""
    lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    flat = headers.flatten()
    keys = flat.field("key").view(pa.utf8())
    is_wrong = not_utf8(keys)
    reasons: dict[int, str] = {}
    if is_wrong is not None:
        rows = np.repeat(np.arange(len(headers)), lengths)[is_wrong]
        reasons = dict.fromkeys(rows.tolist(), _NOT_UTF8)
        keys = keys.take(pa.array(np.arange(len(keys)), mask=is_wrong))
    items = pa.StructArray.from_arrays([keys, flat.field("value")], fields=list(TYPE.value_type))
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(starts), items, type=TYPE, mask=pa.array(lengths == 0)), reasons


def reference(headers: RawHeaders) -> list[dict[str, Any]] | None:
    """One record's headers as the column has them. Raises Malformed."""
    try:
        return [{"key": key.decode(), "value": value} for key, value in headers] or None
    except UnicodeDecodeError:
        raise Malformed(_NOT_UTF8) from None
