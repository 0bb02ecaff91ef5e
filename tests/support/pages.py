"""Pages without a stack: what they read, made up, and the app served for a browser."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import uvicorn
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from sluice.catalog_check.status import CatalogStatus, status
from sluice.clients.kafka.query_progress import (
    ActivityEvent,
    ActivityKind,
    OffsetLag,
    Progress,
    ProgressSnapshot,
    QueryHistory,
    StateMetrics,
    Totals,
    history,
)
from sluice.clients.lake.results.table import Group, Results, Window
from sluice.config import streams
from sluice.config.platform_sections.catalog import SQL
from sluice.config.sections.page import Page, Words
from sluice.config.stream import StreamSpec
from sluice.config.streams import Declared
from sluice.core.errors import ClientError
from sluice.core.json_record import Document
from sluice.core.schema_versions.stream import Column, StreamSchema
from sluice.ledger.documents import Ledger
from sluice.ledger.keys import run_key
from sluice.supervision.observer.component_view import LastCheck
from sluice.web.app import create, may_read
from sluice.web.data.sources import AirflowState, Sources, sources
from sluice.web.rights import Reader, may_read_log, may_read_stream, reader
from sluice.web.streams.health import last_check
from tests.support import observed
from tests.support.memory_s3 import MemoryS3
from tests.support.observed import FakeObserved

STREAM, QUERY = "wiki_changes", "editors"
TOKEN = "a token of more than 24 characters"
WINDOW_SECONDS = 600
START_SECONDS = 60
TOML = """
name = "wiki_changes"
schema = "schema.ddl"
decode = "transforms:changes"
table = "raw.wiki_changes"
topic = {name = "wiki-changes", partitions = 6, config = {"message.timestamp.type" = "LogAppendTime"}}
consumer = {}
budget = {s3_calls_per_batch = 1, versions_per_batch = 1}
feed = {url = "http://127.0.0.1:1/", user_agent = "a test", event_id = "event_id", event = "events:read"}

[queries.editors]
group_by = ["user", "bot"]
event_time = "change_timestamp"
window = {size_minutes = 10, slide_minutes = 10}
watermark_minutes = 10
aggregates = {edits = "count"}
sinks = [{kind = "iceberg", table = "results.editors"}]

[queries.editors.page]
title = "Wikipedia: top editors"
name = "user"
names = {one = "user", many = "users"}
ranked = "editors"
counted = "edits"
kind = {column = "bot", no = {one = "person", many = "people"}, yes = {one = "bot", many = "bots"}}
"""

# Each tries another way out of being text: as markup, as Plotly's markup, as TeX, as a template, by turning
# the direction of writing, by its length, by showing nothing, or by being taken for a number or a date.
HOSTILE = (
    '<img src=x onerror="window.hit=1;alert(1)">',
    "</script><script>window.hit=1;alert(2)</script>",
    '<a href="javascript:window.hit=1">click</a><br><b>bold</b>',
    "&lt;svg onload=alert(3)&gt;&amp;#60;",
    "$\\href{javascript:alert(4)}{x}$",
    "%{x} {{7*7}} ${alert(5)} %3Cscript%3E",
    "Ann\u202egpj.exe\u2066 \u200fשלום",
    "👩‍👩‍👧‍👦🏳️‍🌈 Ünïcode «日本語»",
    "x" * 10_000,
    "\u200b\u2060 ",
    "2020-01-01",
    "' onmouseover='alert(6)",
)


def spec() -> StreamSpec:
    return streams.parse(TOML, "a test")


def page() -> Page:
    declared = spec().queries[QUERY].page
    assert declared is not None
    return declared


def with_page(declared: Page) -> StreamSpec:
    """The stream with another page of its query."""
    query = replace(spec().queries[QUERY], group_by=declared.columns, page=declared)
    return replace(spec(), queries={QUERY: query})


def of_zipcodes() -> Page:
    """A page without kinds."""
    return Page("ISP: hits", "zipcode", Words("zipcode", "zipcodes"), "hits")


def name_of(number: int) -> str:
    """The hostile names first, so that they are among the ten busiest, then harmless ones."""
    return HOSTILE[number] if number < len(HOSTILE) else f"Editor {number}"


def make_results(
    now: float,
    windows: int = 144,
    users: int = 500,
    names: Callable[[int], str] = "Editor {}".format,
    *,
    has_kinds: bool = True,
) -> Results:
    """The last ``windows`` windows; a group has fewer than the one before, and each third is a bot."""
    last = now // WINDOW_SECONDS * WINDOW_SECONDS
    made = []
    for number in range(windows):
        start = last - number * WINDOW_SECONDS
        busy = 60 + 40 * abs((number % 48) - 24) // 24
        groups = tuple(
            Group(names(n), has_kinds and n % 3 == 0, max(1, (busy * 12) // (n + 3) + number % 3))
            for n in range(users)
        )
        made.append(Window(start, start + WINDOW_SECONDS, groups))
    return Results(
        at=now - 4,
        source_at=now - 6,
        watermark=now - 9 - 600,
        late=1_437,
        early=12,
        windows=tuple(made),
    )


class FakeResults:
    """Results that a test may change, or make fail, while a page looks at it."""

    def __init__(self, results: Results | None = None) -> None:
        self.error: Exception | None = None
        self.reads = 0
        if results is not None:
            self.results = results

    @cached_property
    def results(self) -> Results:
        return make_results(time.time())

    def read(self, since: float) -> Results:
        self.reads += 1
        if self.error:
            raise self.error
        return self.results


def make_batches(
    query: str, now: float, hours: float = 3.0, every: float = 20.0, **of: Any
) -> list[Progress]:
    """A query's batches up to a moment ago, a busy and a quiet hour in turn; ``of``: more of each."""
    made: list[Progress] = []
    totals = Totals(now - hours * 3600)
    number = int(hours * 3600 / every)
    for n in range(number):
        at = now - (number - n) * every
        rows = 4000 + int(3000 * math.sin(n / 40)) + n % 7 * 90
        seconds = 1.2 + rows / 4000 + (3 if n % 60 == 0 else 0)
        late, early = totals.late + n % 5, totals.early + n % 3
        totals = Totals(totals.since, totals.batches + 1, totals.rows + rows, late, early)
        made.append(
            Progress(
                query=query,
                run="6e1c",
                batch=n,
                at=at,
                seconds=seconds,
                rows=rows,
                totals=totals,
                input_rate=rows / every,
                processed_rate=rows / seconds,
                phases={
                    "addBatch": seconds - 0.4,
                    "queryPlanning": 0.08,
                    "walCommit": 0.09,
                    "latestOffset": 0.05,
                },
                **{name: value(n, at) for name, value in of.items()},
            )
        )
    return made


def past(query: str, batches: list[Progress], activity: ActivityEvent | None = None) -> QueryHistory:
    return history(query, [*batches, *([activity] if activity else [])], 0.0)


def make_past(now: float) -> ProgressSnapshot:
    """Queries of every kind: a consumer, one with state and a watermark, one that rests, one that died, one
    that failed with hostile words, and one that has not ended a batch."""
    consumer = make_batches(
        STREAM, now - 3, behind=lambda n, at: OffsetLag(0.0, float(n % 50 * 40), n % 50 * 21.5)
    )
    windows = make_batches(
        "windows",
        now - 5,
        state=lambda n, at: StateMetrics(40_000 + 60 * n, 900, n % 9, 9_000_000 + 20_000 * n),
        watermark=lambda n, at: at - 640 - n % 30,
        late=lambda n, at: n % 5,
        early=lambda n, at: n % 3,
    )
    rests = make_batches("rests", now - 3000, hours=1)
    dead = make_batches("down", now - 1500, hours=1)
    failed = make_batches(HOSTILE[0], now - 600, hours=0.5)
    queries = (
        past(STREAM, consumer),
        past("windows", windows),
        past("rests", rests, ActivityEvent("rests", "1", now - 42, ActivityKind.IDLE)),
        past("down", dead),
        past(HOSTILE[0], failed, ActivityEvent(HOSTILE[0], "1", now - 600, ActivityKind.ENDED, HOSTILE[1])),
        past("new", [], ActivityEvent("new", "1", now - 8, ActivityKind.STARTED)),
    )
    return ProgressSnapshot({STREAM: queries})


class FakeProgress:
    """Queries that a test may change, or make fail, while a page looks at them."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.reads = 0

    @cached_property
    def past(self) -> ProgressSnapshot:
        return make_past(time.time())

    def read(self, since: float, now: float) -> ProgressSnapshot:
        self.reads += 1
        if self.error:
            raise self.error
        return self.past


class FakeSources(Sources):
    """Sources over these clients."""

    def __init__(
        self,
        open_results: Callable[..., Callable[[float], Results]],
        open_progress: Callable[[], Callable[[float, float], ProgressSnapshot]],
    ) -> None:
        super().__init__()
        self.__dict__ |= {"open_results": open_results, "open_progress": open_progress}


@dataclass
class Made:
    """The app over made-up results, and what a test may turn. ``past``: events of the pages' history;
    ``logs``: program -> lines, or why there are none; ``schema``: the stream's, likewise; ``catalog``: what
    was found of it; ``left_to_catalog``: by the platform file."""

    app: FastAPI
    results: FakeResults
    check: dict[str, Any]
    declared: Declared
    observed: FakeObserved
    airflow: AirflowState
    progress: FakeProgress = field(default_factory=FakeProgress)
    past: list[tuple[str, Document]] = field(default_factory=list)
    logs: dict[str, list[str] | ClientError] = field(default_factory=dict)
    schema: StreamSchema | ClientError = field(default_factory=lambda: StreamSchema([Column("id", "long")]))
    catalog: CatalogStatus | ClientError = field(default_factory=lambda: status(SQL, None))
    token: str | None = TOKEN
    left_to_catalog: list[str] = field(default_factory=list)

    def forget(self) -> None:
        """What was kept of earlier answers."""
        made = FakeSources(lambda *_: self.results.read, lambda: self.progress.read)
        made.__dict__ |= {
            "observed": self.observed, "airflow": lambda: self.airflow, "events": lambda spec: self.past,
            "schema": self._schema, "catalog": self._catalog, "log": self._log,
            "left_to_catalog": lambda: self.left_to_catalog,
            "ledger": lambda stream: ledger(), "metrics_token": lambda: self.token,
        }  # fmt: skip
        self.app.dependency_overrides[sources] = lambda: made

    def _schema(self, spec: StreamSpec) -> StreamSchema:
        if isinstance(self.schema, ClientError):
            raise self.schema
        return self.schema

    def _catalog(self) -> CatalogStatus:
        if isinstance(self.catalog, ClientError):
            raise self.catalog
        return self.catalog

    def _log(self, spec: StreamSpec, component: str) -> list[str]:
        found = self.logs.get(component, [f"a line of the {component}"])
        if isinstance(found, ClientError):
            raise found
        return found


class EveryReader(Reader):
    """May see everything."""

    def __init__(self) -> None:
        super().__init__(cast("Any", None))

    def streams(self, names: Iterable[str]) -> list[str]:
        return list(names)

    def may_read_log(self, stream: str) -> bool:
        return True


class SomeReader(EveryReader):
    """May see these streams, and no log."""

    def __init__(self, *allowed: str) -> None:
        super().__init__()
        self.allowed = allowed

    def streams(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self.allowed]

    def may_read_log(self, stream: str) -> bool:
        return False


def ledger() -> Ledger:
    """With the proof of RUN."""
    made = Ledger(MemoryS3().as_client(), "s3://warehouse/ledger", STREAM)
    made.put(run_key(observed.RUN, "proof"), observed.proof(observed.RUN))
    return made


def allow_everything(app: FastAPI) -> None:
    app.dependency_overrides[may_read] = lambda: None
    app.dependency_overrides[reader] = EveryReader
    for right in (may_read_stream, may_read_log):
        app.dependency_overrides[right] = lambda: None


def make_app(results: Results | None = None, now: float | None = None) -> Made:
    """Everybody is logged in, and Airflow's database is not asked; ``now``: of what was observed."""
    now = now or time.time()
    made_up = FakeResults(results)
    check: dict[str, Any] = {"dag": f"{STREAM}_stream", "paused": False, "at": now - 41, "passed": True}
    app = create(lambda: made.declared)
    allow_everything(app)
    app.dependency_overrides[last_check] = lambda: LastCheck(**check)
    specs = [spec()]
    made = Made(
        app,
        made_up,
        check,
        Declared(specs),
        observed.streams(specs, now),
        observed.airflow(specs, now),
    )
    made.forget()
    return made


@dataclass
class Server:
    """An address at which a test's ``app`` answers."""

    address: str = ""
    app: FastAPI | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.app is not None, "no test has set its app"
        await self.app(scope, receive, send)


@contextmanager
def serve(path: str = "/sluice") -> Iterator[Server]:
    """Apps below ``path`` on a free port of loopback."""
    served = Server()
    root = FastAPI(openapi_url=None)
    root.mount(path, served)
    server = uvicorn.Server(uvicorn.Config(root, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + START_SECONDS
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        assert time.monotonic() < deadline, f"the server did not start within {START_SECONDS} s"
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    served.address = f"http://127.0.0.1:{port}{path}"
    try:
        yield served
    finally:
        server.should_exit = True
        thread.join(10)
