"""Count the event ids of a load's rows in the whole table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, In
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import DateType, TimestamptzType

from sluice.clients.lake.reading import files
from sluice.clients.lake.reading.arrow_sql import ArrowSql, open_sql, quoted
from sluice.clients.lake.reading.repeated_hashes import RepeatedHashes
from sluice.core.offsets.sources import MAX_NAMED_IDS, minute_ranges

MINUTE = 60
# A load of late events has times from everywhere; more ranges would only make the query longer.
MAX_RANGES = 50


@dataclass(frozen=True)
class EventIdCounts:
    """``rows`` of the load, ``missing_id`` of them without an id; ``duplicates``: ids of the load that more
    than one row of the table has -> number of those rows, of the first MAX_NAMED_IDS; ``more``: number of
    further ones."""

    rows: int
    missing_id: int
    duplicates: dict[str, int] = field(default_factory=dict)
    more: int = 0


def count_event_ids(
    table: Table,
    rows: BooleanExpression,
    column: str,
    partition_by: Sequence[str] = (),
    tasks: Sequence[FileScanTask] | None = None,
) -> EventIdCounts:
    """Count the ids in ``column`` of the load's ``rows`` in the whole table. ``tasks``: the files that can
    hold them; without, all files are planned for them.

    Duplicates of an event are equal in every column. So only rows with the load's dates (if the table is
    partitioned by a date column, named as it is in ``partition_by``) and times (if it has such a column) are
    read: a day of a table that is not compacted has a file per batch and partition.
    """
    kinds = {field.name: field.field_type for field in table.schema().fields}
    date = next((name for name in partition_by if isinstance(kinds.get(name), DateType)), None)
    # Not Sluice's own columns: Kafka's times differ between duplicates.
    moments = (name for name, kind in kinds.items() if isinstance(kind, TimestamptzType) and name[0] != "_")
    moment = next(moments, None)
    columns = tuple(dict.fromkeys(name for name in (column, date, moment) if name))
    with open_sql() as sql:
        name = quoted(column)
        minute = f"floor(epoch_us({quoted(moment)}) / {MINUTE * 1_000_000})::bigint" if moment else "null"
        day = quoted(date) if date else "null"
        load = f"""
            create table load as select {day} as day, {minute} as minute, count(*) as events,
            count({name}) as with_id from source group by all
        """
        sql.rows(load, source=files.read(table, rows, columns, tasks=tasks))
        ((count, with_id),) = sql.rows("select coalesce(sum(events), 0), coalesce(sum(with_id), 0) from load")
        if not count:
            return EventIdCounts(0, 0)
        candidates = _possible_duplicates(sql, date, moment)

    def read(which: BooleanExpression, within: Sequence[FileScanTask] | None) -> pa.RecordBatchReader:
        return files.read(table, which, (column,), tasks=within)

    duplicates = _duplicates(name, lambda: read(rows, tasks), lambda: read(candidates, None))
    return EventIdCounts(int(count), int(count - with_id), *duplicates)


def _duplicates(
    name: str, load: Callable[[], pa.RecordBatchReader], candidates: Callable[[], pa.RecordBatchReader]
) -> tuple[dict[str, int], int]:
    """Ids of the ``load`` that more than one of the ``candidates`` has -> number of these, of the first
    MAX_NAMED_IDS, and number of further ones: a feed that was sent again has all of its ids twice.

    First by hashes, which take constant memory: usually none comes twice. Then the ids of those that do.
    """
    hashed = f"select hash({name}) as hashed from source where {name} is not null"
    with open_sql() as sql, RepeatedHashes() as hashes:
        for batch in sql.batches(hashed, source=candidates()):
            hashes.add(batch["hashed"].to_numpy())
        sql.rows("create table repeated (hashed ubigint)")
        for found in hashes.repeated():
            sql.rows("insert into repeated select hashed from found", found=pa.table({"hashed": found}))
        if not sql.rows("select 1 from repeated limit 1"):
            return {}, 0
        is_repeated = f"hash(source.{name}) in (select hashed from repeated)"
        ids = f"create table load as select distinct source.{name} as id from source where {is_repeated}"
        sql.rows(ids, source=load())
        again = f"""
            create table again as select source.{name} as id, count(*) as times from source
            semi join load on source.{name} = load.id
            group by source.{name} having count(*) > 1
        """
        sql.rows(again, source=candidates())
        named = dict(sql.rows(f"select id, times from again order by id limit {MAX_NAMED_IDS}"))
        ((count,),) = sql.rows("select count(*) from again")
        return named, int(count) - len(named)


def _possible_duplicates(sql: ArrowSql, date: str | None, moment: str | None) -> BooleanExpression:
    """The rows of the table that may equal one of the load's; a load with a null date or time may have
    duplicates anywhere."""
    candidates: BooleanExpression = AlwaysTrue()
    days = [day for (day,) in sql.rows("select distinct day from load")]
    if date and None not in days:
        candidates = And(candidates, In(date, [day.isoformat() for day in days]))
    minutes = [minute for (minute,) in sql.rows("select distinct minute from load order by all")]
    if moment and None not in minutes:
        ranges = [(begin * MINUTE, end * MINUTE) for begin, end in minute_ranges(minutes, MAX_RANGES)]
        candidates = And(candidates, files.between(moment, ranges))
    return candidates
