"""Health of any component at the newest of several samples, and its recovery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sluice.config.sections.supervision import Supervision
from sluice.config.stream import CONSUMER
from sluice.core.processes.restarts import RestartHistory
from sluice.supervision.rules.component import assess_component
from sluice.supervision.rules.consumer import assess_consumer
from sluice.supervision.rules.sample import Sample
from sluice.supervision.rules.status import Health, HealthReport


def assess(
    component: str, samples: Sequence[Sample], policy: Supervision, history: RestartHistory
) -> HealthReport:
    """Health of ``component`` at the newest of ``samples``, oldest first; they may come from earlier checks.

    Never one of WELL if the newest has errors.
    """
    return (assess_consumer if component == CONSUMER else assess_component)(samples, policy, history)


def has_recovered(component: str, report: HealthReport, now: Sample, before: Sample) -> tuple[bool, str]:
    """Whether a component that was restarted after ``before`` works again, and a message.

    The consumer works if a later writer has published records, or has none to publish; another component
    if its new instance gave a heartbeat.
    """
    if component != CONSUMER or now.errors:
        return report.health in (Health.HEALTHY, Health.IDLE, Health.SOURCE_UNAVAILABLE), report.message
    position, epoch = now.published, before.published.epoch if before.published else 0
    if position is None or position.epoch <= epoch:
        has_cause = now.process is not None and (now.process.problem or now.process.is_login_refused)
        problem = f"; {report.health.value}: {report.message}" if has_cause else ""
        return False, f"no active writer since writer epoch {epoch}{problem}"
    ends: Mapping[int, int] = before.published.ends if before.published else {}
    lag = sum(now.unread().values())
    ahead = sum(max(end - ends.get(p, 0), 0) for p, end in position.ends.items())
    return bool(ahead) or not lag, f"writer epoch {position.epoch} published {ahead} records, {lag} wait"
