"""The record of a drill, its checks, and build/drills.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from local.base import REPO
from local.stack.lake import OffsetComparison
from sluice.config.reading.files import write_private

RESULT = REPO / "build" / "drills.json"


@dataclass
class DrillRecord:
    """One drill, filled in while it runs. Times are seconds since 1970, None for what did not happen (yet).

    - `decided_at`: the first restart after the injection.
    - `recovered_at`: the first batch published after the detection, and after the drill's own repair.
    - `healthy_at`: the newest health status needs no action.
    - `offsets`, `records` (lost, duplicated): None if the drill ended before they were counted.
    - `sent`, `unsent`: records of the background load that Kafka took, and those that it never took.
    - `load`: the state of the load at the end.
    - `failure`: what ended the drill early.
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
    offsets: OffsetComparison | None = None
    records: tuple[int, int] | None = None
    unsent: int = 0
    sent: int = 0
    load: str = ""
    health_statuses: Sequence[str] = ()
    restarts: int = 0
    failure: str = ""

    @property
    def passed(self) -> bool:
        return not self.failures

    @property
    def failures(self) -> str:
        """The failed checks with their numbers; empty if the drill passed."""
        return "; ".join(self._failures())

    def _failures(self) -> list[str]:
        found: list[str] = [self.failure] if self.failure else []
        if self.injected_at is None:
            return found or ["no fault was injected"]
        if self.detected_at is None:
            found.append("not detected")
        elif self.recovered_at is None:
            found.append("no batch was published afterwards")
        elif self.healthy_at is None:
            found.append(f"not healthy again: {', '.join(self.health_statuses) or 'no health status'}")
        if self.offsets is None or self.records is None:
            return [*found, "the verification was not reached"]
        if not self.offsets.is_ok:
            found.append(self.offsets.message())
        lost, duplicated = self.records
        if lost or duplicated:
            found.append(f"of {self.sent} records that Kafka took {lost} are lost, {duplicated} duplicated")
        if self.unsent:
            found.append(f"Kafka never took {self.unsent} records")
        if not self.sent:
            found.append("no record was sent during the drill")
        if self.load != "success":
            found.append(f"the load afterwards was {self.load or 'not started'}")
        return found

    def to_json(self) -> dict[str, Any]:
        """The drill's row in build/drills.json.

        `seconds_to_recover`: from the injection; `…_from_decision`: from the restart, None without one.
        `lost`, `duplicated`: records, None if they were not counted.
        """
        lost = duplicated = None
        if self.offsets is not None and self.records is not None:
            # A lost record is a gap as well, and a duplicate may be a duplicated offset.
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
            "health_statuses": list(self.health_statuses),
            "restarts": self.restarts,
            "sent": self.sent,
            "at": self.at,
            "interval_seconds": self.interval_seconds,
            "trigger_immediately": self.trigger_immediately,
        }


def seconds(begin: float | None, end: float | None) -> float | None:
    """Seconds between two moments, to a tenth; None if one did not come."""
    return None if begin is None or end is None else round(max(0.0, end - begin), 1)


def store(record: DrillRecord, order: Iterable[str], path: Path = RESULT) -> None:
    """Replace the drill's row in the file; `order`: all drills, other rows are removed."""
    try:
        known = {found["drill"]: found for found in json.loads(path.read_text())}
    except FileNotFoundError:
        known = {}
    known[record.drill] = record.to_json()
    write_private(path, json.dumps([known[name] for name in order if name in known], indent=2) + "\n")


def table(records: Iterable[DrillRecord]) -> Table:
    shown = Table(
        *("drill", "passed", "detected", "by", "recovered", "from decision", "lost", "duplicated", "health")
    )
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
            ", ".join(record.health_statuses) + (f"; restarts: {record.restarts}" if record.restarts else ""),
            style="green" if record.passed else "red",
        )
    return shown


def _text(value: float | None, unit: str = "") -> str:
    return "—" if value is None else f"{value:g}{unit}"
