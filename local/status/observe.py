"""Observes all components of all streams at once: their processes, lag and supervision's history."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from local.base import UsageError, one_line
from local.stack.health import UNREACHABLE_ERRORS
from local.stack.stack import Stack
from sluice.cli.airflow_api import AirflowError
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.lake.commits import Commit, recent_batches
from sluice.clients.processes.opened import open_runtime
from sluice.config.reading.toml import ConfigError
from sluice.config.stream import CONSUMER, Component, StreamSpec
from sluice.ledger.history import History
from sluice.ledger.keys import EVENTS, history_name
from sluice.ledger.known_tables import KnownTables
from sluice.supervision.observer.sampler import Sampler
from sluice.supervision.rules.sample import Sample


class Unavailable(str):
    """Why a request has no answer."""


def run_concurrently(requests: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, Any]:
    """Name → answer or Unavailable, after `seconds` at the latest.

    A request without an answer by then goes on in a daemon thread, which ends with the program.
    """
    answers: dict[str, Any] = {}
    threads: dict[str, threading.Thread] = {}

    def ask(name: str, request: Callable[[], Any]) -> None:
        try:
            answers[name] = request()
        except (*UNREACHABLE_ERRORS, UsageError, ConfigError) as error:
            answers[name] = Unavailable(one_line(error)[:300] or type(error).__name__)
        except BaseException as error:
            answers[name] = Unavailable(f"{type(error).__name__}: {error}")
            raise

    deadline = time.monotonic() + seconds
    for name, request in requests.items():
        threads[name] = threading.Thread(target=ask, args=(name, request), name=name, daemon=True)
        threads[name].start()
    for thread in threads.values():
        thread.join(max(0.0, deadline - time.monotonic()))
    return {name: answers.get(name, Unavailable(f"no answer within {seconds:.0f} s")) for name in requests}


# For a request to Kafka or supervisord; S3 and PostgreSQL have deadlines of their own.
REQUEST_SECONDS = 5.0
RECENT_SECONDS = 300.0
BATCHES = 20
DAY = timedelta(hours=24)
NEWEST: dict[str, Any] = {"order_by": "-end_date", "limit": 1, "state": ["success", "failed"]}


@dataclass(frozen=True)
class SupervisionStatus:
    """The supervising DAG; `last_end`: of its last finished run, None before the first."""

    paused: bool
    last_end: float | None


@dataclass(frozen=True)
class ComponentHistory:
    """The last day's restarts (True: requested by a user), and the newest event."""

    restarts: list[bool] = field(default_factory=list)
    newest: dict[str, Any] | None = None


@dataclass(frozen=True)
class Observation:
    """One component. ``health``: the newest recorded event, None before the first. ``batches``: the
    consumer's newest; none of another component."""

    sample: Sample | Unavailable
    health: dict[str, Any] | Unavailable | None
    batches: Sequence[Commit] | Unavailable
    history: ComponentHistory | Unavailable
    supervision: SupervisionStatus | Unavailable


def _sample(stack: Stack, spec: StreamSpec, component: Component) -> Sample:
    platform = stack.platform("airflow")
    return Sampler(
        KafkaAdmin(platform.kafka, timeout=REQUEST_SECONDS),
        lambda: KnownTables(stack.lake("airflow"), History.open(platform, spec.name)),
        open_runtime(platform, REQUEST_SECONDS),
        spec,
        component.name,
    ).observe(time.time())


def _history(stack: Stack, spec: StreamSpec, component: Component) -> History:
    return History.open(stack.platform("airflow"), history_name(spec.name, component.name))


def _newest_health(stack: Stack, spec: StreamSpec, component: Component) -> dict[str, Any] | None:
    return _history(stack, spec, component).latest("health")


def _component_history(stack: Stack, spec: StreamSpec, component: Component) -> ComponentHistory:
    return component_history(_history(stack, spec, component), datetime.now(UTC))


def _batches(stack: Stack, spec: StreamSpec, component: Component) -> list[Commit]:
    if component.name != CONSUMER:
        return []
    lake = stack.lake("airflow")
    if lake.location(spec.table) is None:
        return []
    return recent_batches(lake.table(spec.table), BATCHES)


def component_history(history: History, now: datetime) -> ComponentHistory:
    newest = [event for event in (history.latest(kind) for kind in EVENTS) if event is not None]
    return ComponentHistory(
        restarts=[bool(event.get("requested")) for event in history.since("restart", now - DAY)],
        newest=max(newest, key=lambda event: str(event["at"]), default=None),
    )


def _supervision(stack: Stack, dag: str) -> SupervisionStatus:
    airflow = stack.airflow()
    try:
        paused = bool(airflow.request("GET", f"/dags/{dag}")["is_paused"])
    except AirflowError as error:
        if error.status == 404:
            raise UsageError(f"Airflow has no DAG {dag} yet") from error
        raise
    runs = airflow.request("GET", f"/dags/{dag}/dagRuns", params=NEWEST)["dag_runs"]
    ends = [datetime.fromisoformat(run["end_date"]).timestamp() for run in runs if run["end_date"]]
    return SupervisionStatus(paused, max(ends, default=None))


def rate(batches: Sequence[Commit], now: float) -> float:
    """Records per second over the recent batches (newest first), 0 if none is recent.

    From the oldest's end to the newest's, without the oldest's records; of a single batch over its duration.
    """
    recent = [batch for batch in batches if now - batch.at <= RECENT_SECONDS]
    if not recent:
        return 0.0
    if len(recent) == 1:
        took = recent[0].seconds
        return recent[0].records / took if took else 0.0
    span = recent[0].at - recent[-1].at
    return sum(batch.records for batch in recent[:-1]) / span if span > 0 else 0.0


REQUESTS: Mapping[str, Callable[[Stack, StreamSpec, Component], Any]] = {
    "sample": _sample,
    "health": _newest_health,
    "batches": _batches,
    "history": _component_history,
}
# For all requests together.
DEADLINE_SECONDS = 30.0


def observe(stack: Stack, specs: Sequence[StreamSpec]) -> dict[str, Observation]:
    """Program → observation of its component; takes DEADLINE_SECONDS at most."""
    components = [(spec, component) for spec in specs for component in spec.components.values()]
    requests: dict[str, Callable[[], Any]] = {}
    for spec in specs:
        dag = f"{spec.name}_stream"
        requests[dag] = partial(_supervision, stack, dag)
    for spec, component in components:
        for name, request in REQUESTS.items():
            requests[f"{component.program} {name}"] = partial(request, stack, spec, component)
    stack.context  # noqa: B018  made here once: the requests are made in threads
    answers = run_concurrently(requests, DEADLINE_SECONDS)
    return {
        component.program: Observation(
            supervision=answers[f"{spec.name}_stream"],
            **{name: answers[f"{component.program} {name}"] for name in REQUESTS},
        )
        for spec, component in components
    }
