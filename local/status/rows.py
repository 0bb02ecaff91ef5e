"""One line per stream, and per other part of it, out of what was seen of it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from local.status.asking import Unseen
from local.status.parts import SeenPart
from local.status.streams import Seen, Supervised, rate
from sluice.model.health import ASKING, CALM, RESTARTABLE, WELL, Diagnosis, Verdict
from sluice.model.stream import Part, StreamSpec
from sluice.model.tending import QUIET


@dataclass(frozen=True)
class Cell:
    """A text and how it is meant: fine True, False for what somebody must look at, None for neither."""

    text: str
    fine: bool | None = True


@dataclass(frozen=True)
class StreamRow:
    """The line of a stream's consumer, or of another `part`, in the order of the columns; `sentence` is said
    below for what is not calm."""

    stream: str
    part: str
    state: Cell
    verdict: Cell
    lag: Cell
    rate: Cell
    last_batch: Cell
    restarts: Cell
    supervised: Cell
    last_event: Cell
    sentence: str
    colour: str

    @property
    def name(self) -> str:
        return self.stream if self.part == CONSUMER else f"{self.stream} {self.part}"

    @property
    def cells(self) -> list[Cell]:
        return [
            *(self.state, self.verdict, self.lag, self.rate, self.last_batch, self.restarts),
            *(self.supervised, self.last_event),
        ]

    @property
    def fine(self) -> bool:
        return all(cell.fine is not False for cell in self.cells)

    def to_json(self) -> dict[str, Any]:
        return {"fine": self.fine} | asdict(self)


HEADERS = (
    *("stream", "state", "verdict", "lag", "rows/s", "last batch", "restarts 24 h", "supervised"),
    "last event",
)
CONSUMER = "consumer"
_NOTHING = Cell("–", None)


def stream_row(spec: StreamSpec, state: str, seen: Seen, now: float) -> StreamRow:
    """`state`: supervisord's. `now`: seconds since 1970."""
    found = seen.diagnosis
    wanted = not is_off(state, seen)
    return StreamRow(
        stream=spec.name,
        part=CONSUMER,
        state=Cell(state, None),
        verdict=_cell(found, lambda found: _verdict(found, CALM)) if wanted else Cell("off", None),
        lag=_cell(found, _lag),
        rate=_cell(seen.batches, lambda batches: Cell(f"{rate(batches, now):,.0f}", None)),
        last_batch=_cell(
            seen.batches, lambda batches: Cell(ago(now, batches[0].at if batches else None), None)
        ),
        restarts=_cell(seen.past, lambda past: _restarts(past.restarts)),
        supervised=_cell(seen.supervised, lambda supervised: _supervised(spec, supervised, now)),
        last_event=_cell(seen.past, lambda past: Cell(in_words(past.newest, now), None)),
        sentence=_sentence(wanted, found, seen.batches, seen.past, seen.supervised),
        colour=colour(found) if wanted else "dim",
    )


def part_row(spec: StreamSpec, part: Part, state: str, seen: SeenPart, now: float) -> StreamRow:
    """As `stream_row`; in the place of the last batch stands the last heartbeat."""
    found = seen.diagnosis
    wanted = not is_off(state, seen)
    return StreamRow(
        stream=spec.name,
        part=part.name,
        state=Cell(state, None),
        verdict=_cell(found, lambda found: _verdict(found, QUIET)) if wanted else Cell("off", None),
        lag=_NOTHING,
        rate=_NOTHING,
        last_batch=_cell(found, lambda found: _beat(found, now)),
        restarts=_cell(seen.past, lambda past: _restarts(past.restarts)),
        supervised=_cell(seen.supervised, lambda supervised: _supervised(spec, supervised, now)),
        last_event=_cell(seen.past, lambda past: Cell(in_words(past.newest, now), None)),
        sentence=_sentence(wanted, found, seen.past, seen.supervised),
        colour=_part_colour(found) if wanted else "dim",
    )


def _part_colour(found: Diagnosis | Unseen) -> str:
    replaced = isinstance(found, Diagnosis) and found.verdict is Verdict.SUPERSEDED
    return "cyan" if replaced else colour(found)


def _sentence(wanted: bool, found: Diagnosis | Unseen, *others: object) -> str:
    """What the diagnosis says of one that is wanted and not well, and why something was not seen."""
    said = [found.sentence] if wanted and isinstance(found, Diagnosis) and found.verdict not in WELL else []
    unseen = [str(part) for part in (found, *others) if isinstance(part, Unseen)]
    return "; ".join(dict.fromkeys([*said, *unseen]))


def is_off(state: str, seen: Seen | SeenPart) -> bool:
    """Whether nobody wants it to run: its supervision is paused, and so it is not alive."""
    paused = not isinstance(seen.supervised, Unseen) and seen.supervised.paused
    return paused and state not in ("RUNNING", "STARTING")


def _cell(part: Any, make: Callable[[Any], Cell]) -> Cell:
    return Cell("not seen", False) if isinstance(part, Unseen) else make(part)


def _verdict(found: Diagnosis, fine: frozenset[Verdict]) -> Cell:
    return Cell(found.verdict.value, found.verdict in fine)


def _beat(found: Diagnosis, now: float) -> Cell:
    beat = found.evidence.get("beat")
    return Cell(f"beat {ago(now, beat['at'])}" if beat else "no beat", None)


def _lag(found: Diagnosis) -> Cell:
    return Cell("unknown" if found.lag is None else f"{found.lag:,}", None)


def colour(found: Diagnosis | Unseen) -> str:
    """By the verdict's set: well, held, what a restart mends, what a person decides or must know."""
    if isinstance(found, Unseen):
        return "red"
    if found.verdict in WELL:
        return "green"
    if found.verdict is Verdict.HELD:
        return "cyan"
    if found.verdict in RESTARTABLE:
        return "yellow"
    return "magenta" if found.verdict in ASKING else "red"


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
    """`verdict dead, 40 s ago`, `restart by schedule, 3 min ago`, `answer Restart it by ada, 2 h ago`."""
    if event is None:
        return "none"
    kind = str(event["kind"])
    words = [kind]
    if kind == "verdict":
        words.append(str(event["verdict"]))
    if kind == "answer":
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
