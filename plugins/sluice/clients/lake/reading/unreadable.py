"""Records of which a value cannot be read: text that is not UTF-8, a time beyond Python's range.

Read by PyArrow, which hands such a value on; for DuckDB the whole file is unreadable then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sluice.clients.lake.reading.files import OFFSET, PARTITION
from sluice.core.offsets.ranges import OffsetRanges

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

# UnicodeDecodeError is a ValueError.
_UNREADABLE = (ValueError, OverflowError)


def unreadable(table: Table) -> OffsetRanges:
    """The offsets of these records. Reads the whole table as Python's values, which takes long: for a query
    that failed."""
    offsets: dict[int, list[int]] = {}
    for batch in table.scan().to_arrow_batch_reader():
        for row in _rows(batch):
            partition, offset = (row.column(name)[0].as_py() for name in (PARTITION, OFFSET))
            if offset is not None:
                offsets.setdefault(partition, []).append(offset)
    return OffsetRanges.of_values(offsets)


def _rows(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch that cannot be read, by halving it."""
    try:
        batch.to_pylist()
    except _UNREADABLE:
        if batch.num_rows == 1:
            yield batch
            return
        half = batch.num_rows // 2
        yield from _rows(batch.slice(0, half))
        yield from _rows(batch.slice(half))
