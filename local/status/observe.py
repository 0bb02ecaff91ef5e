"""What `make status` shows of streams: from the observer, and from Airflow whether it supervises them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from local.base import UsageError, one_line
from local.stack.health import UNREACHABLE_ERRORS
from local.stack.stack import Stack
from sluice.cli.airflow_api import Airflow, AirflowError
from sluice.config.reading.toml import ConfigError
from sluice.config.stream import StreamSpec
from sluice.core.errors import Missing
from sluice.supervision.observer.client import ObserverClient
from sluice.supervision.observer.component_view import LastCheck
from sluice.supervision.observer.live import OBSERVER, Live

T = TypeVar("T")
AIRFLOW = "Airflow"
# Time for one try.
AIRFLOW_SECONDS = 5.0
NEWEST: dict[str, Any] = {"order_by": "-end_date", "limit": 1, "state": ["success", "failed"]}


@dataclass(frozen=True)
class Known:
    """`lives`: stream → component → what the observer knows of it. `checks`: stream → supervision's newest.
    `errors`: OBSERVER or AIRFLOW → why what it says of streams is missing."""

    lives: Mapping[str, Mapping[str, Live]]
    checks: Mapping[str, LastCheck]
    errors: Mapping[str, str]

    def observed_at(self) -> float | None:
        """When the component was observed that was not observed for longest; None without any."""
        times = [live.at for lives in self.lives.values() for live in lives.values() if live.at is not None]
        return min(times, default=None)


def read(stack: Stack, specs: Sequence[StreamSpec]) -> Known:
    errors: dict[str, str] = {}
    lives = _ask(errors, OBSERVER, specs, lambda: _observer(stack))
    checks = _ask(errors, AIRFLOW, specs, lambda: _airflow(stack))
    return Known(lives, checks, errors)


def _ask(
    errors: dict[str, str],
    system: str,
    specs: Sequence[StreamSpec],
    connect: Callable[[], Callable[[StreamSpec], T]],
) -> dict[str, T]:
    """Stream → answer. A system that does not answer is asked once, so that it delays no more."""
    found: dict[str, T] = {}
    try:
        request = connect()
        for spec in specs:
            found[spec.name] = request(spec)
    except (*UNREACHABLE_ERRORS, UsageError, ConfigError) as error:
        errors[system] = one_line(error) or type(error).__name__
    return found


def _observer(stack: Stack) -> Callable[[StreamSpec], Mapping[str, Live]]:
    client = ObserverClient.open(stack.platform("airflow"))

    def request(spec: StreamSpec) -> Mapping[str, Live]:
        try:
            return client.stream(spec.name)
        except Missing as error:
            return dict.fromkeys(spec.components, Live(errors={OBSERVER: str(error)}))

    return request


def _airflow(stack: Stack) -> Callable[[StreamSpec], LastCheck]:
    airflow = stack.airflow(AIRFLOW_SECONDS)
    return lambda spec: last_check(airflow, f"{spec.name}_stream")


def last_check(airflow: Airflow, dag: str) -> LastCheck:
    """As :func:`sluice.web.data.airflow_db.last_checks` reads it from Airflow's database."""
    try:
        paused = bool(airflow.request("GET", f"/dags/{dag}")["is_paused"])
    except AirflowError as error:
        if error.status == 404:
            return LastCheck(dag)
        raise
    for run in airflow.request("GET", f"/dags/{dag}/dagRuns", params=NEWEST)["dag_runs"]:
        if run["end_date"]:
            end = datetime.fromisoformat(run["end_date"]).timestamp()
            return LastCheck(dag, paused, end, run["state"] == "success")
    return LastCheck(dag, paused)
