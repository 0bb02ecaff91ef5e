"""One component: what the observer knows of it, from one observation to the next."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING

from sluice.config.stream import CONSUMER, StreamSpec
from sluice.core.errors import ClientError, Unreachable
from sluice.core.processes.restarts import RestartHistory
from sluice.supervision.observer.live import Live, Point, Points
from sluice.supervision.observer.loads import BATCHES, KnownLoads, with_batches
from sluice.supervision.observer.sampler import Sampler
from sluice.supervision.rules.assess import assess
from sluice.supervision.rules.sample import Sample, downsample, memory_seconds

if TYPE_CHECKING:
    from sluice.clients.kafka.admin import KafkaAdmin
    from sluice.clients.processes.base import Runtime
    from sluice.core.tables.batches import Batch
    from sluice.ledger.history import History
    from sluice.ledger.known_tables import KnownTables

# Histories change by supervision, every two minutes, and by requests, which change the process too.
HISTORY_SECONDS = 60.0
# Span of the charts, and between two of their points.
CHART_SECONDS, POINT_SECONDS = 3 * 3600.0, 30.0
# Samples that are older than this are thinned: their number does not grow with the stall timeout.
RECENT_SECONDS, MAX_OLDER = 120.0, 30
DAY = timedelta(days=1)
LEDGER = "ledger"
# Others wait for a system that took longer than this and did not answer; it is not asked again in a cycle.
SLOW_SECONDS = 2.0


@dataclass
class Clients:
    """Clients of one observation at a time. ``kafka``, ``runtime``: for all streams; ``tables``: of a stream,
    as the ledger knows them; ``history``: of a stream's component; ``batches``: the newest batches of a
    table, newest first."""

    kafka: KafkaAdmin
    tables: Callable[[StreamSpec], KnownTables]
    runtime: Runtime
    history: Callable[[StreamSpec, str], History]
    batches: Callable[[StreamSpec, int], Sequence[Batch]]


@dataclass
class ObservedComponent:
    """The component ``name`` of the stream ``spec``. ``live`` is replaced as a whole, so that it may be read
    from any thread."""

    spec: StreamSpec
    name: str
    live: Live = field(default_factory=Live)
    _samples: list[Sample] = field(default_factory=list)
    _points: Points = field(default_factory=lambda: Points(CHART_SECONDS, POINT_SECONDS))
    _restarts: RestartHistory = field(default_factory=RestartHistory)
    _history_at: float | None = None
    _table_at: float | None = None
    _loads: KnownLoads = field(default_factory=KnownLoads)
    _first_seen: tuple[str, float] | None = None
    # When its newest observation began, by the monotonic clock; before the first the oldest of all.
    begun_at: float = 0.0
    # Number of the observation that may change all of this: an abandoned one may not.
    _number: int = 0
    _lock: Lock = field(default_factory=Lock)

    def samples(self) -> list[Sample]:
        """Oldest first; those that are not recent are thinned."""
        return list(self._samples)

    def next_number(self) -> int:
        with self._lock:
            self._number += 1
            return self._number

    def abandon(self, reason: str) -> None:
        """What the observation under way still finds is dropped."""
        self.next_number()
        self.fail(reason)

    def fail(self, reason: str, number: int | None = None) -> None:
        """It was not observed; what is known stays, with its age."""
        self._publish(replace(self.live, errors={"observation": reason}), number)

    def observe(
        self,
        number: int,
        clients: Clients,
        now: float,
        unreachable: dict[str, str],
        asking: Callable[[str], None],
    ) -> None:
        """Observe it at ``now``. ``unreachable``: systems that others found not to answer in this cycle, to
        which this one adds; ``asking``: is told what is waited for."""
        sampler = Sampler(
            clients.kafka, lambda: clients.tables(self.spec), clients.runtime, self.spec, self.name, asking
        )
        sample = sampler.observe(now, unreachable)
        for system, seconds in sampler.slow.items():
            if seconds >= SLOW_SECONDS:
                # Not its text: that names this stream's topic, and others' readers may not see it.
                unreachable.setdefault(system, f"{system} did not answer within {seconds:.0f} s")
        # First what was observed: the ledger may take long, and say nothing of a process that ended.
        is_due = self._is_history_due(sample)
        self._assess(sample, number)
        errors: dict[str, str] = {}
        if is_due:
            self._ask(
                LEDGER, errors, unreachable, asking, lambda: self._read_history(clients, sample, number)
            )
        if sample.published is not None and sample.published.at != self._table_at:
            self._ask(
                "batches", errors, unreachable, asking, lambda: self._read_batches(clients, sample, number)
            )
        if is_due and not errors:
            self._assess(sample, number)
        elif errors:
            self._publish(replace(self.live, errors=errors), number)

    @staticmethod
    def _ask(
        system: str,
        errors: dict[str, str],
        unreachable: dict[str, str],
        asking: Callable[[str], None],
        request: Callable[[], None],
    ) -> None:
        """Both read S3, so one that does not answer is not asked for the other."""
        if LEDGER in unreachable:
            errors[system] = unreachable[LEDGER]
            return
        began = time.monotonic()
        asking(LEDGER)
        try:
            request()
        except ClientError as error:
            errors[system] = str(error)
            if isinstance(error, Unreachable):
                unreachable[LEDGER] = f"S3 did not answer within {time.monotonic() - began:.0f} s"
        finally:
            asking("")

    def _publish(self, live: Live, number: int | None) -> None:
        with self._lock:
            if number in (None, self._number):
                self.live = live

    def _assess(self, sample: Sample, number: int) -> None:
        """Publish the sample's health."""
        if number != self._number:
            return  # it was abandoned
        policy = self.spec.supervision
        if self._samples and sample.at < self._samples[-1].at:
            self._samples.clear()  # the clock was set back
        reach = memory_seconds(policy, self.live.report.details if self.live.report else {})
        samples = [*(one for one in self._samples if one.at != sample.at), sample]
        older = [one for one in samples if sample.at - one.at > RECENT_SECONDS]
        self._samples = [*downsample(older, reach, MAX_OLDER), *samples[len(older) :]]
        report = assess(self.name, self._samples, policy, self._restarts)
        if self._first_seen is None or self._first_seen[0] != report.health:
            self._first_seen = (report.health, sample.at)
        since, recorded = self._first_seen[1], self.live.recorded
        if recorded and recorded["health"] == report.health:
            since = min(since, datetime.fromisoformat(recorded["at"]).timestamp())
        if point := Point.of(sample):
            self._points.add(point)
        live = replace(
            self.live, at=sample.at, report=report, sample=sample, since=since, points=self._points.all(),
            errors={},
        )  # fmt: skip
        self._publish(live, number)

    def _is_history_due(self, sample: Sample) -> bool:
        """Once in HISTORY_SECONDS, and when the process changed."""
        process, before = sample.process, self.live.sample.process if self.live.sample else None
        known = (process.identity, process.state) if process else None
        if known is not None and known != ((before.identity, before.state) if before else None):
            return True
        return self._history_at is None or abs(sample.at - self._history_at) >= HISTORY_SECONDS

    def _read_history(self, clients: Clients, sample: Sample, number: int) -> None:
        now = datetime.fromtimestamp(sample.at, UTC)
        history = clients.history(self.spec, self.name)
        restarts = history.restart_history(now, self.spec.supervision)
        live = replace(
            self.live,
            recorded=restarts.recorded,
            restarts=[at.timestamp() for at in history.times("restart", now - DAY)],
            suspended=restarts.suspended,
        )
        loads = self._loads
        if self.name == CONSUMER:
            loads, live = loads.read(history, live, sample.at)
        if number == self._number:
            self._restarts, self._loads, self._history_at = restarts, loads, sample.at
            self._publish(live, number)

    def _read_batches(self, clients: Clients, sample: Sample, number: int) -> None:
        found = clients.batches(self.spec, BATCHES)
        if number == self._number:
            self._table_at = sample.published.at if sample.published else None
            self._publish(with_batches(self.live, found), number)
