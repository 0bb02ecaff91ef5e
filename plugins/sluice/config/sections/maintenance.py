"""Maintenance of a stream's tables, and when it is overdue: the section ``[maintenance]`` of stream.toml."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

# Intervals of the schedule. A run and its retries take less than one.
OVERDUE_INTERVALS = 3
# Between the clocks of two of Airflow's machines.
CLOCK_SLACK = timedelta(minutes=5)


@dataclass(frozen=True)
class Maintenance:
    schedule_hours: Annotated[int, "hours between two runs of maintenance"] = 24
    restore_horizon_days: Annotated[
        int,
        "a catalog restored to a state of the last N days finds all of its files",
    ] = 7
    history_days: Annotated[
        int,
        "[documents of batches](operating.md#retention) are kept for N days at least, and for "
        "`restore_horizon_days`",
    ] = 90
    reconciliation_hours: Annotated[
        int,
        "hours between two [reconciliations](operating.md#reconciliation-findings)",
    ] = 1
    reverify_hours: Annotated[
        int,
        "hours after which [reconciliation](dags.md#reconciliation) looks at table and stored files though "
        "nothing changed",
    ] = 24

    def overdue(self, ended: datetime, now: datetime) -> str | None:
        """Why a person has to look at maintenance whose last complete run ended then."""
        if ended > now + CLOCK_SLACK:
            return (
                f"the last complete run of maintenance is recorded at {ended.isoformat(timespec='seconds')}, "
                "ahead of Airflow's clock: until then nothing is removed"
            )
        if now - ended <= OVERDUE_INTERVALS * timedelta(hours=self.schedule_hours):
            return None
        return (
            f"no run of maintenance was complete since {ended.isoformat(timespec='seconds')}, and one is due "
            f"every {self.schedule_hours} hours: files and metadata grow"
        )
