"""The ISP stream's demo: generated hits, loaded and counted in a database and topics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

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
from sluice.clients.kafka.consumers import topic_offsets
from sluice.config import connection as connections
from sluice.config.sections.sink import SinkKind
from sluice.core.errors import ClientError
from sluice.queries.compare import QueryComparison
from sluice.queries.sinks import SinksCheck
from sluice.web.navigation import PREFIX

STREAM = "isp_hits"
HITS = 50_000
# Long enough for closed windows and late hits.
HOURS = 1
ZIPCODES = 300


@dataclass(frozen=True)
class Counts:
    """One `query`, by the name of its section: the number of its `results` in the lake, and the sums of its
    hits in the `lake` and in `sinks` (as `kafka isp-hits-zipcodes` -> hits). `late`, `early`: hits in none of
    them; `different`: results that differ between a sink and the lake."""

    query: str
    results: int
    lake: int
    late: int
    early: int
    sinks: dict[str, int]
    different: int

    @classmethod
    def of(cls, compared: QueryComparison) -> Self:
        """``compared``: with a sink at least."""
        (first, *_), sums = compared.sinks, {sink.sink_name: sink.sink for sink in compared.sinks}
        different = sum(sink.differences for sink in compared.sinks)
        left_out = (compared.late, compared.early)
        return cls(compared.query, first.results, first.lake, *left_out, sums, different)


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
        folder = {connections.DIRECTORY_VARIABLE: str(stack.home.connections)}
        lake = stack.lake("reader")
        try:
            kafka = stack.platform("airflow").kafka
            check = SinksCheck(self.spec, lake, kafka, lambda name: connections.load(name, folder))
            return [Counts.of(compared) for compared in check.compare_all() if compared.sinks]
        except ClientError as error:
            raise UsageError(str(error)) from error
        finally:
            lake.close()

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
