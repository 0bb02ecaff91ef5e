"""The queries' own table, and what their sinks must hold: counted from the lake's rows, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, BooleanExpression

from sluice.clients import files
from sluice.clients.errors import Unreachable
from sluice.clients.table import asking, facts_of, lineage
from sluice.model import query_state
from sluice.model.query import WINDOW, Query, key_text
from sluice.model.query_state import State

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluice.model.ranges import RangeSet

_MICROS = 1_000_000
_OFFSETS = (files.PARTITION, files.OFFSET)

# The text of a result's key -> its measures, in the order of the declaration.
Results = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Standing:
    """What the newest snapshot of the queries' table says: where each query is, and who owns them.

    ``measuring``: those of them that count something, in sinks that can be checked."""

    snapshot_id: int
    at: float
    token: int
    states: Mapping[str, State]
    measuring: frozenset[str]

    @property
    def ends(self) -> dict[int, int]:
        """Partition -> up to which offset every query that measures has counted."""
        return query_state.common_ends(state for name, state in self.states.items() if name in self.measuring)


def standing(table: Table, queries: Mapping[str, Query]) -> Standing | None:
    """None where nobody has owned the queries yet. Raises ConfigError for one that was declared otherwise."""
    for snapshot in lineage(table):
        facts = facts_of(snapshot)
        if "queries" in facts:
            said = [{f"sluice.{key}": value for key, value in facts.items()}]
            return Standing(
                snapshot.snapshot_id,
                snapshot.timestamp_ms / 1000,
                int(facts["token"]),
                query_state.read(said, queries, ".".join(table.name())),
                frozenset(name for name, query in queries.items() if query.measures),
            )
    return None


def late(table: Table, standing: Standing, name: str) -> pa.Table:
    """The rows that came too late for query ``name``: their coordinates, and the window each is not in."""
    since = standing.states[name].base
    rows = files.both(files.equal("query", name), files.at_least("batch", since))
    columns = (WINDOW, *_OFFSETS)
    with asking(f"rows of table {'.'.join(table.name())}"):
        scan = table.scan(row_filter=rows, selected_fields=columns, snapshot_id=standing.snapshot_id)
        found = scan.to_arrow().select(columns)
    return found.set_column(0, WINDOW, _micros(found.column(WINDOW)))


def touched(table: Table, snapshot_id: int, query: Query, expected: RangeSet) -> tuple[int, int] | None:
    """The first and the last beginning (seconds since 1970) of the windows that rows of ``expected`` are in;
    None where there are none, or the query has no windows."""
    if query.window is None:
        return None
    first = last = None
    for batch in _rows(table, snapshot_id, _matching(files.overlapping(expected), query), (query.at,)):
        if batch.num_rows:
            bounds = pc.min_max(_micros(batch.column(query.at)))
            low, high = (bounds[name].as_py() // _MICROS for name in ("min", "max"))
            first = low if first is None else min(first, low)
            last = high if last is None else max(last, high)
    if first is None or last is None:
        return None
    return query.window.starts(first)[0], query.window.starts(last)[-1]


def recount(
    table: Table, snapshot_id: int, query: Query, late: pa.Table, windows: tuple[int, int] | None
) -> Results:
    """What a sink of ``query`` must hold of the rows of the stream's table at a snapshot.

    ``late`` rows are left out of the windows that they came too late for. ``windows``: the first and the last
    beginning of those that are wanted; else all rows are read, of two columns or three.
    """
    columns = tuple(
        dict.fromkeys([*query.by, *([query.at] if query.window else []), *query.distinct.values()])
    )
    rows: BooleanExpression = AlwaysTrue()
    if query.window and windows:
        end = windows[1] + query.window.minutes * 60
        rows = files.between(query.at, [(_iso(windows[0]), _iso(end))])
    counts: list[pa.Table] = []
    values: dict[str, list[pa.Table]] = {measure: [] for measure in query.distinct}
    for batch in _rows(table, snapshot_id, _matching(rows, query), (*columns, *_OFFSETS)):
        placed = _placed(pa.Table.from_batches([batch]), query, late, windows)
        counts.append(placed.group_by(query.keys).aggregate([([], "count_all")]))
        for measure, column in query.distinct.items():
            values[measure].append(
                placed.select([*query.keys, column]).group_by([*query.keys, column]).aggregate([])
            )
    return _results(query, counts, values)


def _matching(rows: BooleanExpression, query: Query) -> BooleanExpression:
    for column, values in query.where.items():
        rows = files.both(rows, files.among(column, values))
    return rows


def _placed(rows: pa.Table, query: Query, late: pa.Table, windows: tuple[int, int] | None) -> pa.Table:
    """Each row once for every window that it is in and not too late for; as it is where there are none."""
    if query.window is None:
        return rows
    every, length, shift = (
        minutes * 60 * _MICROS
        for minutes in (query.window.every_minutes, query.window.minutes, query.window.from_minute)
    )
    at = _micros(rows.column(query.at)).to_numpy()
    newest = at - (at - shift) % every
    parts = []
    for back in range(-(-length // every)):
        starts = newest - back * every
        inside = starts > at - length
        if windows:
            inside &= (starts >= windows[0] * _MICROS) & (starts <= windows[1] * _MICROS)
        parts.append(rows.append_column(WINDOW, pa.array(starts)).filter(pa.array(inside)))
    placed = pa.concat_tables(parts)
    if not late.num_rows:
        return placed
    return placed.join(late, [*_OFFSETS, WINDOW], join_type="left anti")


def _results(query: Query, counts: Iterable[pa.Table], values: Mapping[str, list[pa.Table]]) -> Results:
    found: dict[str, dict[str, int]] = {}
    parts = list(counts)
    if not parts:
        return {}
    total = pa.concat_tables(parts).group_by(query.keys).aggregate([("count_all", "sum")])
    _into(found, query, total, "count_all_sum", [m for m in query.measures if m not in query.distinct])
    for measure, column in query.distinct.items():
        # A null is no value.
        pairs = pa.concat_tables(values[measure]).group_by([*query.keys, column]).aggregate([])
        known = pairs.filter(pc.is_valid(pairs.column(column)))
        _into(found, query, known.group_by(query.keys).aggregate([([], "count_all")]), "count_all", [measure])
    return {key: tuple(told.get(measure, 0) for measure in query.measures) for key, told in found.items()}


def _into(
    found: dict[str, dict[str, int]], query: Query, counted: pa.Table, column: str, measures: list[str]
) -> None:
    numbers = counted.column(column).to_pylist()
    for key, number in zip(_keys(counted, query), numbers, strict=True):
        told = found.setdefault(key, {})
        for measure in measures:
            told[measure] = number


def _keys(results: pa.Table, query: Query) -> list[str]:
    """The text of each row's key; a window's beginning is in microseconds since 1970."""
    columns = [
        results.column(name).cast(pa.timestamp("us", "UTC")).to_pylist()
        if name == WINDOW
        else results.column(name).to_pylist()
        for name in query.keys
    ]
    return [key_text(values) for values in zip(*columns, strict=True)]


def texts(results: pa.Table, query: Query) -> Results:
    """The same of results as a database gives them: the columns of keys and measures."""
    columns = [results.column(name).to_pylist() for name in query.keys]
    measures = [results.column(name).to_pylist() for name in query.measures]
    return {
        key_text(values): told
        for values, told in zip(zip(*columns, strict=True), zip(*measures, strict=True), strict=True)
    }


def _rows(
    table: Table, snapshot_id: int, rows: BooleanExpression, columns: tuple[str, ...]
) -> Iterable[pa.RecordBatch]:
    if table.snapshot_by_id(snapshot_id) is None:
        raise Unreachable(
            f"snapshot {snapshot_id} of table {'.'.join(table.name())} is not kept any more; look again when "
            "the queries have gone on"
        )
    with asking(f"rows of table {'.'.join(table.name())}"):
        scan = table.scan(row_filter=rows, selected_fields=columns, snapshot_id=snapshot_id)
        yield from scan.to_arrow_batch_reader()


def _micros(moments: Any) -> Any:
    return moments.cast(pa.timestamp("us", "UTC")).cast(pa.int64())


def _iso(seconds: int) -> str:
    return f"{np.datetime64(seconds, 's')}+00:00"


def within(results: Results, query: Query, windows: tuple[int, int] | None) -> Results:
    """Those results whose window begins between the first and the last of ``windows``; all where there are
    none."""
    if query.window is None or windows is None:
        return results
    # The text of a moment sorts as the moment does, and is the key's last part.
    first, last = (key_text([np.datetime64(at, "s").astype(datetime).replace(tzinfo=UTC)]) for at in windows)
    return {key: told for key, told in results.items() if first <= key.rsplit("|", 1)[1] <= last}
