"""Number and hash of the rows of data files, whatever their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table

from sluice.clients.lake.reading.arrow_sql import open_sql, quoted
from sluice.clients.lake.reading.by_arrow import read_any_text
from sluice.clients.lake.reading.files import OFFSET, PARTITION
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.verify import EMPTY
from sluice.core.tables.storage import FileSetDigest

# A row of ``ranges``, as `ranges_of` makes them, has the record's offset.
IN_RANGES = f"exists (select 1 from ranges where p = {PARTITION} and {OFFSET} >= a and {OFFSET} < b)"


def digest_of(
    table: Table, files: Sequence[DataFile], columns: Sequence[str], without: OffsetRanges = EMPTY
) -> FileSetDigest:
    """Digest these columns of the rows of ``files``, except the rows at the offsets ``without``."""
    if not files:
        return FileSetDigest(0, 0, 0)
    # A sum, so that the rows' order does not matter.
    values = ", ".join(map(quoted, columns))
    query = f"select count(*), coalesce(sum(hash({values})), 0) % (1::hugeint << 64) from rows"
    held = {}
    if without:
        query, held["ranges"] = f"{query} where not {IN_RANGES}", ranges_of(without)
    tasks = [FileScanTask(file) for file in files]

    def ask(read: Callable[..., pa.RecordBatchReader]) -> tuple[int, int]:
        with open_sql() as sql:
            found = sql.rows(query, rows=read(table, AlwaysTrue(), tuple(columns), tasks=tasks), **held)
        return found[0][0], found[0][1]

    return FileSetDigest(len(files), *read_any_text(ask))


def ranges_of(offsets: OffsetRanges) -> pa.Table:
    """Columns ``p`` (partition), ``a`` and ``b``: the offsets from ``a`` on, before ``b``."""
    rows = [(p, start, until) for p, ranges in offsets.partitions.items() for start, until in ranges]
    return pa.table(
        {name: pa.array([row[n] for row in rows], pa.int64()) for n, name in enumerate(("p", "a", "b"))}
    )
