"""What is in the lake, read by PyIceberg with the reader's rights: the demo, the drills and the tests prove
their records by it, and by nothing that a job said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.table import Table

from local.base import UsageError
from local.stack.stack import Stack
from sluice.clients.lake import files
from sluice.clients.lake.arrow_sql import ArrowSql, open_sql
from sluice.io.kafka import topic_offsets
from sluice.model.spec.stream import StreamSpec
from sluice.model.verification.ranges import offsets_from_json

Offsets = dict[int, tuple[int, int]]
OFFSETS = ("_kafka_partition", "_kafka_offset")
# Two attempts at a batch may both set a record aside, and it counts once; rows that were refused before they
# reached the topic have no offset.
_HELD = """
    create view held as select * from (
        select _kafka_partition as part, _kafka_offset as place from lake
        union all
        select distinct _kafka_partition, _kafka_offset from quarantine
    ) where part is not null
"""
_COMPARED = """
    with inside as (
        select part, place, coalesce(place >= first and place < until, false) as fits
        from held left join topic using (part)
    )
    select
        (select coalesce(sum(greatest(until - first, 0)), 0) from topic)
            - count(distinct (part, place)) filter (fits),
        count(*) - count(distinct (part, place)),
        count(*) filter (not fits),
        (select coalesce(sum(until - first), 0) from topic)
    from inside
"""


def tables(stack: Stack, spec: StreamSpec) -> tuple[Table, Table]:
    """The stream's table and its quarantine, with the reader's rights."""
    catalog = stack.catalog("reader")
    return catalog.load_table(spec.table), catalog.load_table(spec.quarantine_table)


def stream_starts(table: Table) -> dict[int, int]:
    """Where the stream began on the topic, from the newest snapshot on main that a consumer made.

    Raises UsageError when there is none: then nothing was ever published.
    """
    snapshot = table.current_snapshot()
    while snapshot is not None:
        summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        if "sluice.start-offsets" in summary:
            return offsets_from_json(summary["sluice.start-offsets"])
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    raise UsageError(f"table {'.'.join(table.name())}: no snapshot on main says where the stream began")


@dataclass(frozen=True)
class Exactness:
    """How the lake compares with the topic: exact is none of each.

    `gaps`: offsets from the stream's start to the topic's end that nothing holds; `duplicates`: offsets that
    are held more than once, each as often as it is too many; `unexpected`: offsets that are held and not on
    the topic.
    """

    gaps: int
    duplicates: int
    unexpected: int
    records: int

    @property
    def is_ok(self) -> bool:
        return (self.gaps, self.duplicates, self.unexpected) == (0, 0, 0)

    def message(self) -> str:
        return (
            f"of {self.records} offsets {self.gaps} are missing, {self.duplicates} are there more than once, "
            f"{self.unexpected} are there and not on the topic"
        )


@contextmanager
def held(lake: pa.RecordBatchReader, quarantine: pa.RecordBatchReader) -> Iterator[ArrowSql]:
    """SQL over `lake` and `quarantine`, both with OFFSETS and what else was scanned, and over `held` (part,
    place), the offsets of both."""
    with open_sql() as sql:
        sql.rows("create table lake as from source", source=lake)
        sql.rows("create table quarantine as from source", source=quarantine)
        sql.rows(_HELD)
        yield sql


def compare(sql: ArrowSql, starts: Mapping[int, int], topic: Offsets) -> Exactness:
    """What is `held` against the offsets of a topic, from `starts` on."""
    rows = [{"part": p, "first": starts.get(p, begin), "until": end} for p, (begin, end) in topic.items()]
    schema = pa.schema([(name, pa.int64()) for name in ("part", "first", "until")])
    sql.rows("create or replace table topic as from source", source=pa.Table.from_pylist(rows, schema))
    return Exactness(*map(int, sql.rows(_COMPARED)[0]))


def scan(
    table: Table, columns: tuple[str, ...], rows: BooleanExpression | None = None
) -> pa.RecordBatchReader:
    """The rows of main (those that match), streaming."""
    return files.read(table, rows or AlwaysTrue(), columns)


def exactness(stack: Stack, spec: StreamSpec) -> Exactness:
    """Every offset of the topic against the table and the quarantine, as they are now."""
    lake, quarantine = tables(stack, spec)
    topic = topic_offsets(stack.platform("reader").kafka, spec.topic.name)
    with held(scan(lake, OFFSETS), scan(quarantine, OFFSETS)) as sql:
        return compare(sql, stream_starts(lake), topic)


def total(values: Iterable[tuple[int, int]]) -> int:
    """Records between begin and end, over all partitions."""
    return sum(end - begin for begin, end in values)
