"""One line per component, from what is known of it. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sluice.config.stream import CONSUMER, StreamSpec
from sluice.core.messages import UNKNOWN, age, summarize
from sluice.supervision.observer.component_view import OFF, ComponentView, LastCheck
from sluice.supervision.observer.live import Live
from sluice.supervision.rules.status import WELL


@dataclass(frozen=True)
class Cell:
    """`is_ok`: False needs attention, None is neither."""

    text: str
    is_ok: bool | None = True


@dataclass(frozen=True)
class StreamRow:
    """The line of a `component` of a `stream`."""

    stream: str
    component: str
    state: Cell
    """The process's, in capitals, as the runtime or supervisord says."""
    health: Cell
    """And how long it has lasted; if it was not observed lately, the age of the observation."""
    lag: Cell
    """The consumer's unread records; of others not applicable."""
    rate: Cell
    """Records per second that the consumer publishes; of other components unknown."""
    last_batch: Cell
    """Its age; of other components that of their heartbeat."""
    restarts: Cell
    """Number of the last 24 hours."""
    supervision: Cell
    """Age of Airflow's last check; `paused`, or `no DAG`."""
    last_event: Cell
    """The newer of the last restart and the last health event, with its age."""
    message: str
    """Why it is not supervised or not healthy, shown below the table; empty without a reason."""
    style: str
    """rich's color of the health cell."""

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
STYLES = {"ok": "green", "suspended": "cyan", "recovering": "yellow", "error": "red", "none": "dim"}
_NOT_APPLICABLE, _UNKNOWN = Cell(UNKNOWN, None), Cell("unknown", False)


def component_row(
    spec: StreamSpec, view: ComponentView, live: Live, check: LastCheck | None, state: str, now: float
) -> StreamRow:
    """`check`: None if Airflow did not answer. `state`: supervisord's, of a component that the observer did
    not observe lately. `now`: seconds since 1970."""
    process = live.sample.process if live.sample and view.is_current else None
    is_consumer, is_observed = view.name == CONSUMER, view.at is not None
    # By the observer it may be more than off: at the risk of a loss.
    is_off = view.health == OFF or (not is_observed and state == "STOPPED" and bool(check and check.paused))
    unsupervised = "" if is_off or check is None else _unsupervised(spec, view.name, check, now)
    last_batch = _ago(view.batch_at, now) if is_consumer else _heartbeat(live, now)
    return StreamRow(
        stream=spec.name,
        component=view.name,
        state=Cell(process.state.value.upper() if process else state, None),
        health=_health(view, now),
        lag=_lag(view) if is_consumer else _NOT_APPLICABLE,
        rate=Cell(UNKNOWN if view.rate is None else f"{view.rate:,.0f}", None),
        last_batch=Cell(last_batch, None) if is_observed else _NOT_APPLICABLE,
        restarts=Cell(str(view.restarts), None) if is_observed else _UNKNOWN,
        supervision=_UNKNOWN if check is None else _supervision(spec, check, now, is_off),
        last_event=Cell(last_event(live, now), None) if is_observed else _NOT_APPLICABLE,
        message=_message(view, unsupervised),
        style=_style(view, unsupervised),
    )


def _health(view: ComponentView, now: float) -> Cell:
    if view.at is None:
        return _UNKNOWN
    if view.health == OFF:
        return Cell(OFF, None)
    if not view.is_current:
        return Cell(f"{view.health}, observed {_ago(view.at, now)}", False)
    lasting = "" if view.since is None else f" for {_age(now, view.since)}"
    return Cell(f"{view.health}{lasting}", view.severity in ("ok", "suspended"))


def _lag(view: ComponentView) -> Cell:
    if view.lag is None:
        return Cell("unknown", None if view.health == OFF else False)
    return Cell(f"{view.lag:,}", None)


def _heartbeat(live: Live, now: float) -> str:
    heartbeat = live.sample.heartbeat if live.sample else None
    return f"heartbeat {_ago(heartbeat.at, now)}" if heartbeat else "no heartbeat"


def _supervision(spec: StreamSpec, check: LastCheck, now: float, is_off: bool) -> Cell:
    if check.paused is None:
        return Cell("no DAG", False)
    if check.paused:
        return Cell("paused", None if is_off else False)
    return Cell(_ago(check.at, now), check.is_current(spec.supervision, now))


def _unsupervised(spec: StreamSpec, component: str, check: LastCheck, now: float) -> str:
    """Why a component without a recent check has none, and the fix; "" of one that has."""
    if check.is_current(spec.supervision, now):
        return ""
    last = "never checked" if check.at is None else f"last check {_ago(check.at, now)}"
    if check.paused is None:
        why = f"Airflow has no DAG {check.dag} yet"
    elif check.paused:
        fix = f"Fix: unpause DAG {check.dag} (local/run airflow dags unpause {check.dag})"
        why = f"supervision is paused. {fix}"
    else:
        why = (
            f"supervision does not run. Fix: start what is unhealthy above, then see the runs of {check.dag}"
        )
    return f"{component}: {last}; {why}"


def _message(view: ComponentView, unsupervised: str) -> str:
    """Why a component is not supervised, why it is not healthy, and what the observer could not read."""
    is_said = view.health not in (OFF, *WELL)
    messages = [unsupervised, view.message if is_said else "", *view.problems]
    return summarize(list(filter(None, messages)))


def _style(view: ComponentView, unsupervised: str) -> str:
    if view.is_left_alone:
        return "magenta"
    style = STYLES[view.severity]
    return "yellow" if unsupervised and style in ("green", "cyan") else style


def last_event(live: Live, now: float) -> str:
    """`health down, 40 s ago`, `restart, 3 min ago`: whichever of them the history recorded last."""
    events = [(at, "restart") for at in live.restarts]
    if live.recorded is not None:
        at = datetime.fromisoformat(str(live.recorded["at"])).timestamp()
        events.append((at, f"health {live.recorded['health']}"))
    if not events:
        return "none"
    at, text = max(events)
    return f"{text}, {_ago(at, now)}"


def _ago(at: float | None, now: float) -> str:
    return "never" if at is None else f"{_age(now, at)} ago"


def _age(now: float, at: float) -> str:
    """The larger unit alone: lines have 120 columns."""
    return " ".join(age(now - at).split()[:2])
