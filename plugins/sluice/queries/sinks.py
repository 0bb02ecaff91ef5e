"""Compare the sinks of a stream's queries with the lake, each while both are at the same batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sluice.clients.databases import results as databases
from sluice.clients.kafka import reader as kafka_reader
from sluice.clients.lake.results import positions
from sluice.clients.lake.results import table as results_table
from sluice.clients.lake.results.positions import QueryPositions, SnapshotExpired
from sluice.config.sections.query import Query
from sluice.config.sections.sink import Sink, SinkKind
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, Unreachable
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.queries.progress import QueryState
from sluice.queries import recount
from sluice.queries.compare import Aggregates, QueryComparison, by_key, compare
from sluice.queries.windows import affected_windows, chosen_windows, in_windows, written_since

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask

    from sluice.clients.lake.catalog import Lake
    from sluice.config.connection import Database
    from sluice.config.platform import Kafka
    from sluice.config.stream import StreamSpec

# A busy query has a batch every few seconds, and a sink is read between two of them.
TRIES = 12
PAUSE_SECONDS = 2.0
# What is compared, in words, and its first and last window; None: all results.
Scope = tuple[str, tuple[int, int] | None]
# A sink's last batch, and its results.
Readers = tuple[Callable[[], int | None], Callable[[], Aggregates]]


class SinksCheck:
    """Recounts the lake's rows without Spark, and compares with every sink of the stream's queries.

    The lake is read at the snapshot of the query's newest batch, each sink while it is at that batch, so the
    stream runs meanwhile. If a snapshot expired meanwhile, all is read again. Only those rows of a sink are
    read that can be these results; a difference counts once all of it was. ``database``: a sink's, by the
    name of its connection. Raises ClientError, and ConfigError for a connection or a changed declaration.
    """

    def __init__(
        self, spec: StreamSpec, lake: Lake, kafka: Kafka, database: Callable[[str], Database]
    ) -> None:
        self.spec, self.lake, self.kafka, self.database = spec, lake, kafka, database
        self.queries = {name: query for name, query in spec.queries.items() if query.aggregates}

    def compare_load(self, expected: OffsetRanges, tasks: Sequence[FileScanTask]) -> list[QueryComparison]:
        """After a load of the ``expected`` offsets, whose rows are in the files of ``tasks``: a query with
        windows in those of the load's rows, or, if it has none, in the lake's newest; another one in all
        keys, from all rows of the lake (its groups)."""
        columns = {query.event_time for query in self.queries.values() if query.window}
        times = recount.event_times(self.lake.table(self.spec.table), tasks, expected, columns)
        return [
            self._check(name, expected, partial(chosen_windows, of_load=affected_windows(query, times)))
            for name, query in self.queries.items()
        ]

    def compare_all(self) -> list[QueryComparison]:
        """All results of every query."""
        return [self._check(name, OffsetRanges(), lambda *_: ("all results", None)) for name in self.queries]

    def _check(
        self, name: str, expected: OffsetRanges, scope: Callable[[Query, QueryState], Scope]
    ) -> QueryComparison:
        expired = None
        for _ in range(TRIES):
            try:
                for read_all in (False, True):
                    expired, compared = None, self._compared(name, expected, scope, read_all=read_all)
                    if compared is None or not compared.problems():
                        break
            except SnapshotExpired as error:
                # Other queries, and the stream, commit while the sinks are read.
                expired, compared = error, None
            if compared is not None:
                return compared
            time.sleep(PAUSE_SECONDS)
        raise expired or Unreachable(
            f"query {name} committed batches during {TRIES} reads of its sinks. Fix: retry under less load, "
            "or raise its trigger_seconds",
            ErrorCode.QUERIES_BEHIND,
        )

    def _compared(
        self,
        name: str,
        expected: OffsetRanges,
        scope: Callable[[Query, QueryState], Scope],
        *,
        read_all: bool,
    ) -> QueryComparison | None:
        """None if a sink was at another batch before or after its read."""
        found = self._positions()
        query, state = self.queries[name], found.states[name]
        snapshot_id = self._counted(name, state, expected)
        compared, windows = scope(query, state)
        since = None if read_all else written_since(query, windows)
        readers = {sink.name: self.readers(name, sink, windows, since) for sink in query.sinks}
        results: dict[str, Aggregates] = {}
        for sink, reader in readers.items():
            if reader is None:
                continue
            last_batch, read = reader
            if last_batch() != state.number:
                return None
            results[sink] = read()
            if last_batch() != state.number:
                return None
        late = positions.late_rows(self.lake.table(self.spec.queries_table), found, name)
        lake = recount.recount(self.lake.table(self.spec.table), snapshot_id, query, late, windows)
        sinks = [
            compare(sink, query, lake, in_windows(rows, query, windows)) for sink, rows in results.items()
        ]
        return QueryComparison(
            name, state.number, snapshot_id, late.num_rows, state.early_rows, compared, sinks
        )

    def _positions(self) -> QueryPositions:
        found = positions.read_positions(self.lake.table(self.spec.queries_table), self.spec.queries)
        if found is None:
            raise Refused(
                f"the queries of {self.spec.name} have no state yet. Fix: clear task ensure_queries",
                ErrorCode.QUERIES_BEHIND,
            )
        return found

    def _counted(self, name: str, state: QueryState, expected: OffsetRanges) -> int:
        """The snapshot that the query has counted. Raises Refused unless the ``expected`` offsets are in."""
        what = f"query {name} of {self.spec.name} has counted"
        if state.source_snapshot_id is None:
            raise Refused(f"{what} no batch yet", ErrorCode.QUERIES_BEHIND)
        uncounted = {
            partition: ranges.pairs()[-1][1]
            for partition, ranges in expected.partitions.items()
            if ranges.pairs()[-1][1] > int(state.ends.get(str(partition), 0))
        }
        if uncounted:
            raise Refused(
                f"{what} up to {state.ends}, and the load ends at {uncounted}. Fix: clear task "
                "wait_for_queries",
                ErrorCode.QUERIES_BEHIND,
            )
        return state.source_snapshot_id

    def readers(
        self, name: str, sink: Sink, windows: tuple[int, int] | None, since: float | None
    ) -> Readers | None:
        """The readers of the results of these windows at least (of a topic those written at ``since``,
        seconds since 1970, or later); None for a sink without results by key."""
        query, stream, lake = self.queries[name], self.spec.name, self.lake
        match SinkKind(sink.kind):
            case SinkKind.JDBC:
                where = self.database(sink.connection)
                return (
                    lambda: databases.last_batch(where, stream, name),
                    lambda: by_key(databases.counts(where, sink.table, query, windows), query),
                )
            case SinkKind.KAFKA:
                return (
                    lambda: kafka_reader.last_batch(self.kafka, stream, name, sink.topic),
                    lambda: {
                        key: tuple(result.aggregates[measure] for measure in query.aggregates)
                        for key, result in kafka_reader.read(
                            self.kafka, sink.topic, query.keys, since=since
                        ).items()
                    },
                )
            case SinkKind.ICEBERG:
                return (
                    lambda: results_table.last_batch(lake.table(sink.table)),
                    lambda: by_key(results_table.read(lake.table(sink.table), query, windows), query),
                )
            case _:
                return None
