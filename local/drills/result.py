"""What a drill found: its row, when it passes, and build/drills.json. Pure but for the file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from local.evidence import Exactness
from local.home import write_private
from local.paths import REPO

RESULT = REPO / "build" / "drills.json"


@dataclass(frozen=True)
class Moments:
    """When what happened, in seconds since 1970; None: it did not (yet).

    `noticed_by`: who saw it first, in words. `decided`: the first restart after the break. `recovered`: the
    first batch that was published after what was broken was noticed, and mended where it is the drill that
    mends it. `calm`: the platform said, or still says, that all is well.
    """

    broken: float | None = None
    noticed: float | None = None
    noticed_by: str = ""
    decided: float | None = None
    mended: float | None = None
    recovered: float | None = None
    calm: float | None = None


@dataclass(frozen=True)
class Findings:
    """What was counted at the end. `unsent`: records that Kafka never took. `exact`, and `payloads`, (lost,
    doubled): None when it was not come to that. `load`: the state of the load at the end."""

    exact: Exactness | None = None
    payloads: tuple[int, int] | None = None
    unsent: int = 0
    sent: int = 0
    load: str = ""


@dataclass(frozen=True)
class Row:
    """One drill's row in build/drills.json. Seconds are None for what did not happen.

    `seconds_to_recover`: from the break; `…_from_decision`: from the restart, None where none was needed.
    `lost`, `duplicated`: records, None when it was not come to counting them.
    """

    drill: str
    passed: bool
    why_not: str
    seconds_to_notice: float | None
    noticed_by: str
    seconds_to_recover: float | None
    seconds_to_recover_from_decision: float | None
    lost: int | None
    duplicated: int | None
    verdicts: list[str]
    restarts: int
    sent: int
    at: str
    interval_seconds: int
    at_once: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Story:
    """A drill from its beginning to its end; `failure` is what ended it early."""

    drill: str
    at: str
    interval_seconds: int
    at_once: bool
    moments: Moments = field(default_factory=Moments)
    findings: Findings = field(default_factory=Findings)
    verdicts: Sequence[str] = ()
    restarts: int = 0
    failure: str = ""


def seconds(begin: float | None, end: float | None) -> float | None:
    """From one moment to another, to a tenth; None where one of them did not come."""
    return None if begin is None or end is None else round(max(0.0, end - begin), 1)


def complaints(story: Story) -> list[str]:
    """Why the drill is not passed, each with its numbers; empty when it is."""
    found: list[str] = [story.failure] if story.failure else []
    moments, findings = story.moments, story.findings
    if moments.broken is None:
        return found or ["nothing was broken"]
    if moments.noticed is None:
        found.append("nobody noticed")
    elif moments.recovered is None:
        found.append("nothing was published afterwards")
    elif moments.calm is None:
        found.append(f"the verdict was not calm again: {', '.join(story.verdicts) or 'none'}")
    if findings.exact is None or findings.payloads is None:
        found.append("it was not come to the proof")
        return found
    if not findings.exact.is_exact:
        found.append(findings.exact.sentence())
    lost, doubled = findings.payloads
    if lost or doubled:
        found.append(f"of {findings.sent} records that Kafka took {lost} are lost, {doubled} are there again")
    if findings.unsent:
        found.append(f"{findings.unsent} records were never taken by Kafka")
    if not findings.sent:
        found.append("no record was sent meanwhile: nothing was shown")
    if findings.load != "success":
        found.append(f"the load afterwards was {findings.load or 'not made'}")
    return found


def row(story: Story) -> Row:
    """The story in figures."""
    moments, findings = story.moments, story.findings
    counted = findings.exact is not None and findings.payloads is not None
    lost, doubled = findings.payloads or (0, 0)
    exact = findings.exact or Exactness(0, 0, 0, 0)
    found = complaints(story)
    return Row(
        drill=story.drill,
        passed=not found,
        why_not="; ".join(found),
        seconds_to_notice=seconds(moments.broken, moments.noticed),
        noticed_by=moments.noticed_by,
        seconds_to_recover=seconds(moments.broken, moments.recovered),
        seconds_to_recover_from_decision=seconds(moments.decided, moments.recovered),
        # A lost record is a gap as well, and a doubled one may be a coordinate that is there twice.
        lost=max(lost, exact.gaps) if counted else None,
        duplicated=max(doubled, exact.duplicates) if counted else None,
        verdicts=list(story.verdicts),
        restarts=story.restarts,
        sent=findings.sent,
        at=story.at,
        interval_seconds=story.interval_seconds,
        at_once=story.at_once,
    )


def store(rows: Iterable[Row], order: Sequence[str], path: Path = RESULT) -> None:
    """Writes the rows into the file, in the place of earlier ones of the same drills; the others stay.

    `order`: the names of all drills; rows of drills that are no more go.
    """
    try:
        known = {found["drill"]: found for found in json.loads(path.read_text())}
    except FileNotFoundError:
        known = {}
    known |= {new.drill: new.to_json() for new in rows}
    write_private(path, json.dumps([known[name] for name in order if name in known], indent=2) + "\n")


def table(rows: Iterable[Row]) -> Table:
    """For the terminal."""
    shown = Table("drill", "passed", "noticed", "by", "recovered", "of decision", "lost", "twice", "verdicts")
    for one in rows:
        shown.add_row(
            one.drill,
            "yes" if one.passed else "NO",
            _text(one.seconds_to_notice, " s"),
            one.noticed_by,
            _text(one.seconds_to_recover, " s"),
            _text(one.seconds_to_recover_from_decision, " s"),
            _text(one.lost),
            _text(one.duplicated),
            ", ".join(one.verdicts) + (f"; restarts: {one.restarts}" if one.restarts else ""),
            style="green" if one.passed else "red",
        )
    return shown


def _text(value: float | None, unit: str = "") -> str:
    return "—" if value is None else f"{value:g}{unit}"
