"""Maintenance of a stream's tables: the section ``[maintenance]`` of its stream.toml."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Maintenance:
    """``schedule_hours``: between two runs. ``restore_horizon_days``: a catalog that is restored to a state
    of the last N days finds all of its files."""

    schedule_hours: int = 24
    restore_horizon_days: int = 7
