"""What a check observed of a component: the diagnosis, the samples that it rests on, and their record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sluice.model.health.consumer import HealthReport, RestartHistory, new_restarts
from sluice.model.health.json_record import JsonRecord
from sluice.model.health.sample import Sample
from sluice.model.spec.ledger import RUNTIME

if TYPE_CHECKING:
    from sluice.clients.ledger import History


@dataclass(frozen=True)
class Observation(JsonRecord):
    """``samples``: oldest first; the last is the one that was judged."""

    report: HealthReport
    samples: Sequence[Sample]

    @classmethod
    def from_json(cls, data: dict[str, Any] | str) -> Observation:
        """``data`` may be text: so Airflow 3.3 keeps the XCom of a task that its trigger has ended."""
        return super().from_json(json.loads(data) if isinstance(data, str) else data)


def record(history: History, observation: Observation, facts: RestartHistory) -> str | None:
    """Record the verdict if it is another than the history's newest, and what the runtime restarted since the
    last check. Returns the newest verdict before, None before any."""
    report, process = observation.report, observation.samples[-1].process
    if process is not None:
        for at in new_restarts(process, facts):
            why = str(process.last_exit or "")
            document = {"who": RUNTIME, "reason": why, "requested": False, "identity": f"{RUNTIME} {at}"}
            history.record("restart", document, datetime.fromtimestamp(at, UTC))
    latest = history.latest("health")
    before = latest["health"] if latest else None
    if before != report.health.value:
        change = {
            "health": report.health.value,
            "message": report.message,
            "before": before,
            "details": report.details,
        }
        history.record("health", change, datetime.now(UTC))
    return before


def downsample(samples: Sequence[Sample], seconds: float, most: int) -> list[Sample]:
    """At most ``most`` of the samples, evenly over the ``seconds`` before the last one, which is kept.

    For the next run, which judges over the looks of earlier ones: it needs how far back they reach, not how
    close together they were. Thinned from the oldest on: what was kept once stays, however soon after each
    other the runs come. From the newest on, each would drop the one before it, and nothing would add up. What
    a clock that was put back makes later than the last one is left out.
    """
    apart = seconds / max(most - 2, 1)
    kept: list[Sample] = []
    for sample in samples[:-1]:
        is_recent = 0 <= samples[-1].at - sample.at <= seconds
        if is_recent and (not kept or sample.at - kept[-1].at >= apart):
            kept.append(sample)
    return [*kept, *samples[-1:]]
