"""Count the results that a query's sinks must have again from the lake's rows, without Spark."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, In

from sluice.clients.lake.reading import files
from sluice.clients.lake.reading.arrow_sql import open_sql, quoted
from sluice.clients.lake.results.positions import OFFSETS, rows_at
from sluice.config.sections.query import ARRIVAL, Query, TimeWindow
from sluice.core.queries.result import WINDOW
from sluice.queries.compare import Aggregates, by_key

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import FileScanTask, Table

    from sluice.core.offsets.ranges import OffsetRanges
    from sluice.queries.windows import Times

_MICROS = 1_000_000


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


def recount(
    table: Table, snapshot_id: int, query: Query, late: pa.Table, windows: tuple[int, int] | None
) -> Aggregates:
    """The results that a sink of ``query`` must have at a snapshot of the stream's table.

    ``late`` rows are left out of their windows, early ones (by the rule of ``Query``) of all. ``windows``:
    first and last start of those to count; without, their columns of all rows are read. Raises
    SnapshotExpired.
    """
    columns = [
        *query.group_by,
        *query.distinct.values(),
        *([query.event_time, ARRIVAL, *OFFSETS] if query.window else []),
    ]
    rows: BooleanExpression = AlwaysTrue()
    if query.window and windows:
        end = windows[1] + query.window.size_minutes * 60
        rows = files.between(query.event_time, [(windows[0], end)])
    source = rows_at(table, snapshot_id, _matching(rows, query), tuple(dict.fromkeys(columns)))
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
        ) anti join late using ({", ".join([*OFFSETS, WINDOW])})
        where {condition}
    )"""
