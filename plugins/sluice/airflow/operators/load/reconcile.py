"""A step of a load: compare the queries' sinks with the lake."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sluice.airflow import connections
from sluice.airflow.failures import failed
from sluice.airflow.operators.base import StreamOperator
from sluice.airflow.operators.load.interval import load_id
from sluice.config.query import SinkKind
from sluice.config.sections.maintenance import lake_tables
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Unreachable
from sluice.core.messages import aligned
from sluice.ledger import run_documents
from sluice.ledger.keys import beside_proof, now
from sluice.loads import sources
from sluice.loads.planning.plan import plan_of
from sluice.loads.sending import produced
from sluice.loads.verification import checks
from sluice.queries.compare import SinkReconciliation, compare
from sluice.queries.windows import chosen_windows, written_since

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow.sdk import Context

    from sluice.clients.lake.results.recount import QueryPositions, Results, Times
    from sluice.config.query import Query, Sink
    from sluice.core.offsets.ranges import OffsetRanges
    from sluice.loads.sources.base import Source

# A busy query has a batch every few seconds, and a sink is read between two of them.
TRIES = 12
# The line of a query whose sinks have no results by key.
NO_SINK = SinkReconciliation("none with results by key", 0, 0, 0, 0)


@dataclass(frozen=True)
class QueryReconciliation:
    """``late``: number of rows that were too late for their windows; ``early``: of rows dated ahead;
    ``compared``: which results, as text."""

    query: str
    batch: int
    snapshot_id: int
    late: int
    early: int
    compared: str
    sinks: list[SinkReconciliation]


class ReconcileSinksOperator(StreamOperator):
    """Recount the lake's rows without Spark, compare with every sink, and fail naming the keys that differ.

    A query with windows is compared in the windows of the load's rows, or, if it has none, in the lake's
    newest; another one in all keys, from all rows of the lake (its groups). The lake is read at the snapshot
    of the query's newest batch, each sink while it is at that batch, so the stream runs meanwhile. If a
    snapshot expired meanwhile, all is read again. Only those rows of a
    sink are read that can be these results; a difference counts once all of it was.
    ``reconciliation.json`` in the ledger is, shortened, the return value.
    """

    does = "recounts the lake's rows, and compares every sink"
    fails_if = "a result differs from the lake"

    checked = staticmethod(lake_tables)

    pause_seconds = 2.0

    def work(self, context: Context) -> dict[str, Any]:
        from sluice.clients.lake.results import recount as query_results

        load = load_id(self, context)
        planned = sources.read_all(plan_of(self.ledger, load)["sources"])
        expected = produced.offsets_of_all(produced.of_run(self.ledger, load))
        queries = {name: query for name, query in self.spec.queries.items() if query.aggregates}
        times = self._times(planned, expected, queries.values())
        results = [
            self._check(name, expected, query_results.affected_windows(query, times))
            for name, query in queries.items()
        ]
        self.log.info("%s", report(results))
        problems = [
            f"query {checked.query}, {sink_result.message()}"
            for checked in results
            for sink_result in checked.sinks
            if not sink_result.is_ok
        ]
        self.check_no_problems(ErrorCode.SINKS_DIFFER, problems, "sinks differ from the lake")
        # Supervision, which says so within minutes, may be paused.
        self.tables.note(*lake_tables(self.spec))
        document = {"at": now(), "queries": [asdict(checked) for checked in results]}
        key = run_documents.proof_key(self.ledger, load)
        self.ledger.put(beside_proof(key, "reconciliation"), document)
        return {checked.query: _short(checked) for checked in results}

    def _times(self, planned: list[Source], expected: OffsetRanges, queries: Iterable[Query]) -> Times:
        """The times of the load's rows, from the files that were committed since it was planned."""
        from sluice.clients.lake.results import recount as query_results

        table = self.platform_hook.lake.table(self.spec.table)
        columns = {query.event_time for query in queries if query.window}
        tasks = checks.files_since(table, self.spec.table, planned)
        return query_results.event_times(table, tasks, expected, columns)

    def _check(
        self, name: str, expected: OffsetRanges, windows: tuple[int, int] | None
    ) -> QueryReconciliation:
        from sluice.clients.lake.results.recount import SnapshotExpired

        expired = None
        for _ in range(TRIES):
            try:
                for read_all in (False, True):
                    expired, checked = None, self._compared(name, expected, windows, read_all=read_all)
                    if checked is None or all(sink.is_ok for sink in checked.sinks):
                        break
            except SnapshotExpired as error:
                # Other queries, and the stream, commit while the sinks are read.
                expired, checked = error, None
            if checked is not None:
                return checked
            time.sleep(self.pause_seconds)
        raise expired or Unreachable(
            f"query {name} committed batches during {TRIES} reads of its sinks. Fix: retry under less load, "
            "or raise its trigger_seconds",
            ErrorCode.QUERIES_BEHIND,
        )

    def _positions(self) -> QueryPositions:
        from sluice.clients.lake.results import recount as query_results

        table = self.platform_hook.lake.table(self.spec.queries_table)
        positions = query_results.read_positions(table, self.spec.queries)
        if positions is None:
            raise failed(
                ErrorCode.QUERIES_BEHIND,
                f"the queries of {self.stream} have no state yet. Fix: clear task ensure_queries",
            )
        return positions

    def _compared(
        self, name: str, expected: OffsetRanges, windows: tuple[int, int] | None, *, read_all: bool
    ) -> QueryReconciliation | None:
        """None if a sink was at another batch before or after its read."""
        from sluice.clients.lake.results import recount as query_results

        positions = self._positions()
        query, state = self.spec.queries[name], positions.states[name]
        table = self.platform_hook.lake.table
        if state.source_snapshot_id is None:
            raise failed(ErrorCode.QUERIES_BEHIND, f"query {name} of {self.stream} has counted no batch yet")
        uncounted = {
            partition: ranges.pairs()[-1][1]
            for partition, ranges in expected.partitions.items()
            if ranges.pairs()[-1][1] > int(state.ends.get(str(partition), 0))
        }
        if uncounted:
            raise failed(
                ErrorCode.QUERIES_BEHIND,
                f"query {name} of {self.stream} has counted up to {state.ends}, and the load ends at "
                f"{uncounted}. Fix: clear task wait_for_queries",
            )
        compared, windows = chosen_windows(query, state, windows)
        since = None if read_all else written_since(query, windows)
        readers = [
            (sink, reader) for sink in query.sinks if (reader := self.read_sink(name, sink, windows, since))
        ]
        results: dict[str, Results] = {}
        for sink, (last_batch, read) in readers:
            if last_batch() != state.number:
                return None
            results[sink.name] = read()
            if last_batch() != state.number:
                return None
        late = query_results.late_rows(table(self.spec.queries_table), positions, name)
        counted = query_results.recount(
            table(self.spec.table), state.source_snapshot_id, query, late, windows
        )
        sinks = [
            compare(sink, query, counted, query_results.in_windows(rows, query, windows))
            for sink, rows in results.items()
        ]
        return QueryReconciliation(
            name, state.number, state.source_snapshot_id, late.num_rows, state.early_rows, compared, sinks
        )

    def read_sink(
        self, name: str, sink: Sink, windows: tuple[int, int] | None, since: float | None
    ) -> tuple[Callable[[], int | None], Callable[[], Results]] | None:
        """Readers of a sink's last batch and of its results, of these windows at least (of a topic those
        written at ``since``, seconds since 1970, or later); None for a sink without results by key."""
        from sluice.clients.databases import results as databases
        from sluice.clients.kafka import reader as kafka_reader
        from sluice.clients.lake.results import recount as query_results
        from sluice.clients.lake.results import table as results_table

        query, stream, kafka = self.spec.queries[name], self.stream, self.platform_hook.platform.kafka
        lake = self.platform_hook.lake
        match SinkKind(sink.kind):
            case SinkKind.JDBC:
                where = connections.database(sink.connection)
                return (
                    lambda: databases.last_batch(where, stream, name),
                    lambda: query_results.by_key(databases.counts(where, sink.table, query, windows), query),
                )
            case SinkKind.KAFKA:
                return (
                    lambda: kafka_reader.last_batch(kafka, stream, name, sink.topic),
                    lambda: {
                        key: tuple(result.aggregates[measure] for measure in query.aggregates)
                        for key, result in kafka_reader.read(
                            kafka, sink.topic, query.keys, since=since
                        ).items()
                    },
                )
            case SinkKind.ICEBERG:
                return (
                    lambda: results_table.last_batch(lake.table(sink.table)),
                    lambda: query_results.by_key(
                        results_table.read(lake.table(sink.table), query, windows), query
                    ),
                )
            case _:
                return None


def report(results: list[QueryReconciliation]) -> str:
    rows = [_line(checked, sink_result) for checked in results for sink_result in checked.sinks or [NO_SINK]]
    return aligned(
        [
            *("query", "sink", "compared", "results", "in the lake", "in the sink", "late", "early"),
            "result",
        ],
        rows,
    )


def _line(checked: QueryReconciliation, found: SinkReconciliation) -> list[object]:
    is_empty = not found.results and found.is_ok
    result = "nothing to compare" if is_empty else "passed" if found.is_ok else "FAILED"
    counts = (found.results, found.lake, found.sink, checked.late, checked.early)
    return [checked.query, found.sink_name, checked.compared, *counts, result]


def _short(checked: QueryReconciliation) -> dict[str, Any]:
    return {
        "batch": checked.batch,
        "late": checked.late,
        "early": checked.early,
        "compared": checked.compared,
        "sinks": {
            sink_result.sink_name: {
                "results": sink_result.results,
                "lake": sink_result.lake,
                "sink": sink_result.sink,
            }
            for sink_result in checked.sinks
        },
    }
