"""Which process holds the writer lease, as supervision and loads decide it."""

from __future__ import annotations

from sluice.core.tables.position import Position
from sluice.supervision.rules.sample import CLOCK_SLACK_SECONDS


def has_acquired(position: Position, since: float, now: float, startup_seconds: float) -> bool:
    """Whether the lease was acquired since the start of the process, at ``since``.

    The time is missing once that snapshot expired, which is normal for a process that runs for long: for one
    older than ``startup_seconds`` any epoch is enough then.
    """
    if position.acquired_at is None:
        return now - since >= startup_seconds
    return position.acquired_at >= since - CLOCK_SLACK_SECONDS
