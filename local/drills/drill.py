"""What a drill is, the context in which it runs, and the detectors of its fault."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from local.drills.stream import StreamUnderTest
from local.drills.traffic import TrafficGenerator
from local.stack.health import UNREACHABLE_ERRORS
from sluice.supervision.rules.status import NO_ACTION, RESTARTABLE, Health

T = TypeVar("T")
POLL_SECONDS = 1.0


class Failed(Exception):
    """The drill cannot continue, or observed a violation; the text is its one line."""

    code = "SLU-804"


@dataclass
class DrillContext:
    """A drill in progress.

    `injected_at`: seconds since 1970, 0 before. `total`: the published end offsets of all partitions together
    at that time. `state`: from the injection, for the repair and the end. `cleanup`: closed at the end, after
    the stack was restored.
    """

    stream: StreamUnderTest
    traffic: TrafficGenerator
    say: Callable[[str], None]
    trigger_immediately: bool = False
    injected_at: float = 0.0
    total: int = 0
    state: dict[str, Any] = field(default_factory=dict)
    sleep: Callable[[float], None] = time.sleep
    cleanup: ExitStack = field(default_factory=ExitStack)

    def record_injection(self) -> None:
        """Called right before the fault, since Kafka or the lake may be its target."""
        self.total = sum(self.stream.ends().values())
        self.injected_at = time.time()

    def wait_for(self, what: str, check: Callable[[], T | None], limit: float) -> T:
        """Return the first truthy result; a system that is unreachable counts as none. Raises Failed."""
        deadline = time.monotonic() + limit
        while True:
            reason = ""
            try:
                self.trigger_check()
                if found := check():
                    return found
            except UNREACHABLE_ERRORS as error:
                reason = f" ({' '.join(str(error).split())[:200]})"
            if time.monotonic() > deadline:
                raise Failed(f"{what}: not within {limit:.0f} s{reason}")
            self.sleep(POLL_SECONDS)

    def trigger_check(self) -> None:
        """With `trigger_immediately`, trigger supervision instead of waiting for its interval."""
        if not self.trigger_immediately or not self.injected_at:
            return
        if any(run["state"] in ("queued", "running") for run in self.stream.supervision_runs(5)):
            return
        self.stream.airflow.trigger(self.stream.supervision)

    def send_batch(self) -> None:
        self.traffic.send(100)


Detector = Callable[[DrillContext], "tuple[float, str] | None"]


def no_step(context: DrillContext) -> None:
    pass


@dataclass(frozen=True)
class Drill:
    """One fault.

    `inject` calls `record_injection()` right before the fault. `detected_by`: the earliest detection counts.
    `repair`, at least `repair_after` seconds after the injection and not before the detection: what a person
    or time would repair (a broker that comes back); without it the platform alone repairs. `afterwards`:
    after the recovery. `unavailable`: why it cannot run here, or "". `detect_seconds`, `recover_seconds`:
    deadlines besides two intervals each.
    """

    name: str
    what: str
    inject: Callable[[DrillContext], None]
    detected_by: Sequence[Detector]
    repair: Callable[[DrillContext], None] = no_step
    repair_after: float = 0.0
    afterwards: Callable[[DrillContext], None] = no_step
    unavailable: Callable[[DrillContext], str] = lambda context: ""
    detect_seconds: float = 120.0
    recover_seconds: float = 180.0


def moment(text: str) -> float:
    """Seconds since 1970 of an ISO 8601 time."""
    return datetime.fromisoformat(text).timestamp()


def is_healthy(event: dict[str, Any]) -> bool:
    """Whether a health event needs no action."""
    return Health(event["health"]) in NO_ACTION


def events(context: DrillContext, kind: str) -> list[dict[str, Any]]:
    """The stream's history since the injection, oldest first."""
    if not context.injected_at:
        return []
    return context.stream.history.since(kind, datetime.fromtimestamp(context.injected_at).astimezone())


def detected_by_health(context: DrillContext) -> tuple[float, str] | None:
    """Supervision: the first health status that needs an action."""
    return _first(context, lambda health: health not in NO_ACTION)


def detected_by_restartable_health(context: DrillContext) -> tuple[float, str] | None:
    """Supervision: the first health status that leads to a restart."""
    return _first(context, lambda health: health in RESTARTABLE)


def detected_by_rejecting(context: DrillContext) -> tuple[float, str] | None:
    """Supervision: the stream rejects too many records."""
    return _first(context, lambda health: health is Health.REJECTING)


def _first(context: DrillContext, matches: Callable[[Health], bool]) -> tuple[float, str] | None:
    for event in events(context, "health"):
        if matches(Health(event["health"])):
            return moment(event["at"]), f"health {event['health']}"
    return None


def detected_by_runtime(context: DrillContext) -> tuple[float, str] | None:
    """The runtime restarted the consumer after the injection."""
    status = context.stream.status()
    restarts = status.restarts_since(context.injected_at)
    return (restarts[0], f"the runtime ({status.last_exit})") if restarts else None


def detected_by_failed_run(context: DrillContext) -> tuple[float, str] | None:
    """A failed run of the supervising DAG: without the bucket no health status can be recorded."""
    return failed_after(context, context.stream.supervision, context.stream.supervision_runs())


def failed_after(context: DrillContext, dag: str, runs: Sequence[dict[str, Any]]) -> tuple[float, str] | None:
    """The first of ``runs`` of ``dag`` that failed after the injection."""
    failed = [
        moment(run["end_date"])
        for run in runs
        if run["state"] == "failed" and run["end_date"] and moment(run["end_date"]) > context.injected_at
    ]
    return (min(failed), f"a red run of {dag}") if failed else None


def detected_by_supervisord(program: str) -> Detector:
    """supervisord restarted the program; `context.state["pids"]` holds the earlier process ids."""

    def detect(context: DrillContext) -> tuple[float, str] | None:
        info = context.stream.process(program)
        if not info["pid"] or info["pid"] == context.state["pids"][program]:
            return None
        # In whole seconds, so it may seem to be earlier than the injection.
        return max(float(info["start"]), context.injected_at), "supervisord"

    return detect
