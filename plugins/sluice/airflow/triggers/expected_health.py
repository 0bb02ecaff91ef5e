"""Observe a component until its health is as expected."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sluice.airflow.triggers.health import CHECK_SECONDS
from sluice.airflow.triggers.samples import MAX_SAMPLES
from sluice.airflow.triggers.wait import Outcome, PollTrigger, Progress
from sluice.core.errors import ClientError
from sluice.supervision.decide import MIN_SAMPLES
from sluice.supervision.rules.assess import assess
from sluice.supervision.rules.sample import Sample
from sluice.supervision.rules.status import HealthReport


@dataclass(kw_only=True, eq=False, repr=False)
class ExpectedHealthTrigger(PollTrigger):
    """Fires when the health is one of ``expected``, or at ``deadline``. Records and repairs nothing."""

    expected: list[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        # If the observer does not answer.
        self._own: list[Sample] = []

    async def poll(self) -> Progress:
        try:
            report, count = await self._report()
            # One sample may fall between two states.
            while not report.is_final and count < MIN_SAMPLES:
                await self.sleep(CHECK_SECONDS)
                report, count = await self._report()
        except ClientError as error:
            return Progress(f"health unknown: {error}")
        is_expected = report.health.value in self.expected
        return Progress(
            f"{report.health.value}: {report.message}",
            Outcome.REACHED if is_expected else None,
            {"health": report.health.value},
        )

    async def _report(self) -> tuple[HealthReport, int]:
        """The health, and of how many samples it is."""
        policy = self.spec.supervision
        samples = await self.samples(self._own)
        del self._own[:-MAX_SAMPLES]
        restarts = await self.ask(lambda clients: clients.history.restart_history(datetime.now(UTC), policy))
        return assess(self.component, samples, policy, restarts), len(samples)
