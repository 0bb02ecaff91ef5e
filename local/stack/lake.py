"""The content of the lake, read by PyIceberg and DuckDB as role reader: for demos, drills and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Table

from local.base import UsageError
from local.stack.base import BaseStack
from sluice.clients.kafka.reader import delivered_among
from sluice.clients.lake.position import position
from sluice.clients.lake.reading import files
from sluice.clients.lake.reading.arrow_sql import ArrowSql, open_sql
from sluice.config.stream import StreamSpec
from sluice.core.offsets.ranges import OffsetRanges

Offsets = dict[int, tuple[int, int]]
OFFSETS = ("_kafka_partition", "_kafka_offset")
# Two attempts at a batch may both quarantine a record, which counts once; rows that were rejected before the
# topic have no offset.
_HELD = """
    create view held as select * from (
        select _kafka_partition as part, _kafka_offset as number from lake
        union all
        select distinct _kafka_partition, _kafka_offset from quarantine
    ) where part is not null
"""
_COMPARED = """
    with inside as (
        select part, number, coalesce(number >= first and number < until, false) as fits
        from held left join topic using (part)
    )
    select
        (select coalesce(sum(greatest(until - first, 0)), 0) from topic)
            - count(distinct (part, number)) filter (fits),
        count(*) - count(distinct (part, number)),
        count(*) filter (not fits),
        (select coalesce(sum(until - first), 0) from topic)
    from inside
"""

_MISSING = """
    select part, number from (select part, unnest(range(first, until)) as number from topic)
    anti join held using (part, number)
"""


def tables(stack: BaseStack, spec: StreamSpec) -> tuple[Table, Table]:
    """The stream's table and its quarantine, with the reader's rights."""
    lake = stack.lake("reader")
    return lake.table(spec.table), lake.table(spec.quarantine_table)


def stream_starts(table: Table) -> dict[int, int]:
    """Partition → the stream's first offset. Raises UsageError if nothing was ever published."""
    found = position(table)
    if found is None:
        raise UsageError(f"table {'.'.join(table.name())}: no snapshot on main has the stream's offsets")
    return found.starts


@dataclass(frozen=True)
class OffsetComparison:
    """`gaps`: offsets from the stream's start to the topic's end that are missing; `duplicates`: surplus
    copies of offsets; `unexpected`: offsets that are not on the topic; `records`: offsets of the topic that
    have a record."""

    gaps: int
    duplicates: int
    unexpected: int
    records: int

    @property
    def is_ok(self) -> bool:
        return (self.gaps, self.duplicates, self.unexpected) == (0, 0, 0)

    def message(self) -> str:
        return (
            f"of {self.records} offsets {self.gaps} are missing, {self.duplicates} are duplicated, "
            f"{self.unexpected} are not on the topic"
        )


@contextmanager
def held(lake: pa.RecordBatchReader, quarantine: pa.RecordBatchReader) -> Iterator[ArrowSql]:
    """SQL over `lake` and `quarantine`, both with OFFSETS, and `held` (part, number): the offsets of both."""
    with open_sql() as sql:
        sql.rows("create table lake as from source", source=lake)
        sql.rows("create table quarantine as from source", source=quarantine)
        sql.rows(_HELD)
        yield sql


def compare(
    sql: ArrowSql,
    starts: Mapping[int, int],
    topic: Offsets,
    delivered: Callable[[OffsetRanges], OffsetRanges] = lambda missing: missing,
) -> OffsetComparison:
    """Compare `held` with the offsets of a topic, from `starts` on. `delivered`: at which of the missing ones
    the topic delivers a committed record; markers of transactions have an offset, and none."""
    rows = [{"part": p, "first": starts.get(p, begin), "until": end} for p, (begin, end) in topic.items()]
    schema = pa.schema([(name, pa.int64()) for name in ("part", "first", "until")])
    sql.rows("create or replace table topic as from source", source=pa.Table.from_pylist(rows, schema))
    found = OffsetComparison(*map(int, sql.rows(_COMPARED)[0]))
    if not found.gaps:
        return found
    missing: dict[int, list[int]] = {}
    for partition, number in sql.rows(_MISSING):
        missing.setdefault(partition, []).append(number)
    gaps = delivered(OffsetRanges.of_values(missing)).count
    return replace(found, gaps=gaps, records=found.records - found.gaps + gaps)


def delivered_by(stack: BaseStack, spec: StreamSpec) -> Callable[[OffsetRanges], OffsetRanges]:
    """For :func:`compare`: asks the topic by librdkafka, with the reader's rights."""
    return partial(delivered_among, stack.platform("reader").kafka, spec.topic.name)


def read(table: Table, columns: tuple[str, ...]) -> pa.RecordBatchReader:
    """All rows of main, streaming."""
    return files.read(table, AlwaysTrue(), columns)


def total(values: Iterable[tuple[int, int]]) -> int:
    """Records between begin and end offsets, over all partitions."""
    return sum(end - begin for begin, end in values)
