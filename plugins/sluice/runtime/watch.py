"""Observes every component all the time, in threads of its own: what pages and metrics show.

Pages read what was observed last, so a viewer costs the observed systems nothing. Nothing is recorded and
nothing acted on: that is supervision's.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sluice.clients.errors import ClientError
from sluice.model.health.assess import assess
from sluice.model.health.sample import Sample
from sluice.model.health.status import RestartHistory
from sluice.model.live import Live, LoadResult, Point, Points
from sluice.model.spec.config import ConfigError
from sluice.model.spec.ledger import NOT_VERIFIED, PROOF, Document, run_key
from sluice.model.spec.stream import CONSUMER, StreamSpec
from sluice.runtime.observer import Observer

if TYPE_CHECKING:
    from sluice.clients.kafka_admin import KafkaAdmin
    from sluice.clients.lake.catalog import Lake
    from sluice.clients.ledger import History
    from sluice.model.trace.batches import Batch
    from sluice.runtime.base import Runtime

log = logging.getLogger(__name__)

# A process that ended shows within 30 s: two cycles, and an observation that takes as long as one.
CYCLE_SECONDS = 10.0
# Histories change by supervision, every two minutes, and by requests, which change the process too.
HISTORY_SECONDS = 60.0
THREADS = 4
# Of the charts.
CHART_SECONDS, POINT_SECONDS = 3 * 3600.0, 30.0
BATCHES, LOADS = 20, 3
DAY = timedelta(days=1)


@dataclass
class Clients:
    """One thread's clients. ``batches``: the newest batches of a table, newest first."""

    kafka: KafkaAdmin
    lake: Callable[[], Lake]
    runtime: Runtime
    history: Callable[[StreamSpec, str], History]
    batches: Callable[[StreamSpec, int], Sequence[Batch]]


@dataclass
class _Watched:
    """One component, as it was observed so far; only one thread at a time changes it."""

    spec: StreamSpec
    name: str
    live: Live = field(default_factory=Live)
    samples: deque[Sample] = field(default_factory=deque)
    points: Points = field(default_factory=lambda: Points(CHART_SECONDS, POINT_SECONDS))
    restarts: RestartHistory = field(default_factory=RestartHistory)
    history_at: float | None = None
    table_at: float | None = None
    # Key -> document; the ledger's never change.
    documents: dict[str, Document] = field(default_factory=dict)
    # Up to when loads were counted.
    counted: float | None = None
    first_seen: tuple[str, float] | None = None


class StreamWatch:
    """Observes the components of the ``declared`` streams every ``cycle_seconds``.

    Begins with :meth:`ensure_started`. ``clients``: opens one thread's; may raise ConfigError and
    ClientError, and is then asked again.
    """

    def __init__(
        self,
        declared: Callable[[], Sequence[StreamSpec]],
        clients: Callable[[], Clients],
        *,
        cycle_seconds: float = CYCLE_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._declared, self._clients = declared, clients
        self.cycle_seconds, self._clock = cycle_seconds, clock
        self._watched: dict[tuple[str, str], _Watched] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._end = threading.Event()
        self._local = threading.local()
        # System -> why it did not answer in this cycle.
        self._unreachable: dict[str, str] = {}

    def live(self, stream: str, component: str) -> Live:
        """The newest; an empty one before the first observation."""
        watched = self._watched.get((stream, component))
        return watched.live if watched else Live()

    def ensure_started(self) -> None:
        """Start the thread unless it runs: a forked server process begins without it."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._end.clear()
                self._thread = threading.Thread(target=self._run, name="stream-watch", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """End it after the observations under way."""
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        with ThreadPoolExecutor(THREADS, thread_name_prefix="stream-watch") as pool:
            while not self._end.is_set():
                began = time.monotonic()
                self.cycle(pool)
                self._end.wait(max(self.cycle_seconds - (time.monotonic() - began), 1.0))

    def cycle(self, pool: ThreadPoolExecutor) -> None:
        """Observe each component once."""
        self._unreachable = {}
        specs = {spec.name: spec for spec in self._declared()}
        wanted = {(name, component) for name, spec in specs.items() for component in spec.components}
        for key in self._watched.keys() - wanted:
            del self._watched[key]
        for stream, component in sorted(wanted):
            watched = self._watched.setdefault((stream, component), _Watched(specs[stream], component))
            watched.spec = specs[stream]
        for done in [pool.submit(self._observe, watched) for watched in list(self._watched.values())]:
            done.result()

    def _observe(self, watched: _Watched) -> None:
        now = self._clock()
        try:
            clients = self._opened()
            observer = Observer(clients.kafka, clients.lake, clients.runtime, watched.spec, watched.name)
            sample = observer.observe(now, self._unreachable)
            self._unreachable |= observer.unreachable
            self._update(watched, clients, sample)
        except (ClientError, ConfigError) as error:
            # The page shows it, with the age of what is known.
            watched.live = replace(watched.live, errors={"observation": str(error)})
        except Exception as error:
            # As of a thread that ends: pages would show the last state for ever without a reason.
            log.exception("%s of %s cannot be observed", watched.name, watched.spec.name)
            watched.live = replace(
                watched.live, errors={"observation": f"{type(error).__name__}, see the API server's log"}
            )

    def _opened(self) -> Clients:
        if not hasattr(self._local, "clients"):
            self._local.clients = self._clients()
        clients: Clients = self._local.clients
        return clients

    def _update(self, watched: _Watched, clients: Clients, sample: Sample) -> None:
        policy, errors = watched.spec.supervision, dict[str, str]()
        known = watched.live
        known = self._with_history(watched, clients, sample, known, errors)
        samples = watched.samples
        if samples and sample.at <= samples[-1].at:
            samples.clear()  # the clock was set back
        samples.append(sample)
        reach = 2 * max(policy.lag_window_seconds, policy.stall_timeout_seconds) + policy.interval_seconds
        while sample.at - samples[0].at > reach:
            samples.popleft()
        report = assess(watched.name, list(samples), policy, watched.restarts)
        if watched.first_seen is None or watched.first_seen[0] != report.health:
            watched.first_seen = (report.health, sample.at)
        since, recorded = watched.first_seen[1], known.recorded
        if recorded and recorded["health"] == report.health:
            since = min(since, datetime.fromisoformat(recorded["at"]).timestamp())
        if point := Point.of(sample):
            watched.points.add(point)
        batches = self._batches(watched, clients, sample, known.batches, errors)
        watched.live = replace(
            known,
            at=sample.at,
            report=report,
            sample=sample,
            since=since,
            batches=batches,
            counts=known.counts.with_batches(known.batches, batches),
            points=watched.points.all(),
            errors=errors,
        )

    def _with_history(
        self, watched: _Watched, clients: Clients, sample: Sample, known: Live, errors: dict[str, str]
    ) -> Live:
        """With what the history says, read again after HISTORY_SECONDS or a change of the process."""
        process, before = sample.process, known.sample.process if known.sample else None
        is_same = (
            process is not None
            and before is not None
            and (process.identity, process.state)
            == (
                before.identity,
                before.state,
            )
        )
        if watched.history_at is not None and is_same and sample.at - watched.history_at < HISTORY_SECONDS:
            return replace(known)
        now = datetime.fromtimestamp(sample.at, UTC)
        try:
            history = clients.history(watched.spec, watched.name)
            watched.restarts = history.restart_history(now, watched.spec.supervision)
            found = replace(
                known,
                recorded=history.latest("health"),
                restarts=[at.timestamp() for at in history.times("restart", now - DAY)],
                suspended=watched.restarts.suspended,
            )
            if watched.name == CONSUMER:
                loads = self._loads(watched, history)
                counts = known.counts.with_loads(watched.counted or sample.at, loads)
                watched.counted = max([watched.counted or sample.at, *(load.at for load in loads)])
                found = replace(found, loads=loads, counts=counts)
        except ClientError as error:
            errors["history"] = str(error)
            return known
        watched.history_at = sample.at
        return found

    @staticmethod
    def _loads(watched: _Watched, history: History) -> list[LoadResult]:
        """The newest of both kinds, newest first: two LISTs, and a GET for each new document."""
        kept, known = dict[str, Document](), watched.documents

        def get(key: str) -> Document | None:
            document = known.get(key) or history.get(key)
            if document is not None:
                kept[key] = document
            return document

        loads = []
        for kind in (PROOF, NOT_VERIFIED):
            for key, at in history.newest_keys(kind, LOADS):
                record = get(key)
                if record is not None:
                    run_id = record["run_id"]
                    loads.append(
                        LoadResult(
                            at=at.timestamp(),
                            run_id=run_id,
                            seconds=record.get("seconds"),
                            proof=get(run_key(run_id, "proof")) if kind == PROOF else None,
                            problems=record.get("problems", ()),
                            audit=get(run_key(run_id, "audit")) if kind == PROOF else None,
                        )
                    )
        watched.documents = kept
        return sorted(loads, key=lambda load: -load.at)

    @staticmethod
    def _batches(
        watched: _Watched,
        clients: Clients,
        sample: Sample,
        known: Sequence[Batch],
        errors: dict[str, str],
    ) -> Sequence[Batch]:
        """Read again when the table changed."""
        if sample.published is None or sample.published.at == watched.table_at:
            return known
        try:
            found = clients.batches(watched.spec, BATCHES)
        except ClientError as error:
            errors["batches"] = str(error)
            return known
        watched.table_at = sample.published.at
        return found
