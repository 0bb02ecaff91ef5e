"""What pages and `make status` show of a component, from what the observer knows of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sluice.config.sections.supervision import Supervision
from sluice.config.stream import CONSUMER, StreamSpec
from sluice.core.messages import UNKNOWN, age
from sluice.core.processes.status import ProcessState
from sluice.supervision.observer.live import Live
from sluice.supervision.rules.guide import GUIDES, Guide
from sluice.supervision.rules.status import RESTARTABLE, Health, is_left_alone, no_action

# The worst first.
SEVERITIES = ("error", "recovering", "suspended", "none", "ok")
# An observation older than this is not current: three cycles.
CURRENT_SECONDS = 30.0
OFF = "off"
# Wrong also of a stream that is not used now.
LOSSES = frozenset({Health.DATA_AT_RISK, Health.DATA_LOST, Health.TOPIC_RECREATED})


@dataclass(frozen=True)
class LastCheck:
    """The newest finished run of the DAG that supervises a stream.

    ``paused``: None if Airflow has no such DAG. ``at``: when the run ended (seconds since 1970), ``passed``:
    whether it succeeded; both None if none was lately.
    """

    dag: str
    paused: bool | None = None
    at: float | None = None
    passed: bool | None = None

    def is_current(self, policy: Supervision, now: float) -> bool:
        """Whether it supervises: neither paused nor late."""
        return self.paused is False and self.at is not None and now - self.at <= policy.missed_seconds


@dataclass(frozen=True)
class ComponentView:
    """One line on a component, as pages and `make status` show it."""

    name: str
    """One of COMPONENTS."""
    health: str
    """A Health, OFF, or that it was not observed yet."""
    severity: str
    """One of SEVERITIES."""
    message: str
    """Why it has this health; may be empty."""
    since: float | None
    """Start of the health, in seconds since 1970; None if unknown, or off."""
    guide: Guide
    """What the health means, and the way out; empty if it is no Health."""
    at: float | None
    """When it was observed last, in seconds since 1970; None: never."""
    is_current: bool
    """False if it was not observed lately."""
    process: str
    """Its state, as a sentence."""
    restarts: int
    """Number of the last 24 hours."""
    suspended: str
    """By whom, since when, why; empty if it is not."""
    problems: Sequence[str]
    """Systems that could not be read, each with the reason."""
    # Supervision leaves it to a person.
    is_left_alone: bool = False
    # Known for the consumer alone.
    lag: int | None = None
    """Number of unread records."""
    behind: str = UNKNOWN
    """Age of the oldest unread record, as text."""
    until_loss: str = UNKNOWN
    """Time until retention deletes the first unread record, as text."""
    rate: float | None = None
    """Published records per second."""
    batch_at: float | None = None
    """When the newest batch was published, in seconds since 1970."""
    batch_rows: int | None = None
    """Number of rows that it added to the table."""
    batch_seconds: float | None = None
    """From its start to its publication."""


def worst(views: Sequence[ComponentView]) -> ComponentView:
    """The one with the worst severity, the first if several have it."""
    return min(views, key=lambda view: SEVERITIES.index(view.severity))


def component_views(
    spec: StreamSpec, lives: Mapping[str, Live], check: LastCheck, now: float
) -> list[ComponentView]:
    """A line for each declared component, from what is known; ``check``: of the stream's supervision."""
    is_paused = check.paused is True
    return [component_view(spec, name, lives.get(name, Live()), now, is_paused) for name in spec.components]


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
    # What was never observed is not stale, unless the observer cannot.
    is_stale = bool(live.errors) if live.at is None else now - live.at > CURRENT_SECONDS
    batch = live.batches[0] if live.batches else None
    is_consumer = name == CONSUMER
    behind = live.behind if is_consumer else None
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


def severity(health: str, component: str = CONSUMER) -> str:
    """``ok``, ``suspended``, ``recovering`` (supervision restarts it) or ``error``, also for an unknown word.

    Fenced is ``ok``, because another instance works, except for the consumer.
    """
    if health == Health.SUSPENDED:
        return "suspended"
    if health in no_action(component):
        return "ok"
    return "recovering" if health in RESTARTABLE else "error"
