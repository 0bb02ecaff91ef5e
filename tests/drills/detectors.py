"""Detectors: by what a drill knows that its fault was detected, and when."""

from __future__ import annotations

from collections.abc import Callable

from sluice.supervision.rules.status import NO_ACTION, RESTARTABLE, Health
from tests.drills.drill import Detector, DrillContext, events, moment


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


def detected_by_failed_run(kind: str) -> Detector:
    """A run of `<stream>_<kind>` failed: of supervision, since without the bucket no health status can be
    recorded, or of reconciliation."""

    def detect(context: DrillContext) -> tuple[float, str] | None:
        dag = f"{context.stream.spec.name}_{kind}"
        failed = [run for run in context.stream.runs(dag) if run["state"] == "failed" and run["end_date"]]
        ends = [end for run in failed if (end := moment(run["end_date"])) > context.injected_at]
        return (min(ends), f"a red run of {dag}") if ends else None

    return detect


def detected_by_supervisord(program: str) -> Detector:
    """supervisord restarted the program; `context.state["pids"]` holds the earlier process ids."""

    def detect(context: DrillContext) -> tuple[float, str] | None:
        info = context.stream.process(program)
        if not info["pid"] or info["pid"] == context.state["pids"][program]:
            return None
        # In whole seconds, so it may seem to be earlier than the injection.
        return max(float(info["start"]), context.injected_at), "supervisord"

    return detect
