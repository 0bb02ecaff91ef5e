"""The queries' own table, and what their sinks must hold: counted from the lake's rows, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, GreaterThanOrEqual, In

from sluice.clients.errors import Unreachable
from sluice.clients.lake import files
from sluice.clients.lake.arrow_sql import open_sql, quoted
from sluice.clients.lake.catalog import ancestors, sluice_properties
from sluice.model.queries import state as query_state
from sluice.model.queries.state import QueryState
from sluice.model.spec.query import WINDOW, Query, TimeWindow, key_text

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluice.model.verification.ranges import OffsetRanges

_MICROS = 1_000_000
_OFFSETS = (files.PARTITION, files.OFFSET)

# The text of a result's key -> its measures, in the order of the declaration.
Results = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class QueryPositions:
    """What the newest snapshot of the queries' table says: where each query is, and who owns them.

    ``measuring``: those of them that count something, in sinks that can be checked."""

    snapshot_id: int
    at: float
    epoch: int
    states: Mapping[str, QueryState]
    measuring: frozenset[str]

    @property
    def ends(self) -> dict[int, int]:
        """Partition -> up to which offset every query that measures has counted."""
        return query_state.common_end_offsets(
            state for name, state in self.states.items() if name in self.measuring
        )


def standing(table: Table, queries: Mapping[str, Query]) -> QueryPositions | None:
    """None where nobody has owned the queries yet. Raises ConfigError for one that was declared otherwise."""
    for snapshot in ancestors(table):
        facts = sluice_properties(snapshot)
        if "queries" in facts:
            said = [{f"sluice.{key}": value for key, value in facts.items()}]
            return QueryPositions(
                snapshot.snapshot_id,
                snapshot.timestamp_ms / 1000,
                int(facts["epoch"]),
                query_state.read(said, queries, ".".join(table.name())),
                frozenset(name for name, query in queries.items() if query.aggregates),
            )
    return None


def late(table: Table, standing: QueryPositions, name: str) -> pa.Table:
    """The rows that came too late for query ``name``: their coordinates, and the window each is not in."""
    since = standing.states[name].batch_offset
    rows = And(EqualTo("query", name), GreaterThanOrEqual("batch", since))
    columns = (WINDOW, *_OFFSETS)
    found = files.read(table, rows, columns, standing.snapshot_id).read_all().select(columns)
    return found.set_column(0, WINDOW, found.column(WINDOW).cast(pa.timestamp("us", "UTC")).cast(pa.int64()))


def touched(table: Table, snapshot_id: int, query: Query, expected: OffsetRanges) -> tuple[int, int] | None:
    """The first and the last beginning (seconds since 1970) of the windows that rows of ``expected`` are in;
    None if there are none, or the query has no windows.

    Also of rows that the query's ``where`` leaves out: a sink that holds them all the same is to be found.
    """
    if query.window is None:
        return None
    moment = f"epoch_us({quoted(query.event_time)})"
    rows = _rows(table, snapshot_id, files.overlapping(expected), (query.event_time,))
    with open_sql() as sql:
        ((first, last),) = sql.rows(f"select min({moment}), max({moment}) from source", source=rows)
    if first is None:
        return None
    return query.window.starts(first // _MICROS)[0], query.window.starts(last // _MICROS)[-1]


def recount(
    table: Table, snapshot_id: int, query: Query, late: pa.Table, windows: tuple[int, int] | None
) -> Results:
    """What a sink of ``query`` must hold of the rows of the stream's table at a snapshot.

    ``late`` rows are left out of the windows that they came too late for. ``windows``: the first and the last
    beginning of those that are wanted; else all rows are read, of two columns or three.
    """
    columns = [
        *query.group_by,
        *([query.event_time] if query.window else []),
        *query.distinct.values(),
        *_OFFSETS,
    ]
    rows: BooleanExpression = AlwaysTrue()
    if query.window and windows:
        end = windows[1] + query.window.size_minutes * 60
        rows = files.between(query.event_time, [(_iso(windows[0]), _iso(end))])
    source = _rows(table, snapshot_id, _matching(rows, query), tuple(dict.fromkeys(columns)))
    with open_sql() as sql:
        return texts(sql.rows(_counting(query, windows), source=source, late=late), query)


def _matching(rows: BooleanExpression, query: Query) -> BooleanExpression:
    for column, values in query.where.items():
        rows = And(rows, In(column, values))
    return rows


def _counting(query: Query, windows: tuple[int, int] | None) -> str:
    """SQL for the results of ``source``'s rows but the ``late`` ones: keys, then measures. A null is no
    value, and a row without a moment is in no window."""
    keys = [*map(quoted, query.group_by), *([f"make_timestamp({WINDOW})"] if query.window else [])]
    aggregates = [
        f"count(distinct {quoted(query.distinct[name])})" if name in query.distinct else "count(*)"
        for name in query.aggregates
    ]
    rows = _placed(query, query.window, windows) if query.window else "source"
    return f"select {', '.join([*keys, *aggregates])} from {rows} group by {', '.join(keys)}"


def _placed(query: Query, window: TimeWindow, windows: tuple[int, int] | None) -> str:
    """SQL for ``source``'s rows, each once for every window that it is in and not too late for."""
    every, length, shift = (
        minutes * 60 * _MICROS
        for minutes in (window.slide_minutes, window.size_minutes, window.offset_minutes)
    )
    wanted = f"{WINDOW} > _at - {length}"
    if windows:
        wanted += f" and {WINDOW} between {windows[0] * _MICROS} and {windows[1] * _MICROS}"
    return f"""(
        select * from (
            -- SQL's remainder has the sign of the number that is divided.
            select *, _at - ((_at - {shift}) % {every} + {every}) % {every} - _back * {every} as {WINDOW}
            from (select *, epoch_us({quoted(query.event_time)}) as _at from source),
                range({-(-length // every)}) as before(_back)
        ) anti join late using ({", ".join([*_OFFSETS, WINDOW])})
        where {wanted}
    )"""


def texts(rows: Iterable[Sequence[Any]], query: Query) -> Results:
    """Rows of keys, aggregates and perhaps more columns, by key text."""
    split = len(query.keys)
    end = split + len(query.aggregates)
    return {key_text(row[:split]): tuple(row[split:end]) for row in rows}


def _rows(
    table: Table, snapshot_id: int, rows: BooleanExpression, columns: tuple[str, ...]
) -> pa.RecordBatchReader:
    if table.snapshot_by_id(snapshot_id) is None:
        raise Unreachable(
            f"snapshot {snapshot_id} of table {'.'.join(table.name())} is not kept any more; look again when "
            "the queries have gone on"
        )
    return files.read(table, rows, columns, snapshot_id)


def _iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def within(results: Results, query: Query, windows: tuple[int, int] | None) -> Results:
    """Those results whose window begins between the first and the last of ``windows``; all where there are
    none."""
    if query.window is None or windows is None:
        return results
    # The text of a moment sorts as the moment does, and is the key's last part.
    first, last = (key_text([datetime.fromtimestamp(at, UTC)]) for at in windows)
    return {key: told for key, told in results.items() if first <= key.rsplit("|", 1)[1] <= last}
