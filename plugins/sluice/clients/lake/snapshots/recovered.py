"""Records that a change read from the quarantine, compared with what the quarantine had before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyiceberg.expressions import And, EqualTo
from pyiceberg.table import Table

from sluice.clients.lake.reading.arrow_sql import open_sql, quoted
from sluice.clients.lake.reading.by_arrow import read_any_text
from sluice.clients.lake.reading.files import OFFSET, PARTITION, overlapping
from sluice.clients.lake.snapshots.digest import IN_RANGES, ranges_of
from sluice.core.offsets.quarantine import CONSUMER_STAGE
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables import records

# A published row has these of its record, and one that was rejected again has the record.
IDENTITY = (*records.KAFKA_COLUMNS, *records.IDENTITY)
RECORD = records.RECORD
_COMPARED = """
    with pairs as (
        select b.digest is distinct from n.digest as differs
        from before b full join now n on b.partition = n.partition and b.number = n.number
    )
    select count(*) from pairs where differs
"""


def differences(before: Table, now: Table, offsets: OffsetRanges, columns: Sequence[str]) -> int:
    """How many of these offsets do not have the same values in both: ``before`` is the quarantine, ``now``
    the table or the quarantine. ``columns``: those that are compared."""
    if not offsets:
        return 0
    there = set(now.schema().column_names) - {PARTITION, OFFSET}
    shared = [name for name in columns if name in there]
    near = overlapping(offsets.bounds())

    def ask(read: Callable[..., pa.RecordBatchReader]) -> int:
        with open_sql() as sql:
            for name, table in (("before", before), ("now", now)):
                is_quarantine = "stage" in table.schema().column_names
                rows = And(EqualTo("stage", CONSUMER_STAGE), near) if is_quarantine else near
                # Only hashes are kept: the bytes may not fit into memory.
                sql.rows(
                    f"create table {name} as select {PARTITION} as partition, {OFFSET} as number, "
                    f"hash({', '.join(map(quoted, shared))}) as digest from held where {IN_RANGES}",
                    held=read(table, rows, (PARTITION, OFFSET, *shared)),
                    ranges=ranges_of(offsets),
                )
            return int(sql.rows(_COMPARED)[0][0])

    return read_any_text(ask)
