"""Restarts of a component, as its history has them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sluice.core.json_record import Document
from sluice.core.processes.status import ProcessStatus


@dataclass(frozen=True)
class RestartHistory:
    """Times in seconds since 1970.

    ``restarts``: by Airflow and the runtime, not on request, none before ``counted_from``.
    ``runtime_restart_at``: the newest recorded one by the runtime. ``suspended``: by whom, since when, why.
    ``requested_at``: the newest restart or start that a person asked for, 0 before the first. ``recorded``:
    the newest health event.
    """

    restarts: Sequence[float] = ()
    suspended: str | None = None
    counted_from: float = 0.0
    runtime_restart_at: float = 0.0
    requested_at: float = 0.0
    recorded: Document | None = None

    @property
    def left_since(self) -> float | None:
        """Since when the component keeps ending and is left to a person; None if one acted since: then the
        newest request is another one than was known when it was left."""
        recorded = self.recorded or {}
        at = recorded.get("left_since")
        return float(at) if at is not None and recorded["requested_at"] == self.requested_at else None


def new_restarts(process: ProcessStatus, history: RestartHistory) -> list[float]:
    """The runtime's restarts that are not in the history yet, which has microseconds.

    Without attempts after a refused login: they wait for a person, after which it is to work at once.
    """
    known = history.runtime_restart_at + 0.001
    return [at for at in process.restarts if at > known and at not in process.refused]
