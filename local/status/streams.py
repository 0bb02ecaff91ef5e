"""How the streams are: looked at now, as supervision looks, and with what supervision has written down."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from local.airflow_client import Airflow, AirflowError
from local.errors import Problem
from local.stack import Stack
from local.status.asking import Unseen
from sluice.clients.history import History
from sluice.clients.kafka import KafkaAdmin
from sluice.clients.table import BatchFact, Lake, recent_batches
from sluice.io.s3 import connect
from sluice.model.health import Diagnosis, Facts, judge
from sluice.model.samples import Sample
from sluice.model.stream import StreamSpec
from sluice.runtime.observer import Observer
from sluice.runtime.supervisor import SupervisorRuntime

# For a request to Kafka or supervisord; S3 and PostgreSQL have deadlines of their own.
REQUEST_SECONDS = 5.0
# Between two looks, and how long it is looked at while that may still change what is said.
LOOK_SECONDS = 2.0
LONGEST_LOOK_SECONDS = 8.0
RECENT_SECONDS = 300.0
BATCHES = 20
DAY = timedelta(hours=24)
NEWEST: dict[str, Any] = {"order_by": "-end_date", "limit": 1, "state": ["success", "failed"]}
KINDS = (
    "verdict",
    "restart",
    "start",
    "stop",
    "hold",
    "release",
    "question",
    "answer",
    "recovered",
    "missed",
)


@dataclass(frozen=True)
class Supervised:
    """The supervising DAG: whether it is paused, and when its last finished run ended (None: never)."""

    paused: bool
    last_end: float | None


@dataclass(frozen=True)
class Past:
    """What the history says: the restarts of a day, each with whether a person asked for it, and the newest
    event."""

    restarts: list[bool] = field(default_factory=list)
    newest: dict[str, Any] | None = None


@dataclass(frozen=True)
class Seen:
    """Everything that was seen of one stream; Unseen in the place of what did not answer."""

    diagnosis: Diagnosis | Unseen
    batches: Sequence[BatchFact] | Unseen
    past: Past | Unseen
    supervised: Supervised | Unseen


def questions(stack: Stack, spec: StreamSpec) -> dict[str, Callable[[], Any]]:
    """What is asked about a stream."""
    return {
        f"{spec.name} diagnosis": lambda: diagnose(stack, spec),
        f"{spec.name} batches": lambda: _batches(stack, spec),
        f"{spec.name} past": lambda: past(_history(stack, spec), datetime.now(UTC)),
        f"{spec.name} supervised": lambda: supervised(stack.airflow(), f"{spec.name}_stream"),
    }


def seen(answers: Mapping[str, Any], spec: StreamSpec) -> Seen:
    """Out of the answers."""
    names = ("diagnosis", "batches", "past", "supervised")
    return Seen(*(answers[f"{spec.name} {name}"] for name in names))


def diagnose(stack: Stack, spec: StreamSpec) -> Diagnosis:
    """Looks twice or more often, as long as another look may say something else, and judges as supervision
    does. Raises ClientError when the history, which belongs to the verdict, does not answer."""
    platform = stack.platform("airflow")
    if platform.supervisor is None:
        raise Problem("the platform file of role 'airflow' has no [supervisor]: make up writes it")
    observer = Observer(
        KafkaAdmin(platform.kafka, timeout=REQUEST_SECONDS),
        Lake.open(platform),
        SupervisorRuntime(platform.supervisor, timeout=REQUEST_SECONDS),
        spec,
    )
    facts: Facts = _history(stack, spec).facts(datetime.now(UTC), spec.supervision)
    until = time.monotonic() + LONGEST_LOOK_SECONDS
    samples = [*earlier(stack.airflow(), f"{spec.name}_stream"), observer.look(time.time())]
    while True:
        time.sleep(LOOK_SECONDS)
        samples.append(observer.look(time.time()))
        found = judge(samples, spec.supervision, facts)
        if found.conclusive or time.monotonic() > until or samples[-1].trouble:
            return found


def earlier(airflow: Airflow, dag: str) -> list[Sample]:
    """What the last finished run of supervision saw; nothing where there is none, or Airflow does not answer:
    then it only takes longer to see that a stream stands still."""
    try:
        runs = airflow.request("GET", f"/dags/{dag}/dagRuns", params=NEWEST)["dag_runs"]
        found = airflow.xcom(dag, runs[0]["dag_run_id"], "observe") if runs else None
    except (AirflowError, httpx.HTTPError):
        return []
    return [Sample.from_json(sample) for sample in found["samples"]] if found else []


def _history(stack: Stack, spec: StreamSpec) -> History:
    platform = stack.platform("airflow")
    return History(connect(platform.s3), platform.lake.ledger, spec.name)


def _batches(stack: Stack, spec: StreamSpec) -> list[BatchFact]:
    lake = Lake.open(stack.platform("airflow"))
    if lake.location(spec.table) is None:
        return []
    return recent_batches(lake.table(spec.table), BATCHES)


def past(history: History, now: datetime) -> Past:
    """The last day's restarts, and the newest event of any kind."""
    newest = [event for event in (history.latest(kind) for kind in KINDS) if event is not None]
    return Past(
        restarts=[bool(event.get("asked")) for event in history.since("restart", now - DAY)],
        newest=max(newest, key=lambda event: str(event["at"]), default=None),
    )


def supervised(airflow: Airflow, dag: str) -> Supervised:
    """From Airflow's REST API. Raises Problem when it knows no such DAG."""
    try:
        paused = bool(airflow.request("GET", f"/dags/{dag}")["is_paused"])
    except AirflowError as error:
        if error.status == 404:
            raise Problem(f"Airflow knows no DAG {dag} (yet)") from error
        raise
    runs = airflow.request("GET", f"/dags/{dag}/dagRuns", params=NEWEST)["dag_runs"]
    ends = [datetime.fromisoformat(run["end_date"]).timestamp() for run in runs if run["end_date"]]
    return Supervised(paused, max(ends, default=None))


def rate(batches: Sequence[BatchFact], now: float) -> float:
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
