"""What a drill is, the scene on which it runs, and who detects a fault."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from local.drills.stream import StreamUnderTest
from local.drills.traffic import TrafficGenerator
from local.stack.health import UNREACHABLE_ERRORS
from sluice.model.health.status import NO_ACTION, RESTARTABLE, Health

T = TypeVar("T")
POLL_SECONDS = 1.0


class Failed(Exception):
    """The drill cannot go on, or saw what must not be. The text is its one line."""

    code = "SLU-804"


@dataclass
class DrillContext:
    """A drill in progress.

    `broken`: when, in seconds since 1970, 0 before. `total`: how far the partitions were published together
    by then. `kept`: what breaking leaves for mending and for the end. `sleep`: between two looks.
    """

    site: StreamUnderTest
    traffic: TrafficGenerator
    say: Callable[[str], None]
    trigger_immediately: bool = False
    broken: float = 0.0
    total: int = 0
    kept: dict[str, Any] = field(default_factory=dict)
    sleep: Callable[[float], None] = time.sleep

    def mark(self) -> None:
        """This is the moment of the break; called right before it, since Kafka or the lake may be next."""
        self.total = sum(self.site.ends().values())
        self.broken = time.time()

    def await_(self, what: str, look: Callable[[], T | None], limit: float) -> T:
        """Looks until there is something; silence is nothing yet. Raises Failed naming `what`."""
        deadline = time.monotonic() + limit
        trouble = ""
        while True:
            try:
                self.trigger_check()
                found = look()
                trouble = ""
            except UNREACHABLE_ERRORS as error:
                found, trouble = None, " ".join(str(error).split())[:200]
            if found:
                return found
            if time.monotonic() > deadline:
                raise Failed(f"{what}: not within {limit:.0f} s{f' ({trouble})' if trouble else ''}")
            self.sleep(POLL_SECONDS)

    def trigger_check(self) -> None:
        """With `trigger_immediately`, lets supervision look now instead of at its next interval."""
        if not self.trigger_immediately or not self.broken:
            return
        if any(run["state"] in ("queued", "running") for run in self.site.supervision_runs(5)):
            return
        self.site.airflow.trigger(self.site.supervision)

    def feed(self) -> None:
        """A batch that is to come."""
        self.traffic.more(100)


Notice = Callable[[DrillContext], "tuple[float, str] | None"]


def nothing(context: DrillContext) -> None:
    """No step here."""


def always(context: DrillContext) -> str:
    """It can be done everywhere."""
    return ""


@dataclass(frozen=True)
class Drill:
    """One way to break the stack.

    `break_` breaks it, and calls `scene.mark()` right before. `detected_by`: who may notice; the earliest
    counts. `repair`, at least `repair_after` seconds after the break and not before it was noticed: what a
    person or time would mend (a broker that comes back); a drill without it is mended by the platform alone.
    `afterwards`, once it has recovered: what remains to be shown. `needs` says why it cannot be done here, or
    "". `detect_seconds`, `recover_seconds`: deadlines besides two intervals each.
    """

    name: str
    what: str
    break_: Callable[[DrillContext], None]
    detected_by: Sequence[Notice]
    repair: Callable[[DrillContext], None] = nothing
    repair_after: float = 0.0
    afterwards: Callable[[DrillContext], None] = nothing
    needs: Callable[[DrillContext], str] = always
    detect_seconds: float = 120.0
    recover_seconds: float = 180.0


def moment(text: str) -> float:
    """Seconds since 1970 of an ISO 8601 time."""
    return datetime.fromisoformat(text).timestamp()


def is_calm(event: dict[str, Any]) -> bool:
    """Whether a verdict event says that nothing is to be done."""
    return Health(event["health"]) in NO_ACTION


def events(context: DrillContext, kind: str) -> list[dict[str, Any]]:
    """What supervision wrote into the stream's history since the break, oldest first."""
    if not context.broken:
        return []
    return context.site.history.since(kind, datetime.fromtimestamp(context.broken).astimezone())


def detected_by_health(context: DrillContext) -> tuple[float, str] | None:
    """Supervision: the first verdict that is not calm."""
    return _first(context, lambda health: health not in NO_ACTION)


def detected_by_restartable_health(context: DrillContext) -> tuple[float, str] | None:
    """Supervision: the first verdict that a restart follows, where another one is no news."""
    return _first(context, lambda health: health in RESTARTABLE)


def _first(context: DrillContext, fits: Callable[[Health], bool]) -> tuple[float, str] | None:
    for event in events(context, "health"):
        if fits(Health(event["health"])):
            return moment(event["at"]), f"health {event['health']}"
    return None


def detected_by_runtime(context: DrillContext) -> tuple[float, str] | None:
    """The runtime has restarted the consumer that ended since the break."""
    status = context.site.status()
    restarts = status.restarts_since(context.broken)
    return (restarts[0], f"the runtime ({status.last_exit})") if restarts else None


def detected_by_failed_run(context: DrillContext) -> tuple[float, str] | None:
    """Whoever looks at Airflow: a run of the supervising DAG that failed. Where the bucket does not answer,
    no verdict can be written down."""
    failed = [
        moment(run["end_date"])
        for run in context.site.supervision_runs()
        if run["state"] == "failed" and run["end_date"] and moment(run["end_date"]) > context.broken
    ]
    return (min(failed), f"a red run of {context.site.supervision}") if failed else None


def by_supervisord(program: str) -> Notice:
    """supervisord has started the program again; `scene.kept["pids"]` holds the process ids of before."""

    def look(context: DrillContext) -> tuple[float, str] | None:
        info = context.site.process(program)
        if not info["pid"] or info["pid"] == context.kept["pids"][program]:
            return None
        # In whole seconds, so it may seem to be earlier than the break.
        return max(float(info["start"]), context.broken), "supervisord"

    return look
