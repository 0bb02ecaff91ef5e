"""Health of every component, now.

Asks several things at once, none of which may hang the command that asks.

What is known of a component: its process and lag now, and what supervision recorded.

Asks about all components of all streams at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from local.base import UsageError
from local.stack.airflow_api import Airflow, AirflowError
from local.stack.health import UNREACHABLE_ERRORS
from local.stack.stack import Stack
from sluice.clients.kafka_admin import KafkaAdmin
from sluice.clients.lake.catalog import Commit, Lake, recent_batches
from sluice.clients.ledger import History
from sluice.model.health.sample import Sample
from sluice.model.spec.config import ConfigError
from sluice.model.spec.ledger import history_name
from sluice.model.spec.stream import CONSUMER, Component, StreamSpec
from sluice.runtime.observer import Observer
from sluice.runtime.supervisord import SupervisorRuntime


class Unavailable(str):
    """In the place of an answer: why there is none."""


def run_concurrently(questions: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, Any]:
    """Name → the answer, or Unseen with the reason. Returns after `seconds` at the latest.

    A question that has no answer by then goes on in a daemon thread, which ends with the program.
    """
    answers: dict[str, Any] = {}
    threads: dict[str, threading.Thread] = {}

    def ask(name: str, question: Callable[[], Any]) -> None:
        try:
            answers[name] = question()
        except (*UNREACHABLE_ERRORS, UsageError, ConfigError) as error:
            answers[name] = Unavailable(" ".join(str(error).split())[:300] or type(error).__name__)
        except BaseException as error:
            answers[name] = Unavailable(f"{type(error).__name__}: {error}")
            raise

    deadline = time.monotonic() + seconds
    for name, question in questions.items():
        threads[name] = threading.Thread(target=ask, args=(name, question), name=name, daemon=True)
        threads[name].start()
    for thread in threads.values():
        thread.join(max(0.0, deadline - time.monotonic()))
    return {name: answers.get(name, Unavailable(f"no answer within {seconds:.0f} s")) for name in questions}


# For a request to Kafka or supervisord; S3 and PostgreSQL have deadlines of their own.
REQUEST_SECONDS = 5.0
RECENT_SECONDS = 300.0
BATCHES = 20
DAY = timedelta(hours=24)
NEWEST: dict[str, Any] = {"order_by": "-end_date", "limit": 1, "state": ["success", "failed"]}
KINDS = (
    "health",
    "restart",
    "start",
    "stop",
    "suspend",
    "resume",
    "decision_requested",
    "decision",
    "recovered",
    "deadline_missed",
)


@dataclass(frozen=True)
class Supervised:
    """The supervising DAG: whether it is paused, and when its last finished run ended (None: never)."""

    paused: bool
    last_end: float | None


@dataclass(frozen=True)
class ComponentHistory:
    """What the history says: the restarts of a day, each with whether a person asked for it, and the newest
    event."""

    restarts: list[bool] = field(default_factory=list)
    newest: dict[str, Any] | None = None


@dataclass(frozen=True)
class Seen:
    """What is known of one component; Unseen in the place of what did not answer.

    ``sample``: its process, lag or heartbeat now. ``health``: the newest verdict that supervision recorded,
    None before the first. ``batches``: the consumer's newest; of another component none.
    """

    sample: Sample | Unavailable
    health: dict[str, Any] | Unavailable | None
    batches: Sequence[Commit] | Unavailable
    past: ComponentHistory | Unavailable
    supervised: Supervised | Unavailable


def questions(stack: Stack, spec: StreamSpec, component: Component) -> dict[str, Callable[[], Any]]:
    """What is asked about a component. One DAG supervises all components of a stream."""
    return {
        f"{component.program} sample": lambda: _sample(stack, spec, component),
        f"{component.program} health": lambda: _history(stack, spec, component).latest("health"),
        f"{component.program} batches": lambda: _batches(stack, spec) if component.name == CONSUMER else [],
        f"{component.program} past": lambda: past(_history(stack, spec, component), datetime.now(UTC)),
        f"{spec.name} supervised": lambda: supervised(stack.airflow(), f"{spec.name}_stream"),
    }


def seen(answers: Mapping[str, Any], spec: StreamSpec, component: Component) -> Seen:
    """Out of the answers."""
    return Seen(
        **{name: answers[f"{component.program} {name}"] for name in ("sample", "health", "batches", "past")},
        supervised=answers[f"{spec.name} supervised"],
    )


def _sample(stack: Stack, spec: StreamSpec, component: Component) -> Sample:
    platform = stack.platform("airflow")
    if platform.supervisor is None:
        raise UsageError("the platform file of role 'airflow' has no [supervisor]: make up writes it")
    return Observer(
        KafkaAdmin(platform.kafka, timeout=REQUEST_SECONDS),
        lambda: Lake.open(platform),
        SupervisorRuntime(platform.supervisor, timeout=REQUEST_SECONDS),
        spec,
        component.name,
    ).look(time.time())


def _history(stack: Stack, spec: StreamSpec, component: Component) -> History:
    return History.open(stack.platform("airflow"), history_name(spec.name, component.name))


def _batches(stack: Stack, spec: StreamSpec) -> list[Commit]:
    lake = Lake.open(stack.platform("airflow"))
    if lake.location(spec.table) is None:
        return []
    return recent_batches(lake.table(spec.table), BATCHES)


def past(history: History, now: datetime) -> ComponentHistory:
    """The last day's restarts, and the newest event of any kind."""
    newest = [event for event in (history.latest(kind) for kind in KINDS) if event is not None]
    return ComponentHistory(
        restarts=[bool(event.get("requested")) for event in history.since("restart", now - DAY)],
        newest=max(newest, key=lambda event: str(event["at"]), default=None),
    )


def supervised(airflow: Airflow, dag: str) -> Supervised:
    """From Airflow's REST API. Raises UsageError when it knows no such DAG."""
    try:
        paused = bool(airflow.request("GET", f"/dags/{dag}")["is_paused"])
    except AirflowError as error:
        if error.status == 404:
            raise UsageError(f"Airflow knows no DAG {dag} (yet)") from error
        raise
    runs = airflow.request("GET", f"/dags/{dag}/dagRuns", params=NEWEST)["dag_runs"]
    ends = [datetime.fromisoformat(run["end_date"]).timestamp() for run in runs if run["end_date"]]
    return Supervised(paused, max(ends, default=None))


def rate(batches: Sequence[Commit], now: float) -> float:
    """Records per second over the recent batches (newest first), 0 when none is recent.

    From the oldest's end to the newest's, so what the oldest brought does not count; where there is one
    alone, over what it took.
    """
    recent = [batch for batch in batches if now - batch.at <= RECENT_SECONDS]
    if not recent:
        return 0.0
    if len(recent) == 1:
        took = recent[0].seconds
        return recent[0].records / took if took else 0.0
    span = recent[0].at - recent[-1].at
    return sum(batch.records for batch in recent[:-1]) / span if span > 0 else 0.0


# For all questions together.
DEADLINE_SECONDS = 30.0


def look(stack: Stack, specs: Sequence[StreamSpec]) -> dict[str, Seen]:
    """Program → what is known of that component. Takes DEADLINE_SECONDS at most."""
    components = [(spec, component) for spec in specs for component in spec.components.values()]
    asked: dict[str, Any] = {}
    for spec, component in components:
        asked |= questions(stack, spec, component)
    stack.context  # noqa: B018  made once, here: the questions are asked in threads
    answers = run_concurrently(asked, DEADLINE_SECONDS)
    return {component.program: seen(answers, spec, component) for spec, component in components}
