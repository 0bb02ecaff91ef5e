"""What is kept of the cleanings of Airflow's database, in Airflow's Variables, and when a person is to look.

No task may reach that database. Its cleaning writes RECORD, its scheduler STARTED, and who looks at
connections reads both. Pure.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Self

from sluice.config.reading.toml import ConfigError

RECORD, STARTED = "sluice_airflow_cleaning", "sluice_airflow_started"
EVERY = timedelta(days=1)
# One may run just now, and one may have been interrupted.
FAILED = 3
# The scheduler may have stood still for EVERY, and one cleaning may be late, before a person is told.
LATE = timedelta(days=3)


@dataclass(frozen=True)
class Cleaning:
    """What RECORD says of the cleanings."""

    succeeded: str | None = None
    """When the last one did, ISO 8601."""
    before: str | None = None
    """What was older than this was deleted then, ISO 8601."""
    failed: int = 0
    """How many began since and did not succeed."""

    @classmethod
    def read(cls, text: str) -> Self:
        """Raises ConfigError."""
        try:
            found = cls(**json.loads(text))
            for time_ in (found.succeeded, found.before):
                if time_ is not None:
                    parse(time_)
            if type(found.failed) is not int or found.failed < 0:
                raise ValueError("failed is no number")
            return found
        except (TypeError, ValueError) as error:
            raise ConfigError(f"Airflow's Variable {RECORD} is {text!r}. Fix: delete it") from error

    def dump(self) -> str:
        return json.dumps(asdict(self))

    def problem(self, now: datetime, started: str | None = None) -> str:
        """Why a person is to look after the cleanings; empty without a reason. ``started``: the text of
        STARTED. Raises ConfigError."""
        fix = (
            "it grows. Fix: see whether airflow-cleanup runs, and its log (docs/operating.md, Airflow's "
            "database)"
        )
        if self.failed >= FAILED:
            since = f"since that of {self.succeeded}" if self.succeeded else "and none succeeded yet"
            return f"{self.failed} cleanings of it failed, {since}: {fix}"
        known = [parse(self.succeeded)] if self.succeeded else []
        try:
            known += [parse(started)] if started is not None else []
        except (TypeError, ValueError) as error:
            raise ConfigError(f"Airflow's Variable {STARTED} is {started!r}. Fix: delete it") from error
        # What a clock that was ahead wrote tells nothing, for as long as it was ahead.
        if not known or any(now - LATE <= time_ <= now + EVERY for time_ in known):
            return ""
        last = f"the last was that of {self.succeeded}" if self.succeeded else "and none before"
        return f"no cleaning of it succeeded within {LATE.days} days, {last}: {fix}"


def parse(time_: str) -> datetime:
    """The time of an ISO 8601 text with a time zone. Raises TypeError, ValueError."""
    found = datetime.fromisoformat(time_)
    if found.tzinfo is None:
        raise ValueError(f"{time_} has no time zone")
    return found
