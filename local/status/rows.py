"""One line per component, from its observation. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from local.runtime.supervisord import GOING
from local.status.observe import Observation, SupervisionStatus, Unavailable, rate
from sluice.clients.lake.commits import Commit
from sluice.config.stream import CONSUMER, Component, StreamSpec
from sluice.core.messages import summarize
from sluice.ledger.keys import event_details
from sluice.supervision.rules.sample import Sample
from sluice.supervision.rules.status import LEFT_ALONE, RESTARTABLE, WELL, no_action


@dataclass(frozen=True)
class Cell:
    """`is_ok`: False needs attention, None is neither."""

    text: str
    is_ok: bool | None = True


@dataclass(frozen=True)
class StreamRow:
    """The line of a component; `message` is shown below the table, `style` is of the health cell."""

    stream: str
    component: str
    state: Cell
    health: Cell
    lag: Cell
    rate: Cell
    last_batch: Cell
    restarts: Cell
    supervision: Cell
    last_event: Cell
    message: str
    style: str

    @property
    def name(self) -> str:
        return self.stream if self.component == CONSUMER else f"{self.stream} {self.component}"

    @property
    def cells(self) -> list[Cell]:
        return [
            *(self.state, self.health, self.lag, self.rate, self.last_batch, self.restarts),
            *(self.supervision, self.last_event),
        ]

    @property
    def is_ok(self) -> bool:
        return all(cell.is_ok is not False for cell in self.cells)

    def to_json(self) -> dict[str, Any]:
        return {"is_ok": self.is_ok} | asdict(self)


HEADERS = (
    *("stream", "state", "health", "lag", "rows/s", "last batch", "restarts 24 h", "supervised"),
    "last event",
)
_NOT_APPLICABLE = Cell("–", None)


def component_row(
    spec: StreamSpec, component: Component, state: str, seen: Observation, now: float
) -> StreamRow:
    """`state`: supervisord's, if the runtime does not answer. `now`: seconds since 1970."""
    sample = seen.sample
    process = sample.process if isinstance(sample, Sample) else None
    if process is not None:
        state = process.state.value.upper()
    wanted = not is_off(state, seen)
    unchecked = _unchecked(spec, component, seen.supervision, now) if wanted else None
    is_consumer = component.name == CONSUMER
    return StreamRow(
        stream=spec.name,
        component=component.name,
        # Supervision may be paused, or not have seen it yet.
        state=Cell(state, False if process and process.is_misconfigured else None),
        health=_cell(seen.health, lambda found: _health(found, component.name, now, unchecked))
        if wanted
        else Cell("off", None),
        lag=_cell(sample, _lag) if is_consumer else _NOT_APPLICABLE,
        rate=_cell(seen.batches, lambda found: Cell(f"{rate(found, now):,.0f}", None))
        if is_consumer
        else _NOT_APPLICABLE,
        last_batch=_cell(seen.batches, lambda found: _batch(found, now))
        if is_consumer
        else _cell(sample, lambda found: _heartbeat(found, now)),
        restarts=_cell(seen.history, lambda found: _restarts(found.restarts)),
        supervision=_cell(seen.supervision, lambda found: _supervision(spec, found, now, wanted)),
        last_event=_cell(seen.history, lambda found: Cell(format_event(found.newest, now), None)),
        message=_message(wanted, seen, unchecked),
        style=_style(seen.health, component.name, unchecked) if wanted else "dim",
    )


@dataclass(frozen=True)
class _Unchecked:
    """A wanted component without a recent check: what is recorded says nothing of now."""

    last_check: str
    message: str


def _unchecked(
    spec: StreamSpec, component: Component, found: SupervisionStatus | Unavailable, now: float
) -> _Unchecked | None:
    if isinstance(found, Unavailable) or not (found.paused or _is_missed(spec, found, now)):
        return None
    last = "never checked" if found.last_end is None else f"last check {format_age(now, found.last_end)}"
    dag = f"{spec.name}_stream"
    if found.paused:
        why = f"supervision is paused. Fix: unpause DAG {dag} (local/run airflow dags unpause {dag})"
    else:
        why = f"supervision does not run. Fix: start what is unhealthy above, then see the runs of DAG {dag}"
    return _Unchecked(last, f"{component.name}: {last}; {why}")


def _message(wanted: bool, seen: Observation, unchecked: _Unchecked | None) -> str:
    """Why a wanted component is not checked, the recorded message of one that is not healthy, and why
    something is unknown."""
    messages = [unchecked.message] if unchecked else []
    if wanted and isinstance(seen.health, dict) and seen.health["health"] not in WELL:
        messages.append(str(seen.health["message"]))
    if isinstance(seen.sample, Sample):
        process = seen.sample.process
        if process and process.is_misconfigured and process.description not in " ".join(messages):
            messages.append(process.message())
        messages += [f"{system}: {reason}" for system, reason in sorted(seen.sample.errors.items())]
    answers = (seen.sample, seen.health, seen.batches, seen.history, seen.supervision)
    messages += [str(answer) for answer in answers if isinstance(answer, Unavailable)]
    return summarize(list(dict.fromkeys(messages)))


def is_off(state: str, seen: Observation) -> bool:
    """Whether it is not wanted: its supervision is paused, and it is not alive."""
    paused = not isinstance(seen.supervision, Unavailable) and seen.supervision.paused
    return paused and state not in GOING


def _cell(answer: Any, make: Callable[[Any], Cell]) -> Cell:
    return Cell("unknown", False) if isinstance(answer, Unavailable) else make(answer)


def _health(found: dict[str, Any] | None, component: str, now: float, unchecked: _Unchecked | None) -> Cell:
    """Only changes are recorded: an old one holds as long as supervision checks."""
    if found is None:
        return Cell("unknown", False)
    if unchecked:
        return Cell(f"{found['health']}, {unchecked.last_check}", False)
    since = format_age(now, datetime.fromisoformat(str(found["at"])).timestamp())
    return Cell(f"{found['health']}, {since}", found["health"] in no_action(component))


def _batch(found: Sequence[Commit], now: float) -> Cell:
    return Cell(format_age(now, found[0].at if found else None), None)


def _heartbeat(found: Sample, now: float) -> Cell:
    if found.errors:
        return Cell("unknown", False)
    return Cell(
        f"heartbeat {format_age(now, found.heartbeat.at)}" if found.heartbeat else "no heartbeat", None
    )


def _lag(found: Sample) -> Cell:
    return Cell("unknown", False) if found.errors else Cell(f"{sum(found.unread().values()):,}", None)


def _style(found: dict[str, Any] | Unavailable | None, component: str, unchecked: _Unchecked | None) -> str:
    style = health_style(found, component)
    return "yellow" if unchecked and style in ("green", "cyan") else style


def health_style(found: dict[str, Any] | Unavailable | None, component: str) -> str:
    health = found["health"] if isinstance(found, dict) else None
    if health in WELL:
        return "green"
    if health in no_action(component):
        return "cyan"
    if health in RESTARTABLE:
        return "yellow"
    return "magenta" if health in LEFT_ALONE else "red"


def _restarts(requested: list[bool]) -> Cell:
    return Cell(
        f"{requested.count(False)} automatic, {requested.count(True)} requested" if requested else "0", None
    )


def _supervision(spec: StreamSpec, found: SupervisionStatus, now: float, wanted: bool) -> Cell:
    if found.paused:
        return Cell("paused", False if wanted else None)
    if found.last_end is None:
        return Cell("never", False)
    return Cell(format_age(now, found.last_end), not _is_missed(spec, found, now))


def _is_missed(spec: StreamSpec, found: SupervisionStatus, now: float) -> bool:
    return found.last_end is None or now - found.last_end > spec.supervision.missed_seconds


def format_event(event: dict[str, Any] | None, now: float) -> str:
    """`health down, 40 s ago`, `restart by schedule, 3 min ago`, `suspend by ada, 2 h ago`."""
    if event is None:
        return "none"
    kind = str(event["kind"])
    words = [kind]
    if kind == "health":
        words.append(str(event["health"]))
    words += event_details(event)
    return f"{' '.join(words)}, {format_age(now, datetime.fromisoformat(str(event['at'])).timestamp())}"


def format_age(now: float, at: float | None) -> str:
    """Seconds below two minutes, then minutes, hours, days."""
    if at is None:
        return "never"
    seconds = max(0.0, now - at)
    for limit, unit, size in ((120, "s", 1), (7200, "min", 60), (172_800, "h", 3600)):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds / 86400:.0f} days ago"
