"""The ISP stream's demo: generated hits, loaded and counted in a database and topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console
from rich.table import Table

from local.base import UsageError
from local.demo.base import Demo
from local.demo.checks import (
    Check,
    DemoResult,
    Figure,
    gaps_and_duplicates,
    in_lake_or_quarantine,
    offset_figures,
)
from local.progress import ProgressDisplay
from local.services import airflow as service
from local.stack import lake as details
from local.stack.base import BaseStack
from sluice.cli.terminal import print_line
from sluice.clients.databases import results as databases
from sluice.clients.kafka import reader as kafka_reader
from sluice.clients.kafka.consumers import topic_offsets
from sluice.clients.lake.results import recount as query_results
from sluice.config import connection as connections
from sluice.config.query import Query, Sink, SinkKind
from sluice.web.navigation import PREFIX

STREAM = "isp_hits"
HITS = 50_000
# Long enough for closed windows and late hits.
HOURS = 1
ZIPCODES = 300


@dataclass(frozen=True)
class Counts:
    """One query: its results, and the sums of its hits in the lake and in each sink. `late`, `early`: hits in
    none of them; `different`: results that differ between a sink and the lake."""

    query: str
    results: int
    lake: int
    late: int
    early: int
    sinks: dict[str, int]
    different: int


class HitsDemo(Demo):
    """HITS hits of a fixed seed, counted in the lake, the database and the topics."""

    def __init__(self) -> None:
        super().__init__(STREAM)
        self._end = datetime.now(UTC)
        self._results: list[Counts] = []

    def prepare(self, stack: BaseStack, board: ProgressDisplay) -> None:
        # Hits of a later time would be early. In a second demo within HOURS most are late.
        self._end = datetime.now(UTC).replace(microsecond=0)

    def params(self) -> dict[str, Any]:
        begin = f"{self._end - timedelta(hours=HOURS):%Y-%m-%dT%H:%M:%SZ}"
        return {"rows": HITS, "start_time": begin, "duration_hours": HOURS, "zipcodes": ZIPCODES}

    def collect(self, stack: BaseStack, console: Console, took: dict[str, float]) -> DemoResult:
        lake, quarantine = details.tables(stack, self.spec)
        topic = topic_offsets(stack.platform("reader").kafka, self.spec.topic.name)
        offsets = (details.read(table, details.OFFSETS) for table in (lake, quarantine))
        with details.held(*offsets) as sql:
            comparison = details.compare(sql, details.stream_starts(lake), topic)
            ((lake_rows, held),) = sql.rows("select (select count(*) from lake), (select count(*) from held)")
        self._results = self._counts(stack)
        records = details.total(topic.values())
        return result(records, lake_rows, held - lake_rows, comparison, self._results, self._page(stack))

    def _page(self, stack: BaseStack) -> str:
        return f"{service.public_url(stack.context)}{PREFIX}/queries/{STREAM}"

    def _counts(self, stack: BaseStack) -> list[Counts]:
        reader = stack.lake("reader")
        try:
            table = reader.table(self.spec.queries_table)
            positions = query_results.read_positions(table, self.spec.queries)
            if positions is None:
                raise UsageError(f"the queries of {STREAM} have counted nothing yet")
            found = []
            for name, query in self.spec.queries.items():
                state = positions.states[name]
                source = state.source_snapshot_id
                if not query.aggregates:
                    continue
                if source is None:
                    raise UsageError(f"query {name} of {STREAM} has counted nothing yet")
                late = query_results.late_rows(table, positions, name)
                lake = query_results.recount(reader.table(self.spec.table), source, query, late, None)
                sinks = {sink.name: self._results_of(stack, query, sink) for sink in query.sinks}
                different = sum(len(set(lake.items()) ^ set(results.items())) for results in sinks.values())
                sums = {sink: _sum(results) for sink, results in sinks.items()}
                left_out = (late.num_rows, state.early_rows)
                found.append(Counts(name, len(lake), _sum(lake), *left_out, sums, different))
            return found
        finally:
            reader.close()

    def _results_of(self, stack: BaseStack, query: Query, sink: Sink) -> query_results.Results:
        if sink.kind == SinkKind.JDBC:
            folder = {connections.DIRECTORY_VARIABLE: str(stack.home.connections)}
            where = connections.load(sink.connection, folder)
            return query_results.by_key(databases.counts(where, sink.table, query), query)
        found = kafka_reader.read(stack.platform("airflow").kafka, sink.topic, query.keys)
        return {key: tuple(row.aggregates[name] for name in query.aggregates) for key, row in found.items()}

    def show(self, stack: BaseStack, console: Console) -> None:
        console.print("Counted, side by side:", highlight=False)
        table = Table("query", "results", "in the lake", "in the database", "on the topic", "late", "early")
        for counts in self._results:
            by_kind = {sink.split()[0]: value for sink, value in counts.sinks.items()}
            table.add_row(
                counts.query,
                f"{counts.results:,}",
                f"{counts.lake:,}",
                *(
                    f"{by_kind[kind]:,}" if kind in by_kind else ""
                    for kind in (SinkKind.JDBC, SinkKind.KAFKA)
                ),
                f"{counts.late:,}",
                f"{counts.early:,}",
            )
        console.print(table)
        print_line(console, f"The queries, refreshed every 10 seconds: {self._page(stack)}")


def _sum(results: query_results.Results) -> int:
    return sum(aggregates[0] for aggregates in results.values())


def result(
    records: int,
    lake_rows: int,
    quarantined: int,
    comparison: details.OffsetComparison,
    counts: Sequence[Counts],
    page: str,
) -> DemoResult:
    """The load sends HITS; the figures count everything that ever came."""
    checks = [
        Check(records >= HITS, f"{HITS} hits were sent, and the topic has {records}"),
        in_lake_or_quarantine(records, lake_rows, quarantined),
        *gaps_and_duplicates(comparison.gaps, comparison.duplicates),
        Check(bool(counts), "no query has results"),
    ]
    for query in counts:
        checks.append(Check(query.results > 0, f"query {query.query} has no results"))
        differ = f"{query.different} results of query {query.query} differ from the lake"
        checks.append(Check(not query.different, differ))
    return DemoResult(
        [
            Figure("sent", HITS, "the load's form"),
            *offset_figures(
                *(records, lake_rows, quarantined, comparison.gaps, comparison.duplicates),
                of="record offsets in the lake",
            ),
        ],
        checks,
        {"counts": [asdict(query) for query in counts], "page": page},
    )
