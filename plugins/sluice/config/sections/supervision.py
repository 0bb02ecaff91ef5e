"""``[supervision]`` of a ``stream.toml``: when a component is unhealthy, and how often it is restarted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated


@dataclass(frozen=True)
class Supervision:
    """Limits of supervision; ``sluice.supervision.rules.guide`` says what each health means."""

    interval_seconds: Annotated[int, "interval of Airflow's checks"] = 120
    stall_timeout_seconds: Annotated[
        int,
        "*stalled* if there is a lag and nothing was published for N seconds, and for three times the "
        "longest of the last 20 batches",
    ] = 60
    startup_timeout_seconds: Annotated[
        int,
        "*stalled* if a started process has not acquired the lease within N seconds",
    ] = 90
    lag_window_seconds: Annotated[int, "*lagging* if the lag grew for N seconds"] = 300
    retention_margin_seconds: Annotated[
        int,
        "*data at risk* if retention deletes unread records within N seconds",
    ] = 21_600
    max_restarts: Annotated[int, "after N restarts …"] = 3
    restart_window_seconds: Annotated[int, "… within N seconds a person is asked"] = 1_800
    shutdown_grace_seconds: Annotated[int, "how long a stop waits for the batch in flight"] = 20
    max_rejected_percent: Annotated[
        int,
        "*rejecting* if more than N % of the last records are malformed; 100 sets no limit",
    ] = 5

    @property
    def missed_seconds(self) -> int:
        """From the end of one run to the next; more than observing, acting and verifying take."""
        return 3 * self.interval_seconds

    @property
    def max_check_age_seconds(self) -> int:
        """From the end of one check to the end of the next, at the most."""
        return self.interval_seconds + self.missed_seconds
