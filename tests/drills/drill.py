"""What a drill is, and the context in which it runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from local.stack.health import UNREACHABLE_ERRORS
from sluice.supervision.rules.status import NO_ACTION, Health
from tests.support.stream import StreamUnderTest
from tests.support.traffic import TrafficGenerator

T = TypeVar("T")
POLL_SECONDS = 1.0


class Failed(Exception):
    """The drill cannot continue, or observed a violation; the text is its one line."""

    code = "SLU-804"


@dataclass
class DrillContext:
    """A drill in progress.

    - `say`: shows a line.
    - `trigger_immediately`: supervision is triggered and not waited for.
    - `injected_at`: seconds since 1970, 0 before.
    - `total`: the published end offsets of all partitions together at that time.
    - `state`: from the injection, for the detection, the repair and the end.
    - `cleanup`: closed at the end, after the stack was restored.
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

    def unpause(self, dag: str) -> None:
        """Until the drill's end, if it was paused."""
        airflow = self.stream.airflow
        airflow.wait_for_dag(dag)
        if airflow.is_paused(dag):
            self.cleanup.callback(airflow.pause, dag)
            airflow.unpause(dag)

    def wait_for_success(self, dag: str, run: str, limit: float) -> None:
        """Raises Failed unless the run succeeds."""
        state = self.stream.airflow.wait(dag, run, limit)
        if state != "success":
            raise Failed(f"run {run} of {dag} was {state}")

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
        dag = self.stream.supervision
        if not any(run["state"] in ("queued", "running") for run in self.stream.runs(dag, 5)):
            self.stream.airflow.trigger(dag)

    def send_batch(self) -> None:
        self.traffic.send(100)


Detector = Callable[[DrillContext], "tuple[float, str] | None"]


def no_step(context: DrillContext) -> None:
    pass


@dataclass(frozen=True)
class Drill:
    """One fault.

    - `what`: the fault in words, also in the form of Airflow's DAG.
    - `inject`: calls `record_injection()` right before the fault.
    - `detected_by`: the earliest detection counts.
    - `repair`: what a person or time would repair (a broker that comes back), at least `repair_after` seconds
      after the injection and not before the detection; without it the platform alone repairs.
    - `afterwards`: after the recovery.
    - `unavailable`: why it cannot run here, or "".
    - `detect_seconds`, `recover_seconds`: deadlines besides two intervals each.
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
