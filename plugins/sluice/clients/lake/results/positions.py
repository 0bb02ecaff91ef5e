"""Read the queries' positions and late rows from the table of their state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.expressions import And, BooleanExpression, EqualTo, GreaterThanOrEqual

from sluice.clients.lake.catalog import ancestors, summary_of
from sluice.clients.lake.reading import files
from sluice.config import query_definition
from sluice.config.sections.query import Query
from sluice.core.errors import Unreachable
from sluice.core.queries import progress
from sluice.core.queries.progress import QueryState
from sluice.core.queries.result import WINDOW
from sluice.core.tables.summary import QUERIES

if TYPE_CHECKING:
    from pyiceberg.table import Table

OFFSETS = (files.PARTITION, files.OFFSET)


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
        return progress.common_end_offsets(
            state for name, state in self.states.items() if name in self.measuring
        )


def read_positions(table: Table, queries: Mapping[str, Query]) -> QueryPositions | None:
    """None before the queries' first writer. Raises ConfigError for a query whose declaration has changed."""
    for snapshot in ancestors(table):
        summary = summary_of(snapshot)
        if QUERIES in summary:
            return QueryPositions(
                snapshot.snapshot_id,
                query_definition.read([summary], queries, ".".join(table.name())),
                frozenset(name for name, query in queries.items() if query.aggregates),
            )
    return None


def late_rows(table: Table, positions: QueryPositions, name: str) -> pa.Table:
    """Offset and window of every row that came too late for a window of query ``name``. Raises
    SnapshotExpired."""
    since = positions.states[name].batch_offset
    rows = And(EqualTo("query", name), GreaterThanOrEqual("batch", since))
    columns = (WINDOW, *OFFSETS)
    found = rows_at(table, positions.snapshot_id, rows, columns).read_all().select(columns)
    return found.set_column(0, WINDOW, found.column(WINDOW).cast(pa.timestamp("us", "UTC")).cast(pa.int64()))


def rows_at(
    table: Table, snapshot_id: int, rows: BooleanExpression, columns: tuple[str, ...]
) -> pa.RecordBatchReader:
    """The columns of these rows as they were at a snapshot. Raises SnapshotExpired."""
    if table.snapshot_by_id(snapshot_id) is None:
        raise SnapshotExpired(
            f"snapshot {snapshot_id} of table {'.'.join(table.name())} has expired. Fix: retry after the "
            "queries' next batch"
        )
    return files.read(table, rows, columns, snapshot_id)
