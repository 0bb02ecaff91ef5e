"""The demo of a stream that reads a feed: events of the replay server, loaded while the stream goes on."""

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

from local.base import UsageError
from local.demo.base import Demo
from local.demo.checks import Check, DemoResult, Figure, gaps_and_duplicates, in_lake_or_quarantine
from local.replay.events import Feed
from local.services import airflow as service
from local.services import replay
from local.stack import lake as details
from local.stack.airflow_api import Airflow
from local.stack.lake import OFFSETS, Offsets
from local.stack.stack import Stack
from sluice.clients.errors import Missing
from sluice.clients.lake import query_results
from sluice.clients.lake.arrow_sql import quoted
from sluice.clients.lake.catalog import Lake, position
from sluice.clients.lake.results_table import Editor, Results, ResultsReader, Window
from sluice.io.kafka import topic_offsets
from sluice.io.retry import wait_for
from sluice.model.spec.stream import StreamSpec
from sluice.ui.navigation import PREFIX, pages
from sluice.ui.views import top

# So many events are followed. The load waits for some more, because others come at the same time, and still
# more are replayed, so that it is over before they are.
EVENTS = 20_000
LOADED = 22_000
BURST = 30_000
BURST_RATE = 1_000.0
MINUTES = 5
# Until what was replayed is in the lake: the load ends before all of it has come.
LANDED_SECONDS = 300.0
COUNTED_SECONDS = 300.0
AGAIN_SECONDS = 3.0
# A record's time is the producer's, when it was handed over: Kafka may have taken it somewhat later.
ON_ITS_WAY_SECONDS = 120.0


class Replayed:
    """The replay server and the stream's topic, as the demo asks and tells them."""

    def __init__(self, stack: Stack, spec: StreamSpec) -> None:
        self._stack = stack
        self._spec = spec

    def is_read(self) -> bool:
        """Whether a producer is connected: before that, what is replayed might be before its beginning."""
        return int(replay.status(self._stack.context)["open"]) > 0

    def seed(self) -> int:
        """Of the feed."""
        return int(replay.status(self._stack.context)["feed"]["seed"])

    def burst(self) -> int:
        """Lets the events come; gives the number of the first of them."""
        return replay.burst(self._stack.context, BURST, BURST_RATE)

    def topic(self) -> details.Offsets:
        """From where to where the topic goes now."""
        return topic_offsets(self._stack.platform("reader").kafka, self._spec.topic.name)


class FeedDemo(Demo):
    """So many events, replayed faster than usual while the load goes on; then the feed is as it was.

    `before`: the topic's ends when the replay began.
    """

    feed = replay.REPLAY

    def __init__(self, name: str, replayed: Callable[[Stack, StreamSpec], Replayed] = Replayed) -> None:
        super().__init__(name)
        if self.spec.feed is None or not pages([self.spec]):
            raise UsageError(f"stream {name} has no [feed] or no query with a page: this demo needs both")
        self.event_id = self.spec.feed.event_id
        ((self.page, self.title),) = pages([self.spec])
        self.before: dict[int, int] = {}
        self._replayed = replayed
        self._supervised = False
        self._first: int | None = None
        self._began = 0.0
        self.window: Window | None = None

    def ready(self, api: Airflow) -> None:
        api.unpause(self.load)

    def params(self) -> dict[str, Any]:
        return {"events": LOADED, "minutes": MINUTES}

    def watch(self, stack: Stack, api: Airflow, tasks: Sequence[dict[str, Any]]) -> None:
        states = {task["task_id"]: task.get("state") for task in tasks}
        if not self._supervised and states.get("provision_topic") == "success":
            # Not before: of a topic that is not there yet, supervision could not say how the stream is.
            api.unpause(self.supervision)
            self._supervised = True
        replayed = self._replayed(stack, self.spec)
        if self._first is None and states.get("produce") == "deferred" and replayed.is_read():
            self._began = time.time()
            self.before = {part: end for part, (_, end) in replayed.topic().items()}
            self._first = replayed.burst()

    def collect(self, stack: Stack, console: Console, took: dict[str, float]) -> DemoResult:
        wanted = self.wanted(stack)
        span = Span.between(self.before, self._replayed(stack, self.spec).topic())
        began = time.monotonic()
        console.print(f"waiting until the lake holds all {len(wanted):,} events …", highlight=False)
        found = wait_for(
            partial(self._found, stack, span, wanted),
            LANDED_SECONDS,
            AGAIN_SECONDS,
            lambda found: not found.missing and not found.gaps,
        )
        lake, _ = details.tables(stack, self.spec)
        table_rows, files = _totals(lake.current_snapshot())
        took["in the lake"] = time.monotonic() - began
        began = time.monotonic()
        console.print(f"waiting until the queries count all {table_rows:,} rows …", highlight=False)
        reader = Lake.open(stack.platform("reader"))
        count = partial(uncounted_records, reader, self.spec)
        uncounted = wait_for(count, COUNTED_SECONDS, AGAIN_SECONDS, lambda n: n == 0)
        took["all counted"] = time.monotonic() - began
        results = ResultsReader(reader, self.spec, self.page.split(".")[1]).read(self._began - 7_200)
        self.window = busiest(results)
        return result(
            len(wanted),
            span.records,
            found,
            files,
            uncounted,
            {
                "page": self._page_url(stack),
                "window": in_words(self.window),
                "top": [
                    {"user": editor.user, "bot": editor.bot, "edits": editor.edits} for editor in self._top()
                ],
            },
        )

    def _page_url(self, stack: Stack) -> str:
        return f"{service.url(stack.context)}{PREFIX}/results/{self.page}"

    def _top(self) -> Sequence[Editor]:
        return top(self.window) if self.window is not None else ()

    def wanted(self, stack: Stack) -> set[str]:
        """The ids of the events that were replayed; none when no producer ever read the feed."""
        if self._first is None:
            return set()
        feed = Feed(start=0.0, seed=self._replayed(stack, self.spec).seed())
        return {feed.event_id(n) for n in range(self._first, self._first + EVENTS)}

    def _found(self, stack: Stack, span: Span, wanted: set[str]) -> Found:
        lake, quarantine = details.tables(stack, self.spec)
        since = self._began - ON_ITS_WAY_SECONDS
        return read(lake, quarantine, span, self.event_id, since, wanted)

    def show(self, stack: Stack, console: Console) -> None:
        # Not the table's title: that is broken to the table's width.
        console.print(f"{self.title}, {in_words(self.window)}", markup=False, highlight=False)
        table = Table("user", "bot", "edits")
        for editor in self._top():
            table.add_row(Text(printable(editor.user)), "bot" if editor.bot else "", f"{editor.edits:,}")
        console.print(table)
        console.print(
            f"More, every 10 seconds anew: {self._page_url(stack)}", soft_wrap=True, highlight=False
        )


def result(
    replayed: int, records: int, found: Found, files: int, uncounted: int, more: dict[str, Any]
) -> DemoResult:
    """`replayed`: events of the demo's own burst, and of those `found.missing` are not in the table. Records,
    rows and event ids are of all that came onto the topic meanwhile, live events too."""
    return DemoResult(
        [
            Figure("replayed", replayed, "the replay server"),
            Figure("missing", found.missing, "their ids against those in the lake"),
            Figure("topic records", records, "Kafka's offsets, before and after"),
            Figure("lake rows", found.rows, "the table's branch main, by PyIceberg"),
            Figure("quarantined", found.quarantined, "the quarantine table, by PyIceberg"),
            Figure("event ids", found.event_ids, "the rows in the lake, each id once"),
            Figure("gaps", found.gaps, "topic offsets against coordinates in the lake"),
            Figure("duplicates", found.duplicates, "coordinates and event ids in the lake"),
            Figure("uncounted", uncounted, "records: the queries' table against the lake's"),
            Figure("files", files, "the table's newest snapshot"),
        ],
        [
            Check(replayed > 0, "no events were replayed: nothing was shown"),
            Check(not found.missing, f"{found.missing} of {replayed} replayed events are not in the lake"),
            *([] if found.gaps else [in_lake_or_quarantine(records, found.rows, found.quarantined)]),
            Check(not uncounted, f"the queries have not counted {uncounted} records"),
            Check(bool(more["top"]), "no window has an editor"),
            *gaps_and_duplicates(found.gaps, found.duplicates),
        ],
        more,
    )


def busiest(results: Results) -> Window | None:
    """The newest window with editors."""
    return next((window for window in results.windows if window.editors), None)


def uncounted_records(lake: Lake, spec: StreamSpec) -> int:
    """Records that are published, and that some query of the stream has not counted yet."""
    lake_state = position(lake.table(spec.table))
    try:
        standing = query_results.read_positions(lake.table(spec.queries_table), spec.queries)
    except Missing:
        standing = None
    if lake_state is None:
        return 0
    ends = standing.ends if standing is not None else {}
    return sum(
        max(end - ends.get(part, lake_state.starts.get(part, 0)), 0) for part, end in lake_state.ends.items()
    )


def in_words(window: Window | None) -> str:
    """`10:20 to 10:30 UTC`."""
    if window is None:
        return "no window yet"
    start, end = (datetime.fromtimestamp(at, UTC) for at in (window.start, window.end))
    return f"{start:%H:%M} to {end:%H:%M} UTC"


def printable(name: str) -> str:
    """A user's name for a terminal, which takes control characters and changes of direction for orders."""
    return "".join(character if character.isprintable() else "�" for character in name)


def _totals(snapshot: Any) -> tuple[int, int]:
    """Rows and data files of a snapshot."""
    if snapshot is None or snapshot.summary is None:
        return 0, 0
    said = snapshot.summary.additional_properties
    return int(said.get("total-records", 0)), int(said.get("total-data-files", 0))


_INSIDE = "join topic on _kafka_partition = part and _kafka_offset >= first and _kafka_offset < until"


@dataclass(frozen=True)
class Span:
    """What came onto a topic between two moments: partition → offsets from, until."""

    offsets: Offsets

    @classmethod
    def between(cls, before: Mapping[int, int], topic: Offsets) -> Span:
        """From the ends `before` (a partition that was none then: from its first) to those of `topic`."""
        return cls({part: (before.get(part, begin), end) for part, (begin, end) in topic.items()})

    @property
    def records(self) -> int:
        return details.total(self.offsets.values())


@dataclass(frozen=True)
class Found:
    """What the lake holds of a span: `gaps` are offsets of it that nothing holds, `event_ids` the different
    ones of its rows. `missing`: of the events that were looked for, how many are in no row that was read;
    `duplicates`: offsets and event ids that were read more than once."""

    rows: int
    quarantined: int
    event_ids: int
    gaps: int
    missing: int
    duplicates: int


def gather(
    rows: pa.RecordBatchReader,
    aside: pa.RecordBatchReader,
    span: Span,
    event_id: str,
    wanted: Collection[str],
) -> Found:
    """Out of rows with OFFSETS, those of the table with the event's id in column `event_id`."""
    name = quoted(event_id)
    with details.held(rows, aside) as sql:
        exact = details.compare(sql, {}, span.offsets)
        ((inside, ids),) = sql.rows(f"select count(*), count(distinct {name}) from lake {_INSIDE}")
        ((put_aside,),) = sql.rows(f"select count(distinct (part, _kafka_offset)) from quarantine {_INSIDE}")
        ((again,),) = sql.rows(f"select count(*) - count(distinct {name}) from lake")
        events = pa.table({"id": pa.array(wanted, pa.string())})
        ((missing,),) = sql.rows(f"select count(*) from events anti join lake on id = {name}", events=events)
    return Found(inside, put_aside, ids, exact.gaps, missing, exact.duplicates + again)


def read(
    table: LakeTable, quarantine: LakeTable, span: Span, event_id: str, since: float, wanted: Collection[str]
) -> Found:
    """From the branches main of both. `since`: when the span began, seconds since 1970; what Kafka got before
    is not read."""
    came = GreaterThanOrEqual("_kafka_timestamp", datetime.fromtimestamp(since, UTC).isoformat())
    return gather(
        details.scan(table, (*OFFSETS, event_id), came),
        details.scan(quarantine, OFFSETS, came),
        span,
        event_id,
        wanted,
    )
