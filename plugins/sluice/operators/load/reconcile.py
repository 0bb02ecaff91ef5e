"""A step of a load: what the queries' sinks hold is what the lake's rows come to."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sluice.clients.errors import Unreachable
from sluice.hooks import failures
from sluice.hooks import load_plan as plans
from sluice.hooks.failures import failed
from sluice.model.error_codes import ErrorCode
from sluice.model.queries.reconciliation import compare
from sluice.model.spec.ledger import run_key
from sluice.model.spec.query import SinkKind
from sluice.operators.base import StreamOperator
from sluice.operators.load.provision import connection

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from airflow.sdk import Context

    from sluice.clients.lake.query_results import QueryPositions, Results
    from sluice.hooks.platform import PlatformHook
    from sluice.model.queries.reconciliation import SinkReconciliation
    from sluice.model.spec.query import Query, Sink
    from sluice.model.spec.stream import StreamSpec
    from sluice.model.verification.ranges import OffsetRanges

# A busy query has a batch every few seconds, and a sink must be read between two of them.
TRIES = 12


@dataclass(frozen=True)
class QueryReconciliation:
    """One query: ``late`` rows were left out of windows that they came too late for."""

    query: str
    batch: int
    snapshot_id: int
    late: int
    sinks: list[SinkReconciliation]


class Readings:
    """What is compared: the lake's rows, counted again at a snapshot, and what a sink holds by key."""

    def __init__(self, spec: StreamSpec, hook: PlatformHook) -> None:
        self.spec = spec
        self.hook = hook

    def standing(self) -> QueryPositions | None:
        """How far every query is; None before their first owner."""
        from sluice.clients.lake import query_results

        return query_results.standing(self.hook.lake.table(self.spec.queries_table), self.spec.queries)

    def late(self, standing: QueryPositions, name: str) -> pa.Table:
        """The rows that came too late for the query's windows."""
        from sluice.clients.lake import query_results

        return query_results.late(self.hook.lake.table(self.spec.queries_table), standing, name)

    def touched(self, query: Query, snapshot_id: int, expected: OffsetRanges) -> tuple[int, int] | None:
        """The windows that those offsets are in; None of a query without windows."""
        from sluice.clients.lake import query_results

        return query_results.touched(self.hook.lake.table(self.spec.table), snapshot_id, query, expected)

    def recount(
        self, query: Query, snapshot_id: int, late: pa.Table, windows: tuple[int, int] | None
    ) -> Results:
        from sluice.clients.lake import query_results

        return query_results.recount(self.hook.lake.table(self.spec.table), snapshot_id, query, late, windows)

    def sink(
        self, name: str, sink: Sink, windows: tuple[int, int] | None
    ) -> tuple[Callable[[], int | None], Callable[[], Results]] | None:
        """Which batch a sink is at, and what it holds, of these windows at least; None for one that holds no
        results by key."""
        from sluice.clients import database as databases
        from sluice.clients import kafka_reader
        from sluice.clients.lake import query_results, results_table

        query, stream, kafka = self.spec.queries[name], self.spec.name, self.hook.platform.kafka
        lake = self.hook.lake
        match SinkKind(sink.kind):
            case SinkKind.JDBC:
                where = connection(sink.connection)
                return (
                    lambda: databases.last_batch(where, stream, name),
                    lambda: query_results.texts(databases.counts(where, sink.table, query), query),
                )
            case SinkKind.KAFKA:
                return (
                    lambda: kafka_reader.last_batch(kafka, stream, name, sink.topic),
                    lambda: {
                        key: tuple(result.aggregates[measure] for measure in query.aggregates)
                        for key, result in kafka_reader.read(kafka, sink.topic, query.keys).items()
                    },
                )
            case SinkKind.ICEBERG:
                return (
                    lambda: results_table.last_batch(lake.table(sink.table)),
                    lambda: query_results.texts(
                        results_table.read(lake.table(sink.table), query, windows), query
                    ),
                )
            case _:
                return None


class ReconcileSinksOperator(StreamOperator):
    """Count the lake's rows anew, without Spark, and compare with what every sink holds; red
    naming the keys that differ.

    Of a query with windows, those windows are compared that rows of the load are in; of another, all keys,
    for which all rows of the lake are read (two columns of them). The lake is read at the snapshot that the
    query's newest batch counted, and each sink while it is at that very batch, so the stream may go on. What
    goes into the ledger as ``reconciliation.json`` is, shortened, the return value.
    """

    does = "recounts the lake's rows, and compares every sink"
    fails_if = "a result is not as in the lake"

    pause_seconds = 2.0

    @cached_property
    def readings(self) -> Readings:
        return Readings(self.spec, self.platform_hook)

    def work(self, context: Context) -> dict[str, Any]:
        _, documents = plans.produced(self.ledger, context["run_id"])
        expected = plans.offsets_of_all(documents)
        found = [self._check(name, expected) for name, query in self.spec.queries.items() if query.aggregates]
        self.log.info("%s", report(found))
        problems = [
            f"query {checked.query}, {agreement.message()}"
            for checked in found
            for agreement in checked.sinks
            if not agreement.is_ok
        ]
        for problem in problems:
            self.log.error("%s", problem)
        if problems:
            raise failed(
                ErrorCode.SINKS_DIFFER, f"the sinks do not hold what the lake does: {'; '.join(problems)}"
            )
        document = {"at": plans.now(), "queries": [asdict(checked) for checked in found]}
        self.ledger.put(run_key(context["run_id"], "reconciliation"), document)
        return {checked.query: _short(checked) for checked in found}

    def _check(self, name: str, expected: OffsetRanges) -> QueryReconciliation:
        """Raises Unreachable where the query went on each time while its sinks were read."""
        for _ in range(TRIES):
            standing = self._standing()
            checked = self._compared(name, standing, expected)
            if checked is not None:
                return checked
            time.sleep(self.pause_seconds)
        raise Unreachable(
            f"query {name} went on {TRIES} times while its sinks were read; try again when less comes in, or "
            "raise its trigger_seconds",
            ErrorCode.QUERIES_BEHIND,
        )

    def _standing(self) -> QueryPositions:
        standing = self.readings.standing()
        if standing is None:
            raise failed(
                ErrorCode.QUERIES_BEHIND,
                f"nobody has owned the queries of {self.stream} yet; clear ensure_queries",
            )
        return standing

    def _compared(
        self, name: str, standing: QueryPositions, expected: OffsetRanges
    ) -> QueryReconciliation | None:
        """None where a sink was at another batch before or after it was read."""
        from sluice.clients.lake import query_results

        query, state = self.spec.queries[name], standing.states[name]
        readings = self.readings
        if state.source_snapshot_id is None:
            raise failed(ErrorCode.QUERIES_BEHIND, f"query {name} of {self.stream} has counted nothing yet")
        uncounted = {
            partition: ranges.pairs()[-1][1]
            for partition, ranges in expected.partitions.items()
            if ranges.pairs()[-1][1] > int(state.ends.get(str(partition), 0))
        }
        if uncounted:
            raise failed(
                ErrorCode.QUERIES_BEHIND,
                f"query {name} of {self.stream} has counted up to {state.ends}, and the load ends at "
                f"{uncounted}: clear counted",
            )
        windows = readings.touched(query, state.source_snapshot_id, expected)
        readers = [(sink, reader) for sink in query.sinks if (reader := readings.sink(name, sink, windows))]
        suspended: dict[str, Results] = {}
        for sink, (last_batch, read) in readers:
            if last_batch() != state.number:
                return None
            suspended[sink.name] = read()
            if last_batch() != state.number:
                return None
        late = readings.late(standing, name)
        if query.window and windows is None:
            # All of the load went to quarantine.
            return QueryReconciliation(name, state.number, state.source_snapshot_id, late.num_rows, [])
        counted = readings.recount(query, state.source_snapshot_id, late, windows)
        return QueryReconciliation(
            name,
            state.number,
            state.source_snapshot_id,
            late.num_rows,
            [
                compare(sink, query, counted, query_results.within(results, query, windows))
                for sink, results in suspended.items()
            ],
        )


def report(found: list[QueryReconciliation]) -> str:
    """The counts side by side, as a table for the log."""
    rows: list[list[object]] = [
        [
            checked.query,
            agreement.sink_name,
            agreement.results,
            agreement.lake,
            agreement.sink,
            checked.late,
            "passed" if agreement.is_ok else "FAILED",
        ]
        for checked in found
        for agreement in checked.sinks
    ]
    return failures.table(["query", "sink", "results", "in the lake", "in the sink", "late", "result"], rows)


def _short(checked: QueryReconciliation) -> dict[str, Any]:
    return {
        "batch": checked.batch,
        "late": checked.late,
        "sinks": {
            agreement.sink_name: {
                "results": agreement.results,
                "lake": agreement.lake,
                "sink": agreement.sink,
            }
            for agreement in checked.sinks
        },
    }
