"""The demo of a stream that reads a feed: events of the replay server, loaded while the stream runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import GreaterThanOrEqual
from pyiceberg.table import Table as LakeTable
from rich.console import Console
from rich.table import Table
from rich.text import Text

from local.base import UsageError, printable
from local.demo.base import Demo
from local.demo.checks import (
    Check,
    DemoResult,
    Figure,
    gaps_and_duplicates,
    in_lake_or_quarantine,
    offset_figures,
)
from local.replay.events import Feed
from local.services import airflow as service
from local.services import replay
from local.stack import lake as details
from local.stack.base import BaseStack
from local.stack.lake import OFFSETS, Offsets
from sluice.cli.airflow_api import Airflow
from sluice.cli.terminal import print_line
from sluice.clients.kafka.consumers import topic_offsets
from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.position import position
from sluice.clients.lake.reading import files
from sluice.clients.lake.reading.arrow_sql import quoted
from sluice.clients.lake.results.positions import read_positions
from sluice.clients.lake.results.table import Group, Results, ResultsReader, Window
from sluice.clients.polling import wait_for
from sluice.config.stream import StreamSpec
from sluice.core.errors import Missing
from sluice.core.offsets.ranges import OffsetRanges
from sluice.web.navigation import PREFIX, pages
from sluice.web.query_json import top

# Events that are verified; the load waits for some more, since others come at the same time; and still more
# are replayed, so that the load ends first.
EVENTS = 20_000
LOADED = 22_000
BURST = 30_000
BURST_RATE = 1_000.0
MINUTES = 5
# Until the replayed events are in the lake: the load ends before all of them have come.
PUBLISH_SECONDS = 300.0
COUNTED_SECONDS = 300.0
POLL_SECONDS = 3.0
# A record's time is the producer's, before Kafka took it.
DELIVERY_SECONDS = 120.0


class FeedDemo(Demo):
    """A burst of events during the load. `before`: the topic's end offsets when the burst started."""

    feed = replay.REPLAY

    def __init__(self, name: str) -> None:
        super().__init__(name)
        if self.spec.feed is None or not pages([self.spec]):
            raise UsageError(f"stream {name} has no [feed] or no query with a page; this demo needs both")
        self.event_id = self.spec.feed.event_id
        ((self.page, self.title),) = pages([self.spec])
        self.before: dict[int, int] = {}
        self._supervised = False
        self._first: int | None = None
        self._began = 0.0
        self.window: Window | None = None

    def ready(self, api: Airflow) -> None:
        api.unpause(self.load)

    def params(self) -> dict[str, Any]:
        return {"events": LOADED, "minutes": MINUTES}

    def watch(self, stack: BaseStack, api: Airflow, tasks: Sequence[dict[str, Any]]) -> None:
        states = {task["task_id"]: task.get("state") for task in tasks}
        if not self._supervised and states.get("provision_topic") == "success":
            # Without a topic the health of the stream would be unknown.
            api.unpause(self.supervision)
            self._supervised = True
        if self._first is None and states.get("produce") == "deferred" and self._is_read(stack):
            self._began = time.time()
            self.before = {part: end for part, (_, end) in self._topic(stack).items()}
            self._first = replay.burst(stack.context, BURST, BURST_RATE)

    def _is_read(self, stack: BaseStack) -> bool:
        # Events before a producer is connected might be before its start position.
        return int(replay.status(stack.context)["open"]) > 0

    def _topic(self, stack: BaseStack) -> Offsets:
        return topic_offsets(stack.platform("reader").kafka, self.spec.topic.name)

    def collect(self, stack: BaseStack, console: Console, took: dict[str, float]) -> DemoResult:
        expected = self.replayed_ids(stack)
        span = Span.between(self.before, self._topic(stack))
        began = time.monotonic()
        console.print(f"waiting until the lake has all {len(expected):,} events …", highlight=False)
        found = wait_for(
            partial(self._found, stack, span, expected),
            PUBLISH_SECONDS,
            POLL_SECONDS,
            lambda found: not found.missing and not found.gaps,
        )
        lake, _ = details.tables(stack, self.spec)
        table_rows, files = _totals(lake.current_snapshot())
        took["in the lake"] = time.monotonic() - began
        began = time.monotonic()
        console.print(f"waiting until the queries count all {table_rows:,} rows …", highlight=False)
        reader = stack.lake("reader")
        count = partial(uncounted_records, reader, self.spec)
        uncounted = wait_for(count, COUNTED_SECONDS, POLL_SECONDS, lambda n: n == 0)
        took["all counted"] = time.monotonic() - began
        results = ResultsReader(reader, self.spec, self.page.split(".")[1]).read(self._began - 7_200)
        self.window = busiest(results)
        return result(
            len(expected),
            found,
            files,
            uncounted,
            {
                "page": self._page_url(stack),
                "window": format_window(self.window),
                "top": [
                    {"user": group.name, "bot": group.kind, "edits": group.value} for group in self._top()
                ],
            },
        )

    def _page_url(self, stack: BaseStack) -> str:
        return f"{service.public_url(stack.context)}{PREFIX}/results/{self.page}"

    def _top(self) -> Sequence[Group]:
        return top(self.window.groups) if self.window is not None else ()

    def replayed_ids(self, stack: BaseStack) -> set[str]:
        """The ids of the burst's first EVENTS events; none if no producer read the feed."""
        if self._first is None:
            return set()
        feed = Feed(start=0.0, seed=int(replay.status(stack.context)["feed"]["seed"]))
        return {feed.event_id(n) for n in range(self._first, self._first + EVENTS)}

    def _found(self, stack: BaseStack, span: Span, expected: set[str]) -> Found:
        lake, quarantine = details.tables(stack, self.spec)
        since = self._began - DELIVERY_SECONDS
        asked = details.delivered_by(stack, self.spec)
        return read(lake, quarantine, span, self.event_id, since, expected, asked)

    def show(self, stack: BaseStack, console: Console) -> None:
        # Not the table's title, which is wrapped to the table's width.
        console.print(f"{self.title}, {format_window(self.window)}", markup=False, highlight=False)
        table = Table("user", "bot", "edits")
        for group in self._top():
            table.add_row(Text(printable(group.name)), "bot" if group.kind else "", f"{group.value:,}")
        console.print(table)
        print_line(console, f"More, refreshed every 10 seconds: {self._page_url(stack)}")


def result(replayed: int, found: Found, files: int, uncounted: int, more: dict[str, Any]) -> DemoResult:
    """`replayed`: events of the demo's own burst, `found.missing` of them are not in the table. Records, rows
    and event ids are of all events since the burst started."""
    return DemoResult(
        [
            Figure("replayed", replayed, "the replay server"),
            Figure("missing", found.missing, "their ids against those in the lake"),
            *offset_figures(
                *(found.records, found.rows, found.quarantined, found.gaps, found.duplicates),
                of="record offsets and event ids in the lake",
            ),
            Figure("event ids", found.event_ids, "the rows in the lake, each id once"),
            Figure("uncounted", uncounted, "records: the queries' table against the lake's"),
            Figure("files", files, "the table's newest snapshot"),
        ],
        [
            Check(replayed > 0, "no events were replayed"),
            Check(not found.missing, f"{found.missing} of {replayed} replayed events are not in the lake"),
            *([] if found.gaps else [in_lake_or_quarantine(found.records, found.rows, found.quarantined)]),
            Check(not uncounted, f"the queries have not counted {uncounted} records"),
            Check(bool(more["top"]), "no window has an editor"),
            *gaps_and_duplicates(found.gaps, found.duplicates),
        ],
        more,
    )


def busiest(results: Results) -> Window | None:
    """The newest window with editors."""
    return next((window for window in results.windows if window.groups), None)


def uncounted_records(lake: Lake, spec: StreamSpec) -> int:
    """Published records that a query of the stream has not counted yet."""
    lake_state = position(lake.table(spec.table))
    try:
        positions = read_positions(lake.table(spec.queries_table), spec.queries)
    except Missing:
        positions = None
    if lake_state is None:
        return 0
    ends = positions.ends if positions is not None else {}
    return sum(
        max(end - ends.get(part, lake_state.starts.get(part, 0)), 0) for part, end in lake_state.ends.items()
    )


def format_window(window: Window | None) -> str:
    """`10:20 to 10:30 UTC`."""
    if window is None:
        return "no window yet"
    start, end = (datetime.fromtimestamp(at, UTC) for at in (window.start, window.end))
    return f"{start:%H:%M} to {end:%H:%M} UTC"


def _totals(snapshot: Any) -> tuple[int, int]:
    if snapshot is None or snapshot.summary is None:
        return 0, 0
    summary = snapshot.summary.additional_properties
    return int(summary.get("total-records", 0)), int(summary.get("total-data-files", 0))


_IN = "join topic on _kafka_partition = part and _kafka_offset >= first and _kafka_offset < until"


@dataclass(frozen=True)
class Span:
    """The offsets of a topic between two moments: partition → offsets from, until."""

    offsets: Offsets

    @classmethod
    def between(cls, before: Mapping[int, int], topic: Offsets) -> Span:
        """From the end offsets `before` (a new partition: from its first) to those of `topic`."""
        return cls({part: (before.get(part, begin), end) for part, (begin, end) in topic.items()})


@dataclass(frozen=True)
class Found:
    """A span in the lake: `records` of the topic, `rows` of the table, distinct offsets `quarantined`,
    distinct `event_ids`. `gaps`: missing records; `missing`: expected events without a row; `duplicates`: of
    offsets and event ids."""

    records: int
    rows: int
    quarantined: int
    event_ids: int
    gaps: int
    missing: int
    duplicates: int


def collect_found(
    rows: pa.RecordBatchReader,
    quarantine: pa.RecordBatchReader,
    span: Span,
    event_id: str,
    expected: Collection[str],
    delivered: Callable[[OffsetRanges], OffsetRanges],
) -> Found:
    """From rows with OFFSETS; those of the table also with column `event_id`. `delivered`: as of compare."""
    name = quoted(event_id)
    with details.held(rows, quarantine) as sql:
        comparison = details.compare(sql, {}, span.offsets, delivered)
        ((inside, ids),) = sql.rows(f"select count(*), count(distinct {name}) from lake {_IN}")
        ((quarantined,),) = sql.rows(f"select count(distinct (part, _kafka_offset)) from quarantine {_IN}")
        ((repeated,),) = sql.rows(f"select count(*) - count(distinct {name}) from lake")
        events = pa.table({"id": pa.array(expected, pa.string())})
        ((missing,),) = sql.rows(f"select count(*) from events anti join lake on id = {name}", events=events)
    records = comparison.records
    return Found(
        records, inside, quarantined, ids, comparison.gaps, missing, comparison.duplicates + repeated
    )


def read(
    table: LakeTable,
    quarantine: LakeTable,
    span: Span,
    event_id: str,
    since: float,
    expected: Collection[str],
    delivered: Callable[[OffsetRanges], OffsetRanges],
) -> Found:
    """From the branches main of both. `since`: seconds since 1970; earlier records are not read."""
    recent = GreaterThanOrEqual("_kafka_timestamp", datetime.fromtimestamp(since, UTC).isoformat())
    return collect_found(
        files.read(table, recent, (*OFFSETS, event_id)),
        files.read(quarantine, recent, OFFSETS),
        span,
        event_id,
        expected,
        delivered,
    )
