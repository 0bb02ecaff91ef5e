"""The record of maintenance that is as old as a horizon, also if a clock stepped."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sluice.core.tables.file_removal import needed_records

if TYPE_CHECKING:
    from sluice.config.sections.maintenance import Maintenance
    from sluice.ledger.history import History, RecordTime

# For so long a run removes what it removes of each kind, in portions; the next run goes on.
MAX_SECONDS = 1800


def longest_gap(maintenance: Maintenance) -> timedelta:
    """As which a longer one between two records counts."""
    return 2 * timedelta(hours=maintenance.schedule_hours)


def days_of(maintenance: Maintenance, fewest_days: int) -> int:
    """How long history stays. ``fewest_days``: how long Airflow keeps its runs."""
    return max(maintenance.history_days, maintenance.restore_horizon_days, fewest_days)


def base_of(history: History, maintenance: Maintenance, days: int, now: datetime) -> RecordTime | None:
    """None if the records do not cover so many days. Raises ClockChanged for one from the future."""
    records = history.metadata_times()
    found = needed_records(records, now, timedelta(days=days), longest_gap(maintenance))
    return found[0] if found else None
