"""What the pages of streams show, from what is known of each component. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from sluice.config.stream import CONSUMER, StreamSpec
from sluice.supervision.observer.component_view import (
    SEVERITIES,
    ComponentView,
    LastCheck,
    component_views,
    worst,
)
from sluice.supervision.observer.live import Live, LoadResult
from sluice.web.data.airflow_db import LoadRun, OpenApproval
from sluice.web.formats import count


@dataclass(frozen=True)
class Load:
    """A ``run`` of the load ``dag``; the id of a backfill's has `#` and the load's number. ``state``:
    verified, verified with a run that failed later, not verified, or Airflow's word for a run without a
    result; ``at``: its end, else its start, in seconds since 1970; ``summary``: its proof or its problems in
    a line."""

    dag: str
    run: str
    state: str
    at: float
    summary: str = ""


@dataclass(frozen=True)
class StreamView:
    """The stream ``name``, displayed as ``title``. ``severity``: the worst of its ``components``'. ``loads``:
    newest first; ``approvals``: that its changes wait for. ``check``: supervision's; ``is_supervised``: False
    if that is paused or late."""

    name: str
    title: str
    severity: str
    components: Sequence[ComponentView]
    loads: Sequence[Load]
    approvals: Sequence[OpenApproval]
    check: LastCheck
    is_supervised: bool

    @property
    def left_alone(self) -> list[tuple[str, ComponentView]]:
        """This stream and each component that stays as it is until a person triggers an action."""
        return [(self.name, component) for component in self.components if component.is_left_alone]

    @property
    def rank(self) -> int:
        """The worst first; a list sorted by it keeps the order of equal ones."""
        return SEVERITIES.index(self.severity)


@dataclass(frozen=True)
class Overview:
    """``invalid``: stream -> why its declaration is refused; ``problems``: what is wrong with no stream to
    name."""

    now: float
    streams: Sequence[StreamView]
    invalid: Mapping[str, str] = field(default_factory=dict)
    problems: Sequence[str] = ()

    @property
    def approvals(self) -> list[OpenApproval]:
        return [approval for stream in self.streams for approval in stream.approvals]

    @property
    def left_alone(self) -> list[tuple[str, ComponentView]]:
        return [one for stream in self.streams for one in stream.left_alone]

    @property
    def suspended(self) -> list[ComponentView]:
        return [
            component for stream in self.streams for component in stream.components if component.suspended
        ]

    def number(self, severity: str) -> int:
        return sum(component.severity == severity for s in self.streams for component in s.components)


def stream_view(
    spec: StreamSpec,
    lives: Mapping[str, Live],
    check: LastCheck,
    approvals: Sequence[OpenApproval],
    runs: Sequence[LoadRun],
    now: float,
) -> StreamView:
    """``lives``: component -> what is known; ``runs``: of loads that are not verified."""
    components = component_views(spec, lives, check, now)
    results = lives[CONSUMER].loads
    # A load that was not verified is a failed run too, and one that was may fail later.
    failed = {run.run for run in runs if run.state == "failed"}
    others = [run for run in runs if run.run not in {_run_id(result) for result in results}]
    return StreamView(
        name=spec.name,
        title=spec.label,
        severity=worst(components).severity,
        components=components,
        loads=sorted(
            [*(_result(spec, result, failed) for result in results), *map(_run, others)],
            key=lambda load: -load.at,
        ),
        approvals=approvals,
        check=check,
        is_supervised=check.is_current(spec.supervision, now),
    )


def _result(spec: StreamSpec, result: LoadResult, failed: Collection[str]) -> Load:
    dag = _load_dag(spec, result.run_id)
    if not result.is_verified:
        return Load(dag, result.run_id, "not verified", result.at, "; ".join(result.problems))
    summary = f"{count(result.records)} records and {count(result.published)} rows, each once"
    if result.quarantined:
        summary += f"; {count(result.quarantined)} in quarantine"
    state = "verified, run failed" if _run_id(result) in failed else "verified"
    return Load(dag, result.run_id, state, result.at, summary)


def _run_id(result: LoadResult) -> str:
    """Airflow's; a backfill's run has several loads."""
    return result.run_id.split("#")[0]


def _run(run: LoadRun) -> Load:
    return Load(run.dag, run.run, run.state, run.at)


def _load_dag(spec: StreamSpec, run: str) -> str:
    return f"{spec.name}_backfill" if "#" in run else f"{spec.name}_load"


def points_view(live: Live, now: float, seconds: float) -> dict[str, Any]:
    """Lag, and published records per second: ``line`` has shares of the time range and of the maximum."""
    points = [point for point in live.points if now - point.at <= seconds]
    lags = [(point.at, float(point.lag)) for point in points]
    rates = []
    for before, after in pairwise(points):
        published = sum(after.unread.get(p, 0) - before.unread.get(p, 0) for p in after.unread)
        rates.append((after.at, max(published, 0) / (after.at - before.at)))
    return {"lag": _series(lags, now, seconds), "rate": _series(rates, now, seconds)}


def _series(values: Sequence[tuple[float, float]], now: float, seconds: float) -> dict[str, Any]:
    top = max((value for _, value in values), default=0.0)
    return {
        "newest": values[-1][1] if values else None,
        "maximum": top if values else None,
        "line": [(1 - (now - at) / seconds, value / top if top else 0.0) for at, value in values],
    }
