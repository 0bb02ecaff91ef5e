"""The event ids of a load's rows, and how often the whole table has each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.table import Table
from pyiceberg.types import DateType, TimestamptzType

from sluice.clients.lake import files
from sluice.clients.lake.arrow_sql import ArrowSql, open_sql, quoted
from sluice.model.verification.sources import spans

MINUTE = 60
# A load of what came late has moments from everywhere; more ranges would only make the question longer.
MAX_RANGES = 50
Read = Callable[[Table, BooleanExpression, tuple[str, ...]], pa.RecordBatchReader]


@dataclass(frozen=True)
class EventIdCounts:
    """``rows``: of the load, ``nameless`` of them without an id; ``twice``: id -> rows of the table that have
    it, for the load's ids of which there is more than one."""

    rows: int
    nameless: int
    twice: dict[str, int] = field(default_factory=dict)


def count_event_ids(
    table: Table,
    rows: BooleanExpression,
    column: str,
    partition_by: Sequence[str] = (),
    read: Read = files.read,
) -> EventIdCounts:
    """Count the ids in ``column`` of the load's ``rows`` in the whole table.

    An event that came twice is the same in every column. So only those rows are read that have a date of the
    load's, where the table is partitioned by one, and a moment of its, where it has a column of moments: a
    day of a table that is not compacted yet has a file for every batch and partition. Of ``partition_by``
    only dates that are columns as they are count; a truncated one (``truncate(1, zipcode)``) is none.
    """
    kinds = {field.name: field.field_type for field in table.schema().fields}
    date = next((name for name in partition_by if isinstance(kinds.get(name), DateType)), None)
    # Not Sluice's own: a record that came twice has two times at Kafka.
    moments = (name for name, kind in kinds.items() if isinstance(kind, TimestamptzType) and name[0] != "_")
    moment = next(moments, None)
    columns = tuple(dict.fromkeys(name for name in (column, date, moment) if name))
    with open_sql() as sql:
        name = quoted(column)
        minute = f"floor(epoch_us({quoted(moment)}) / {MINUTE * 1_000_000})::bigint" if moment else "null"
        day = quoted(date) if date else "null"
        load = f"create table load as select {name} as id, {day} as day, {minute} as minute from source"
        sql.rows(load, source=read(table, rows, columns))
        ((count, nameless),) = sql.rows("select count(*), count(*) - count(id) from load")
        if not count:
            return EventIdCounts(0, 0)
        alike = _alike(sql, date, moment)
        again = f"""
            select {name}, count(*) from source semi join load on {name} = load.id
            group by {name} having count(*) > 1
        """
        return EventIdCounts(count, nameless, dict(sql.rows(again, source=read(table, alike, (column,)))))


def _alike(sql: ArrowSql, date: str | None, moment: str | None) -> BooleanExpression:
    """The rows of the table that could be one of the load's. Of rows without a date, or without a moment,
    nobody knows where their like are: they are looked for everywhere."""
    alike: BooleanExpression = AlwaysTrue()
    days = [day for (day,) in sql.rows("select distinct day from load")]
    if date and None not in days:
        alike = files.union(alike, files.among(date, [day.isoformat() for day in days]))
    minutes = [minute for (minute,) in sql.rows("select distinct minute from load order by all")]
    if moment and None not in minutes:
        ranges = [(_iso(begin), _iso(end)) for begin, end in spans(minutes, MAX_RANGES)]
        alike = files.union(alike, files.between(moment, ranges))
    return alike


def _iso(minute: int) -> str:
    return datetime.fromtimestamp(minute * MINUTE, UTC).isoformat()
