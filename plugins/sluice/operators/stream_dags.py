"""The DAGs that supervise a stream: one that checks and acts, one in which a person decides."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from sluice.model.health.status import ALL, Action
from sluice.operators.decision import decide
from sluice.operators.load.provision import ProvisionSinksOperator
from sluice.operators.supervise import decision_dag_id, supervise
from sluice.triggers.health import CHECK_SECONDS

INTERVAL = timedelta(minutes=2)
SINKS = "provision_sinks"
QUERIES = "queries"

SUPERVISION_DOC = """
### Supervise stream {stream}

While this DAG is not paused, every component of the stream is to run. The runtime restarts what ends. Every
two minutes Airflow checks each component's health, restarts what hangs, starts what ended for good, and
requests a decision about what keeps ending (DAG `{decision}`).

| step | what it does | when it fails |
|---|---|---|
{rows}

Trigger it with an action to restart, stop or start the stream, or one component of it. A stopped component
stays stopped until such a request restarts or starts it. Changes of health, restarts, requests and decisions
are in the ledger under `history`, for each component apart. Steps are not retried: the next run checks again.
"""
SINKS_ROW = (
    "| `provision_sinks` | creates missing tables and topics of the queries | a sink does not answer |"
)
COMPONENT_ROW = (
    "| `{component}` | checks the {component}; restarts it if that helps, and waits until it works again | "
    "no restart helps, it does not work again in time, or its health is unknown |"
)

DECISION_DOC = """
### Decide about stream {stream}

Supervision triggers this DAG if a component keeps ending or hanging although it was restarted.

| step | what it does | when it fails |
|---|---|---|
| `request_decision` | asks a person, with the report | the history does not answer |
| `apply_decision` | restarts the component, or keeps it stopped | it does not work again in time |

The question is open for an hour at most, and ends by itself if the component is healthy again or somebody
acted.
Supervision goes on meanwhile, and carries out requests. One question at a time is open about a component.
"""


def supervision_dag(
    stream: str,
    title: str,
    components: Sequence[str],
    *,
    schedule: timedelta | None = INTERVAL,
    check_seconds: float = CHECK_SECONDS,
) -> DAG:
    """``<stream>_stream``, with one task per component, which is observed every ``check_seconds``."""
    rows = [COMPONENT_ROW.format(component=component) for component in components]
    if QUERIES in components:
        rows.insert(0, SINKS_ROW)
    with DAG(
        dag_id=f"{stream}_stream",
        dag_display_name=f"{title}: stream",
        description=f"Supervises {' and '.join(components)}: restarts, alerts, requests decisions",
        doc_md=SUPERVISION_DOC.format(stream=stream, decision=decision_dag_id(stream), rows="\n".join(rows)),
        schedule=schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        # One after the other: two at once would see each other's restarts as their own.
        max_active_runs=1,
        dagrun_timeout=timedelta(minutes=15),
        # That a run came to no end: three intervals, which is more than checking, acting and verifying take.
        deadline=DeadlineAlert(
            reference=DeadlineReference.DAGRUN_QUEUED_AT,
            interval=3 * (schedule or INTERVAL),
            callback=AsyncCallback("sluice.triggers.deadline.missed", kwargs={"stream": stream}),
        ),
        tags=["sluice", "stream", stream],
        default_args={"owner": "sluice", "retries": 0, "execution_timeout": timedelta(minutes=5)},
        params={
            "action": Param(
                Action.CHECK.value,
                type="string",
                enum=[action.value for action in Action],
                title="Action",
                description="check: check its health and act on it. stop: stop, and keep it stopped. "
                "start: end that, and start what is down. restart: end that, and restart",
            ),
            "component": Param(
                ALL,
                type="string",
                enum=[ALL, *components],
                title="Component",
                description="Which component the action is for; the others are supervised as always",
            ),
            "reason": Param(
                None,
                type=["string", "null"],
                maxLength=500,
                title="Why",
                description="Kept in the component's history, and shown while it is stopped",
            ),
        },
    ) as dag:
        for component in components:
            # The queries are supervised whatever the state of their sinks.
            rule = "all_done" if component == QUERIES else "all_success"
            task = supervise(stream, component, check_seconds=check_seconds, trigger_rule=rule)
            if component == QUERIES:
                ProvisionSinksOperator(task_id=SINKS, stream=stream) >> task
    return dag


def decision_dag(stream: str, title: str) -> DAG:
    """``<stream>_decision``: one run per question."""
    with DAG(
        dag_id=decision_dag_id(stream),
        dag_display_name=f"{title}: decision",
        description="Asks a person whether to restart a component that keeps ending, and applies the answer",
        doc_md=DECISION_DOC.format(stream=stream),
        schedule=None,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        # Supervision needs it from the first run on, and triggers it alone.
        is_paused_upon_creation=False,
        # Longer than a person is waited for.
        dagrun_timeout=timedelta(minutes=75),
        tags=["decision", "sluice", stream],
        default_args={"owner": "sluice", "retries": 0, "execution_timeout": timedelta(minutes=5)},
    ) as dag:
        decide(stream)
    return dag
