"""The event ids of a load's rows, and how often the whole table has each.

Ids are compared by a hash of 64 bits, so that ten million of them fit into 80 MB; those of which the hash is
there more than once are then read again and compared as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
from pandas.util import hash_array
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.table import Table
from pyiceberg.types import DateType, TimestamptzType

from sluice.clients.files import among, batches, between, both
from sluice.model.events import spans

MINUTE = 60
# A load of what came late has moments from everywhere; more ranges would only make the question longer.
MOST_SPANS = 50
Read = Callable[[Table, BooleanExpression, tuple[str, ...]], Iterable[pa.RecordBatch]]
Hash = Callable[[pa.Array], Any]


@dataclass(frozen=True)
class Census:
    """``rows``: of the load, ``nameless`` of them without an id; ``twice``: id -> rows of the table that have
    it, for the load's ids of which there is more than one."""

    rows: int
    nameless: int
    twice: dict[str, int] = field(default_factory=dict)


def census(
    table: Table,
    rows: BooleanExpression,
    column: str,
    partition_by: Sequence[str] = (),
    read: Read = batches,
    hashed: Hash | None = None,
) -> Census:
    """Count the ids in ``column`` of the load's ``rows`` in the whole table.

    An event that came twice is the same in every column. So only those rows are read that have a date of the
    load's, where the table is partitioned by one, and a moment of its, where it has a column of moments: a
    day of a table that is not compacted yet has a file for every batch and partition. Of ``partition_by``
    only dates that are columns as they are count; a truncated one (``truncate(1, zipcode)``) is none.
    ``read`` gives columns of rows, ``hashed`` the hash of each id that is not null.
    """
    hashed = hashed or _hashes
    load = _Load(table, column, partition_by, hashed)
    for batch in read(table, rows, load.names):
        load.add(batch)
    if not load.rows:
        return Census(0, 0)
    wanted = np.unique(np.concatenate(load.hashes))
    alike = load.alike()
    seen = [_among(hashed(batch.column(column)), wanted) for batch in read(table, alike, (column,))]
    values, times = np.unique(np.concatenate(seen), return_counts=True)
    suspects = values[times > 1]
    if not len(suspects):
        return Census(load.rows, load.nameless)
    # The ids with one of these hashes, as they are.
    found: Counter[str] = Counter()
    for batch in read(table, alike, (column,)):
        present = batch.column(column).drop_null()
        found.update(present.filter(pa.array(np.isin(hashed(present), suspects))).to_pylist())
    return Census(load.rows, load.nameless, {name: times for name, times in found.items() if times > 1})


class _Load:
    """What the load's rows have: their ids' hashes, their dates and their minutes."""

    def __init__(self, table: Table, column: str, partition_by: Sequence[str], hashed: Hash) -> None:
        kinds = {field.name: field.field_type for field in table.schema().fields}
        self.column, self.hashed = column, hashed
        self.date = next((name for name in partition_by if isinstance(kinds.get(name), DateType)), None)
        # Not Sluice's own: a record that came twice has two times at Kafka.
        self.moment = next(
            (name for name, kind in kinds.items() if isinstance(kind, TimestamptzType) and name[0] != "_"),
            None,
        )
        self.rows = self.nameless = 0
        self.hashes: list[Any] = []
        self.dates: set[date | None] = set()
        self.minutes: set[int | None] = set()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name in (self.column, self.date, self.moment) if name))

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self.nameless += batch.column(self.column).null_count
        self.hashes.append(self.hashed(batch.column(self.column)))
        if self.date:
            self.dates |= set(batch.column(self.date).unique().to_pylist())
        if self.moment:
            seconds = batch.column(self.moment).cast(pa.timestamp("s", "UTC"), safe=False).cast(pa.int64())
            minutes = np.unique(seconds.drop_null().to_numpy(zero_copy_only=False) // MINUTE)
            self.minutes |= {*minutes.tolist(), *([None] if seconds.null_count else [])}

    def alike(self) -> BooleanExpression:
        """The rows of the table that could be one of the load's. Of rows without a date, or without a moment,
        nobody knows where their like are: they are looked for everywhere."""
        found: BooleanExpression = AlwaysTrue()
        if self.date and None not in self.dates:
            found = both(found, among(self.date, [day.isoformat() for day in self.dates if day]))
        if self.moment and None not in self.minutes:
            minutes = sorted(minute for minute in self.minutes if minute is not None)
            ranges = [(_moment(begin), _moment(end)) for begin, end in spans(minutes, MOST_SPANS)]
            found = both(found, between(self.moment, ranges))
        return found


def _moment(minute: int) -> str:
    return datetime.fromtimestamp(minute * MINUTE, UTC).isoformat()


def _hashes(ids: pa.Array) -> Any:
    """The 64-bit hash of each id; nothing for null."""
    return hash_array(ids.drop_null().to_numpy(zero_copy_only=False), categorize=False)


def _among(hashes: Any, wanted: Any) -> Any:
    """Those of ``hashes`` that are in the sorted ``wanted``."""
    if not len(wanted):
        return hashes[:0]
    places = np.searchsorted(wanted, hashes)
    places[places == len(wanted)] = 0
    return hashes[wanted[places] == hashes]
