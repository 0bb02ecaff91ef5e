"""What a check observed of a component, and its record in the history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sluice.core.json_record import JsonRecord
from sluice.core.processes.restarts import RestartHistory, new_restarts
from sluice.ledger.keys import RUNTIME
from sluice.supervision.rules.sample import Sample
from sluice.supervision.rules.status import Health, HealthReport, no_action

if TYPE_CHECKING:
    from sluice.ledger.history import History

# It runs and does its work, though not well.
WORKING = frozenset(
    {Health.LAGGING, Health.REJECTING, Health.SOURCE_UNAVAILABLE, Health.WAITING_FOR_TRANSACTION}
)


@dataclass(frozen=True)
class Observation(JsonRecord):
    """A health report and the ``samples`` that an action needs, oldest first; the report is of the last."""

    report: HealthReport
    samples: Sequence[Sample]

    @classmethod
    def of(cls, report: HealthReport, samples: Sequence[Sample]) -> Observation:
        """With the newest sample. If the lake did not answer then, also the newest with published offsets."""
        published = next((sample for sample in reversed(samples) if sample.published), samples[-1])
        return cls(report, [samples[-1]] if published is samples[-1] else [published, samples[-1]])

    @property
    def before(self) -> Sample:
        """The newest sample with published offsets, before an action; else the newest."""
        return self.samples[0]

    def summary(self) -> dict[str, Any]:
        """For the task's return value."""
        return {"health": self.report.health.value, "message": self.report.message}


def record(
    history: History, observation: Observation, restarts: RestartHistory, component: str
) -> str | None:
    """Record the health of ``component`` if it changed, and the runtime's restarts since the last check.

    Returns the previous health, None before the first. ``left_since``, since when the component is left
    to a person, stays in later events until it works or is stopped; a person's action ends it too.
    """
    report, process = observation.report, observation.samples[-1].process
    if process is not None:
        for at in new_restarts(process, restarts):
            reason = str(process.last_exit or "")
            document = {"who": RUNTIME, "reason": reason, "requested": False, "identity": f"{RUNTIME} {at}"}
            history.record("restart", document, datetime.fromtimestamp(at, UTC))
    if _is_recorded(report.health, restarts):
        return report.health.value
    # Another run may have recorded meanwhile.
    restarts = replace(restarts, recorded=history.latest("health"))
    before = restarts.recorded["health"] if restarts.recorded else None
    if not _is_recorded(report.health, restarts):
        now = datetime.now(UTC)
        change = {
            "health": report.health.value,
            "message": report.message,
            "before": before,
            "details": report.details,
            "left_since": _left_since(report.health, restarts, now.timestamp(), component),
            "requested_at": restarts.requested_at,
        }
        history.record("health", change, now)
    return before


def _is_recorded(health: Health, restarts: RestartHistory) -> bool:
    """Whether the newest health is this one, and no person has acted on it since."""
    if restarts.recorded is None or restarts.recorded["health"] != health.value:
        return False
    return health is not Health.FLAPPING or restarts.left_since is not None


def _left_since(health: Health, restarts: RestartHistory, now: float, component: str) -> float | None:
    """A system that does not answer, or a start that has not succeeded, takes nothing back."""
    if health in (no_action(component) - {Health.STARTING}) | WORKING:
        return None
    return restarts.left_since or (now if health is Health.FLAPPING else None)
