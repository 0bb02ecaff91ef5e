"""What the pages of streams show, from what is known of each component. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from sluice.config.stream import CONSUMER, StreamSpec
from sluice.core.processes.status import ProcessState
from sluice.supervision.observer.live import Live, LoadResult, seconds_behind
from sluice.supervision.rules.guide import GUIDES, Guide
from sluice.supervision.rules.status import Health, is_left_alone
from sluice.web.data.airflow_db import LastCheck, LoadRun, OpenApproval
from sluice.web.formats import UNKNOWN, age, count
from sluice.web.streams.health import severity

# The worst first.
SEVERITIES = ("error", "recovering", "suspended", "none", "ok")
# An observation older than this is not current: three cycles.
CURRENT_SECONDS = 30.0
OFF = "off"
# Wrong also of a stream that is not used now.
LOSSES = frozenset({Health.DATA_AT_RISK, Health.DATA_LOST, Health.TOPIC_RECREATED})


@dataclass(frozen=True)
class Load:
    """A run of a load. ``state``: verified, verified with a run that failed later, not verified, or Airflow's
    word for a run without a result; ``summary``: its proof or its problems in a line."""

    dag: str
    run: str
    state: str
    at: float
    summary: str = ""


@dataclass(frozen=True)
class ComponentView:
    """One line. ``severity``: of SEVERITIES; ``is_current``: False if it was not observed lately."""

    name: str
    health: str
    severity: str
    message: str
    since: float | None
    guide: Guide
    at: float | None
    is_current: bool
    process: str
    restarts: int
    suspended: str
    problems: Sequence[str]
    # Supervision leaves it to a person.
    is_left_alone: bool = False
    # Known for the consumer alone.
    lag: int | None = None
    behind: str = UNKNOWN
    until_loss: str = UNKNOWN
    rate: float | None = None
    batch_at: float | None = None
    batch_rows: int | None = None
    batch_seconds: float | None = None


@dataclass(frozen=True)
class StreamView:
    """``severity``: the worst of its components'. ``check``: supervision's; ``is_supervised``: False if that
    is paused or late."""

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
    components = [
        component_view(spec, name, lives[name], now, is_paused=check.paused is True)
        for name in spec.components
    ]
    results = lives[CONSUMER].loads
    # A load that was not verified is a failed run too, and one that was may fail later.
    failed = {run.run for run in runs if run.state == "failed"}
    others = [run for run in runs if run.run not in {_run_id(result) for result in results}]
    is_recent = check.at is not None and now - check.at <= spec.supervision.missed_seconds
    return StreamView(
        name=spec.name,
        title=spec.label,
        severity=min((c.severity for c in components), key=SEVERITIES.index),
        components=components,
        loads=sorted(
            [*(_result(spec, result, failed) for result in results), *map(_run, others)],
            key=lambda load: -load.at,
        ),
        approvals=approvals,
        check=check,
        is_supervised=check.paused is False and is_recent,
    )


def component_view(spec: StreamSpec, name: str, live: Live, now: float, is_paused: bool) -> ComponentView:
    """``is_paused``: supervision is, so a component without a living process is off, and nothing is wrong."""
    report, sample, recorded = live.report, live.sample, live.recorded
    health, message, since = "not observed yet", "", live.since
    if report is not None:
        health, message = report.health.value, report.message
    elif recorded is not None:
        health, message = str(recorded["health"]), f"as of its last check: {recorded.get('message', '')}"
    process = sample.process if sample else None
    is_lost = report is not None and report.health in LOSSES
    if is_paused and process is not None and process.state is ProcessState.STOPPED and not is_lost:
        health, message, since = OFF, f"{process.message()}, and its supervision is paused", None
    is_known = health in list(Health)
    is_left = is_known and is_left_alone(Health(health), process)
    is_stale = live.at is not None and now - live.at > CURRENT_SECONDS
    batch = live.batches[0] if live.batches else None
    is_consumer = name == CONSUMER
    behind = seconds_behind(live.points) if is_consumer and live.lag is not None else None
    return ComponentView(
        name=name,
        health=health,
        severity="error" if is_left else _severity(health, name, is_known, is_stale),
        message=message,
        since=since,
        guide=GUIDES[Health(health)].for_stream(spec.name) if is_known else Guide(""),
        at=live.at,
        is_current=live.at is not None and not is_stale,
        process=process.message() if process else UNKNOWN,
        restarts=len(live.restarts),
        suspended=live.suspended or "",
        problems=[f"{what}: {why}" for what, why in live.errors.items()],
        is_left_alone=is_left,
        lag=live.lag,
        behind=_behind(behind) if behind else UNKNOWN,
        until_loss=_until_loss(spec, live) if is_consumer else UNKNOWN,
        rate=report.rate if report else None,
        batch_at=batch.published_at / 1000 if batch else None,
        batch_rows=batch.rows if batch else None,
        batch_seconds=batch.seconds if batch else None,
    )


def _severity(health: str, component: str, is_known: bool, is_stale: bool) -> str:
    """A component that is not observed any more needs a person, whatever it was."""
    if is_stale and health != OFF:
        return "error"
    return severity(health, component) if is_known else "none"


def _behind(behind: tuple[float, bool]) -> str:
    seconds, is_exact = behind
    if not is_exact:
        return f"over {age(seconds)}"
    return "none" if not seconds else age(seconds)


def _until_loss(spec: StreamSpec, live: Live) -> str:
    """Time until retention deletes the first unread record, as far as it was observed."""
    sample = live.sample
    if sample is None or live.lag is None:
        return UNKNOWN
    if not live.lag:
        return "nothing unread"
    if sample.expires_in is not None:
        return age(sample.expires_in)
    if sample.expiring is None:
        return "no retention time"
    return f"over {age(spec.supervision.retention_margin_seconds)}"


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
