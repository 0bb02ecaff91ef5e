"""The demo of a stream that reads a feed: events of the replay server, loaded while the stream goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from local import evidence
from local.airflow_client import Airflow
from local.demo import events
from local.demo.bucket import bucket_counts
from local.demo.clock import rounded
from local.demo.demo import Demo, Run
from local.demo.events import Found, Span
from local.demo.verdict import FeedFigures
from local.errors import Problem
from local.replay.events import Feed
from local.services import airflow as service
from local.services import replay
from local.stack import Stack
from sluice.clients import queries
from sluice.clients.errors import Missing
from sluice.clients.lake.results_table import Results, ResultsReader, Window
from sluice.clients.table import Lake, published
from sluice.io.kafka import topic_offsets
from sluice.io.retry import wait_for
from sluice.model.stream import StreamSpec
from sluice.ui.links import PREFIX, pages
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

    def topic(self) -> evidence.Offsets:
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
            raise Problem(f"stream {name} has no [feed] or no query with a page: this demo needs both")
        self.event_id = self.spec.feed.event_id
        ((self.page, self.title),) = pages([self.spec])
        self.before: dict[int, int] = {}
        self._replayed = replayed
        self._supervised = False
        self._first: int | None = None
        self._began = 0.0

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

    def collect(self, stack: Stack, console: Console, run: Run) -> FeedFigures:
        took = dict(run.took)
        wanted = self.wanted(stack)
        span = Span.between(self.before, self._replayed(stack, self.spec).topic())
        began = time.monotonic()
        console.print(f"waiting until the lake holds all {len(wanted):,} events …", highlight=False)
        # Or the time is up: then the figures say what lacks.
        found = wait_for(
            partial(self._found, stack, span, wanted),
            LANDED_SECONDS,
            AGAIN_SECONDS,
            lambda found: not found.missing and not found.gaps,
        )
        lake, _ = evidence.tables(stack, self.spec)
        table_rows, files = _totals(lake.current_snapshot())
        took["in the lake"] = time.monotonic() - began
        began = time.monotonic()
        console.print(f"waiting until the queries count all {table_rows:,} rows …", highlight=False)
        reader = Lake.open(stack.platform("reader"))
        uncounted = wait_for(
            partial(uncounted_records, reader, self.spec),
            COUNTED_SECONDS,
            AGAIN_SECONDS,
            lambda records: records == 0,
        )
        took["all counted"] = time.monotonic() - began
        results = ResultsReader(reader, self.spec, self.page.split(".")[1]).read(self._began - 7_200)
        window = busiest(results)
        objects, versions, markers = bucket_counts(stack, stack.platform("airflow").lake.warehouse)
        return FeedFigures(
            state=run.state,
            replayed=len(wanted),
            missing=found.missing,
            topic_records=span.records,
            lake_rows=found.rows,
            quarantined=found.quarantined,
            event_ids=found.event_ids,
            gaps=found.gaps,
            duplicates=found.duplicates,
            uncounted=uncounted,
            files=files,
            objects=objects,
            versions=versions,
            delete_markers=markers,
            s3_calls=run.calls,
            page=f"{service.url(stack.context)}{PREFIX}/results/{self.page}",
            window=in_words(window),
            top=[
                {"user": editor.user, "bot": editor.bot, "edits": editor.edits}
                for editor in (top(window) if window is not None else [])
            ],
            seconds=rounded(took, run.began),
        )

    def wanted(self, stack: Stack) -> set[str]:
        """The ids of the events that were replayed; none when no producer ever read the feed."""
        if self._first is None:
            return set()
        feed = Feed(start=0.0, seed=self._replayed(stack, self.spec).seed())
        return {feed.event_id(n) for n in range(self._first, self._first + EVENTS)}

    def _found(self, stack: Stack, span: Span, wanted: set[str]) -> Found:
        lake, quarantine = evidence.tables(stack, self.spec)
        since = self._began - ON_ITS_WAY_SECONDS
        return events.read(lake, quarantine, span, self.event_id, since, wanted)

    def show(self, stack: Stack, console: Console, result: Any) -> None:
        # Not the table's title: that is broken to the table's width.
        console.print(f"{self.title}, {result.window}", markup=False, highlight=False)
        table = Table("user", "bot", "edits")
        for editor in result.top:
            table.add_row(
                Text(printable(editor["user"])), "bot" if editor["bot"] else "", f"{editor['edits']:,}"
            )
        console.print(table)
        console.print(f"More, every 10 seconds anew: {result.page}", soft_wrap=True, highlight=False)


def busiest(results: Results) -> Window | None:
    """The newest window with editors."""
    return next((window for window in results.windows if window.editors), None)


def uncounted_records(lake: Lake, spec: StreamSpec) -> int:
    """Records that are published, and that some query of the stream has not counted yet."""
    lake_state = published(lake.table(spec.table))
    try:
        standing = queries.standing(lake.table(spec.queries_table), spec.queries)
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
