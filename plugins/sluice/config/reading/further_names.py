"""Names that no column of a further field may have, of one table."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from sluice.config.reading.names import COLUMN, ICEBERG, OURS
from sluice.core.decoding.avro.following.conflicts import Names


def names_of(
    table: pa.Schema, columns: Collection[str], added: Collection[str], partitions: frozenset[str]
) -> Names:
    """``table``: all of its columns; ``columns``: those of the schema that it is read with; ``added``: those
    beside them, as of keys; ``partitions``: as Names has them."""
    own = frozenset(map(str.lower, added))
    known = {name.lower() for name in columns} | own
    earlier = {field.name.lower(): field for field in table if field.name.lower() not in known}
    present = {name: field for name, field in earlier.items() if not name.startswith(OURS)}
    return Names(COLUMN.pattern, OURS, ICEBERG, own, present, partitions)
