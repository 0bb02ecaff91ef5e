"""Read the queries' positions, and count the results that their sinks must have, without Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, GreaterThanOrEqual, In

from sluice.clients import query_state
from sluice.clients.lake.commits import ancestors, sluice_properties
from sluice.clients.lake.reading import files
from sluice.clients.lake.reading.arrow_sql import open_sql, quoted
from sluice.clients.query_state import QueryState
from sluice.config.query import ARRIVAL, WINDOW, Query, TimeWindow, key_text
from sluice.core.errors import Unreachable

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table

    from sluice.core.offsets.ranges import OffsetRanges

_MICROS = 1_000_000
_OFFSETS = (files.PARTITION, files.OFFSET)

# Key text -> aggregates, in the order of the declaration.
Results = dict[str, tuple[int, ...]]
# Column -> first and last time in it, in seconds since 1970; without columns that have none.
Times = Mapping[str, tuple[int, int]]


class SnapshotExpired(Unreachable):
    """A snapshot to read has expired. Newer positions name a newer one, unless the query stands still."""


@dataclass(frozen=True)
class QueryPositions:
    """The queries' states in their table's newest snapshot. ``measuring``: the queries with aggregates."""

    snapshot_id: int
    states: Mapping[str, QueryState]
    measuring: frozenset[str]

    @property
    def ends(self) -> dict[int, int]:
        """Partition -> the offset up to which every measuring query has processed the topic."""
        return query_state.common_end_offsets(
            state for name, state in self.states.items() if name in self.measuring
        )


def read_positions(table: Table, queries: Mapping[str, Query]) -> QueryPositions | None:
    """None before the queries' first writer. Raises ConfigError for a query whose declaration has changed."""
    for snapshot in ancestors(table):
        properties = sluice_properties(snapshot)
        if "queries" in properties:
            summaries = [{f"sluice.{key}": value for key, value in properties.items()}]
            return QueryPositions(
                snapshot.snapshot_id,
                query_state.read(summaries, queries, ".".join(table.name())),
                frozenset(name for name, query in queries.items() if query.aggregates),
            )
    return None


def late_rows(table: Table, positions: QueryPositions, name: str) -> pa.Table:
    """Offset and window of every row that came too late for a window of query ``name``. Raises
    SnapshotExpired."""
    since = positions.states[name].batch_offset
    rows = And(EqualTo("query", name), GreaterThanOrEqual("batch", since))
    columns = (WINDOW, *_OFFSETS)
    found = _rows(table, positions.snapshot_id, rows, columns).read_all().select(columns)
    return found.set_column(0, WINDOW, found.column(WINDOW).cast(pa.timestamp("us", "UTC")).cast(pa.int64()))


def event_times(
    table: Table, tasks: Sequence[FileScanTask], expected: OffsetRanges, columns: Collection[str]
) -> Times:
    """First and last time in each of the columns, of the rows of ``expected`` in these files."""
    if not columns:
        return {}
    ends = [f"{end}(epoch_us({quoted(column)}))" for column in columns for end in ("min", "max")]
    rows = files.read(table, files.overlapping(expected), tuple(columns), tasks=tasks)
    with open_sql() as sql:
        (found,) = sql.rows(f"select {', '.join(ends)} from source", source=rows)
    times = zip(columns, found[::2], found[1::2], strict=True)
    return {column: (first // _MICROS, last // _MICROS) for column, first, last in times if first is not None}


def affected_windows(query: Query, times: Times) -> tuple[int, int] | None:
    """First and last start (seconds since 1970) of the windows that these times may be in; None if there are
    none, or the query has no windows.

    Rows that the query's ``where`` excludes count too, and so do early ones: a sink must not have them.
    """
    if query.window is None or query.event_time not in times:
        return None
    first, last = times[query.event_time]
    return query.window.starts(first)[0], query.window.starts(last)[-1]


def recount(
    table: Table, snapshot_id: int, query: Query, late: pa.Table, windows: tuple[int, int] | None
) -> Results:
    """The results that a sink of ``query`` must have at a snapshot of the stream's table.

    ``late`` rows are left out of their windows, early ones (by the rule of ``Query``) of all. ``windows``:
    first and last start of those to count; without, their columns of all rows are read. Raises
    SnapshotExpired.
    """
    columns = [
        *query.group_by,
        *query.distinct.values(),
        *([query.event_time, ARRIVAL, *_OFFSETS] if query.window else []),
    ]
    rows: BooleanExpression = AlwaysTrue()
    if query.window and windows:
        end = windows[1] + query.window.size_minutes * 60
        rows = files.between(query.event_time, [(windows[0], end)])
    source = _rows(table, snapshot_id, _matching(rows, query), tuple(dict.fromkeys(columns)))
    with open_sql() as sql:
        return by_key(sql.rows(_counting(query, windows), source=source, late=late), query)


def _matching(rows: BooleanExpression, query: Query) -> BooleanExpression:
    for column, values in query.where.items():
        rows = And(rows, In(column, values))
    return rows


def _counting(query: Query, windows: tuple[int, int] | None) -> str:
    """SQL for keys and aggregates of ``source``'s rows without the ``late`` ones. Nulls are not counted; a
    row without event time is in no window."""
    keys = [*map(quoted, query.group_by), *([f"make_timestamp({WINDOW})"] if query.window else [])]
    aggregates = [
        f"count(distinct {quoted(query.distinct[name])})" if name in query.distinct else "count(*)"
        for name in query.aggregates
    ]
    rows = _assigned(query, query.window, windows) if query.window else "source"
    return f"select {', '.join([*keys, *aggregates])} from {rows} group by {', '.join(keys)}"


def _assigned(query: Query, window: TimeWindow, windows: tuple[int, int] | None) -> str:
    """SQL for ``source``'s rows, each once for every window that it is in and not too late for, without early
    rows."""
    every, length, shift = (
        minutes * 60 * _MICROS
        for minutes in (window.slide_minutes, window.size_minutes, window.offset_minutes)
    )
    delay = query.watermark_minutes * 60 * _MICROS
    # Null, and so left out, if the arrival is unknown.
    condition = f"{WINDOW} > _at - {length} and _at <= epoch_us({quoted(ARRIVAL)}) + {delay}"
    if windows:
        condition += f" and {WINDOW} between {windows[0] * _MICROS} and {windows[1] * _MICROS}"
    return f"""(
        select * from (
            -- SQL's remainder has the sign of the dividend.
            select *, _at - ((_at - {shift}) % {every} + {every}) % {every} - _back * {every} as {WINDOW}
            from (select *, epoch_us({quoted(query.event_time)}) as _at from source),
                range({-(-length // every)}) as before(_back)
        ) anti join late using ({", ".join([*_OFFSETS, WINDOW])})
        where {condition}
    )"""


def by_key(rows: Iterable[Sequence[Any]], query: Query) -> Results:
    """Rows of keys, aggregates and optional further columns, by key text."""
    split = len(query.keys)
    end = split + len(query.aggregates)
    return {key_text(row[:split]): tuple(row[split:end]) for row in rows}


def _rows(
    table: Table, snapshot_id: int, rows: BooleanExpression, columns: tuple[str, ...]
) -> pa.RecordBatchReader:
    if table.snapshot_by_id(snapshot_id) is None:
        raise SnapshotExpired(
            f"snapshot {snapshot_id} of table {'.'.join(table.name())} has expired. Fix: retry after the "
            "queries' next batch"
        )
    return files.read(table, rows, columns, snapshot_id)


def in_windows(results: Results, query: Query, windows: tuple[int, int] | None) -> Results:
    """The results whose window starts between the first and last of ``windows``; all without ``windows``."""
    if query.window is None or windows is None:
        return results
    # Key texts of times sort as the times do, and are the key's last part.
    first, last = (key_text([datetime.fromtimestamp(at, UTC)]) for at in windows)
    return {key: value for key, value in results.items() if first <= key.rsplit("|", 1)[1] <= last}
