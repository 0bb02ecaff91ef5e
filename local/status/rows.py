"""One line per component, out of what is known of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from local.status.observe import Seen, Supervised, Unavailable, rate
from sluice.clients.lake.catalog import Commit
from sluice.model.health.sample import Sample
from sluice.model.health.status import NEEDS_DECISION, RESTARTABLE, WELL, no_action
from sluice.model.spec.stream import CONSUMER, Component, StreamSpec


@dataclass(frozen=True)
class Cell:
    """A text and how it is meant: fine True, False for what somebody must look at, None for neither."""

    text: str
    fine: bool | None = True


@dataclass(frozen=True)
class StreamRow:
    """The line of a component, in the order of the columns; `message` is shown below the table."""

    stream: str
    component: str
    state: Cell
    health: Cell
    lag: Cell
    rate: Cell
    last_batch: Cell
    restarts: Cell
    supervised: Cell
    last_event: Cell
    message: str
    colour: str

    @property
    def name(self) -> str:
        return self.stream if self.component == CONSUMER else f"{self.stream} {self.component}"

    @property
    def cells(self) -> list[Cell]:
        return [
            *(self.state, self.health, self.lag, self.rate, self.last_batch, self.restarts),
            *(self.supervised, self.last_event),
        ]

    @property
    def fine(self) -> bool:
        return all(cell.fine is not False for cell in self.cells)

    def to_json(self) -> dict[str, Any]:
        return {"fine": self.fine} | asdict(self)


HEADERS = (
    *("stream", "state", "health", "lag", "rows/s", "last batch", "restarts 24 h", "supervised"),
    "last event",
)
_NOTHING = Cell("–", None)


def component_row(spec: StreamSpec, component: Component, state: str, seen: Seen, now: float) -> StreamRow:
    """`state`: supervisord's, shown if the runtime does not answer. `now`: seconds since 1970."""
    sample = seen.sample
    if isinstance(sample, Sample) and sample.process is not None:
        state = sample.process.state.value.upper()
    wanted = not is_off(state, seen)
    is_consumer = component.name == CONSUMER
    return StreamRow(
        stream=spec.name,
        component=component.name,
        state=Cell(state, None),
        health=_cell(seen.health, lambda found: _health(found, component.name, now))
        if wanted
        else Cell("off", None),
        lag=_cell(sample, _lag) if is_consumer else _NOTHING,
        rate=_cell(seen.batches, lambda found: Cell(f"{rate(found, now):,.0f}", None))
        if is_consumer
        else _NOTHING,
        last_batch=_cell(seen.batches, lambda found: _batch(found, now))
        if is_consumer
        else _cell(sample, lambda found: _beat(found, now)),
        restarts=_cell(seen.past, lambda past: _restarts(past.restarts)),
        supervised=_cell(seen.supervised, lambda supervised: _supervised(spec, supervised, now)),
        last_event=_cell(seen.past, lambda past: Cell(in_words(past.newest, now), None)),
        message=_message(wanted, seen),
        colour=colour(seen.health, component.name) if wanted else "dim",
    )


def _message(wanted: bool, seen: Seen) -> str:
    """The recorded message of a component that is wanted and not healthy, and why something is unknown."""
    said = []
    if wanted and isinstance(seen.health, dict) and seen.health["health"] not in WELL:
        said.append(str(seen.health["message"]))
    if isinstance(seen.sample, Sample):
        said += [f"{system}: {reason}" for system, reason in sorted(seen.sample.errors.items())]
    every = (seen.sample, seen.health, seen.batches, seen.past, seen.supervised)
    return "; ".join(
        dict.fromkeys([*said, *(str(component) for component in every if isinstance(component, Unavailable))])
    )


def is_off(state: str, seen: Seen) -> bool:
    """Whether nobody wants it to run: its supervision is paused, and so it is not alive."""
    paused = not isinstance(seen.supervised, Unavailable) and seen.supervised.paused
    return paused and state not in ("RUNNING", "STARTING")


def _cell(component: Any, make: Callable[[Any], Cell]) -> Cell:
    return Cell("unknown", False) if isinstance(component, Unavailable) else make(component)


def _health(found: dict[str, Any] | None, component: str, now: float) -> Cell:
    if found is None:
        return Cell("unknown", False)
    since = ago(now, datetime.fromisoformat(str(found["at"])).timestamp())
    return Cell(f"{found['health']}, {since}", found["health"] in no_action(component))


def _batch(found: Sequence[Commit], now: float) -> Cell:
    return Cell(ago(now, found[0].at if found else None), None)


def _beat(found: Sample, now: float) -> Cell:
    if found.errors:
        return Cell("unknown", False)
    return Cell(f"beat {ago(now, found.heartbeat.at)}" if found.heartbeat else "no beat", None)


def _lag(found: Sample) -> Cell:
    return Cell("unknown", False) if found.errors else Cell(f"{sum(found.unread().values()):,}", None)


def colour(found: dict[str, Any] | Unavailable | None, component: str) -> str:
    """By the set of the recorded verdict: healthy, suspended, restarted, decided by a person, or alerting."""
    health = found["health"] if isinstance(found, dict) else None
    if health in WELL:
        return "green"
    if health in no_action(component):
        return "cyan"
    if health in RESTARTABLE:
        return "yellow"
    return "magenta" if health in NEEDS_DECISION else "red"


def _restarts(asked: list[bool]) -> Cell:
    return Cell(f"{asked.count(False)} own, {asked.count(True)} asked" if asked else "0", None)


def _supervised(spec: StreamSpec, found: Supervised, now: float) -> Cell:
    if found.paused:
        return Cell("paused", None)
    if found.last_end is None:
        return Cell("never", False)
    age = now - found.last_end
    return Cell(ago(now, found.last_end), age <= spec.supervision.missed_seconds)


def in_words(event: dict[str, Any] | None, now: float) -> str:
    """`verdict down, 40 s ago`, `restart by schedule, 3 min ago`, `answer Restart it by ada, 2 h ago`."""
    if event is None:
        return "none"
    kind = str(event["kind"])
    words = [kind]
    if kind == "health":
        words.append(str(event["health"]))
    if kind == "decision":
        words.append(str(event["choice"]))
    if kind == "recovered":
        words.append(f"in {event['seconds']:.0f} s")
    if event.get("who"):
        words.append(f"by {event['who']}")
    return f"{' '.join(words)}, {ago(now, datetime.fromisoformat(str(event['at'])).timestamp())}"


def ago(now: float, at: float | None) -> str:
    """Seconds below two minutes, then minutes, hours, days."""
    if at is None:
        return "never"
    seconds = max(0.0, now - at)
    for limit, unit, size in ((120, "s", 1), (7200, "min", 60), (172_800, "h", 3600)):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds / 86400:.0f} days ago"
