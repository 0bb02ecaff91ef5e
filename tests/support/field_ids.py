"""Arrow's schemas with field ids at every level, as a table's have them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pyarrow as pa

ID = b"PARQUET:field_id"


def with_ids(schema: pa.Schema, first: int = 1) -> pa.Schema:
    """``schema`` with ids from ``first`` on, each field before those below it."""
    ids = count(first)
    return pa.schema([_with_id(field, ids) for field in schema])


def _with_id(field: pa.Field, ids: Iterator[int]) -> pa.Field:
    own = str(next(ids)).encode()
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_with_id(one, ids) for one in kind])
    elif pa.types.is_list(kind):
        kind = pa.list_(_with_id(kind.value_field, ids))
    elif pa.types.is_map(kind):
        kind = pa.map_(_with_id(kind.key_field, ids), _with_id(kind.item_field, ids))
    return field.with_type(kind).with_metadata({ID: own})
