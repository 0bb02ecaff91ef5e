"""The record of a drill, when it passes, and build/drills.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from local.base import REPO
from local.runtime.home import write_private
from local.stack.lake import Exactness

RESULT = REPO / "build" / "drills.json"


@dataclass
class DrillRecord:
    """One drill from its start to its end: what is known of it so far.

    Times are seconds since 1970, None for what did not happen (yet). `decided_at`: the first restart after
    the injection. `recovered_at`: the first batch published after the detection, and after the repair if the
    drill itself repairs. `healthy_at`: supervision said, or still says, that all is well. `unsent`: records
    that Kafka never took. `offsets`, and `records` (lost, duplicated): None if the drill ended before they
    were counted. `load`: the state of the load at the end. `failure`: what ended the drill early.
    """

    drill: str
    at: str
    interval_seconds: int
    trigger_immediately: bool
    injected_at: float | None = None
    detected_at: float | None = None
    detected_by: str = ""
    decided_at: float | None = None
    repaired_at: float | None = None
    recovered_at: float | None = None
    healthy_at: float | None = None
    offsets: Exactness | None = None
    records: tuple[int, int] | None = None
    unsent: int = 0
    sent: int = 0
    load: str = ""
    verdicts: Sequence[str] = ()
    restarts: int = 0
    failure: str = ""

    @property
    def passed(self) -> bool:
        return not self.failures

    @property
    def failures(self) -> str:
        """Why the drill did not pass, each reason with its numbers; empty if it did."""
        return "; ".join(self._failures())

    def _failures(self) -> list[str]:
        found: list[str] = [self.failure] if self.failure else []
        if self.injected_at is None:
            return found or ["nothing was broken"]
        if self.detected_at is None:
            found.append("nobody noticed")
        elif self.recovered_at is None:
            found.append("nothing was published afterwards")
        elif self.healthy_at is None:
            found.append(f"the verdict was not calm again: {', '.join(self.verdicts) or 'none'}")
        if self.offsets is None or self.records is None:
            return [*found, "it was not come to the proof"]
        if not self.offsets.is_ok:
            found.append(self.offsets.message())
        lost, doubled = self.records
        if lost or doubled:
            found.append(f"of {self.sent} records that Kafka took {lost} are lost, {doubled} are there again")
        if self.unsent:
            found.append(f"{self.unsent} records were never taken by Kafka")
        if not self.sent:
            found.append("no record was sent meanwhile: nothing was shown")
        if self.load != "success":
            found.append(f"the load afterwards was {self.load or 'not made'}")
        return found

    def to_json(self) -> dict[str, Any]:
        """The drill's row in build/drills.json.

        `seconds_to_recover`: from the injection; `…_from_decision`: from the restart, None without one.
        `lost`, `duplicated`: records, None if they were not counted.
        """
        lost = duplicated = None
        if self.offsets is not None and self.records is not None:
            # A lost record is a gap as well, and a doubled one may be a coordinate that is there twice.
            lost = max(self.records[0], self.offsets.gaps)
            duplicated = max(self.records[1], self.offsets.duplicates)
        return {
            "drill": self.drill,
            "passed": self.passed,
            "failure": self.failures,
            "seconds_to_detect": seconds(self.injected_at, self.detected_at),
            "detected_by": self.detected_by,
            "seconds_to_recover": seconds(self.injected_at, self.recovered_at),
            "seconds_to_recover_from_decision": seconds(self.decided_at, self.recovered_at),
            "lost": lost,
            "duplicated": duplicated,
            "verdicts": list(self.verdicts),
            "restarts": self.restarts,
            "sent": self.sent,
            "at": self.at,
            "interval_seconds": self.interval_seconds,
            "trigger_immediately": self.trigger_immediately,
        }


def seconds(begin: float | None, end: float | None) -> float | None:
    """From one moment to another, to a tenth; None if one of them did not come."""
    return None if begin is None or end is None else round(max(0.0, end - begin), 1)


def store(records: Iterable[DrillRecord], order: Sequence[str], path: Path = RESULT) -> None:
    """Write the records' rows into the file, in place of earlier ones of the same drills; the others stay.

    `order`: the names of all drills; rows of drills that no longer exist go.
    """
    try:
        known = {found["drill"]: found for found in json.loads(path.read_text())}
    except FileNotFoundError:
        known = {}
    known |= {record.drill: record.to_json() for record in records}
    write_private(path, json.dumps([known[name] for name in order if name in known], indent=2) + "\n")


def table(records: Iterable[DrillRecord]) -> Table:
    """For the terminal."""
    shown = Table("drill", "passed", "noticed", "by", "recovered", "of decision", "lost", "twice", "verdicts")
    for record in records:
        row = record.to_json()
        shown.add_row(
            record.drill,
            "yes" if record.passed else "NO",
            _text(row["seconds_to_detect"], " s"),
            record.detected_by,
            _text(row["seconds_to_recover"], " s"),
            _text(row["seconds_to_recover_from_decision"], " s"),
            _text(row["lost"]),
            _text(row["duplicated"]),
            ", ".join(record.verdicts) + (f"; restarts: {record.restarts}" if record.restarts else ""),
            style="green" if record.passed else "red",
        )
    return shown


def _text(value: float | None, unit: str = "") -> str:
    return "—" if value is None else f"{value:g}{unit}"
