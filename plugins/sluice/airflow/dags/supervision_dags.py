"""The DAG that supervises a stream, and those that say which declaration is invalid."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from sluice.airflow import forms
from sluice.airflow.dags import docs
from sluice.airflow.dags.make_dag import make_dag
from sluice.airflow.operators.base import InvalidDeclarationOperator
from sluice.airflow.operators.supervision.sinks import SinksProvisionedOperator, SuperviseSinksOperator
from sluice.airflow.operators.supervision.supervise import SuperviseOperator
from sluice.config.notifications import INSTALLATION
from sluice.config.sections.supervision import Supervision
from sluice.config.stream import CONSUMER
from sluice.notify.occasions import CONFIGURATION
from sluice.supervision.decide import recovery_seconds

QUERIES = "queries"


def supervision_dag(
    stream: str,
    title: str,
    components: Sequence[str],
    policy: Supervision,
) -> DAG:
    """``<stream>_stream``, with one task per component."""
    schedule = timedelta(seconds=policy.interval_seconds)
    with make_dag(
        f"{stream}_stream",
        f"{title}: stream",
        f"Supervises {' and '.join(components)}: restarts and alerts",
        tags=["stream", stream],
        stream=stream,
        schedule=schedule,
        # Check, action and verification take less than three intervals.
        deadline=DeadlineAlert(
            reference=DeadlineReference.DAGRUN_QUEUED_AT,
            interval=3 * schedule,
            callback=AsyncCallback("sluice.airflow.triggers.deadline.missed", kwargs={"stream": stream}),
        ),
        params=forms.supervision(components),
    ) as dag:
        steps: list[Any] = []
        for component in components:
            # The queries are supervised whatever the state of their sinks. No retries: the next run checks.
            rule = "all_done" if component == QUERIES else "all_success"
            task = SuperviseOperator(
                task_id=component,
                stream=stream,
                component=component,
                recovery_seconds=recovery_seconds(policy),
                trigger_rule=rule,
            )
            if component == QUERIES:
                sinks = SuperviseSinksOperator(task_id="provision_sinks", stream=stream)
                done = SinksProvisionedOperator(task_id="sinks_provisioned", stream=stream)
                sinks >> [task, done]
                steps += [sinks, done]
            steps.append(task)
    dag.doc_md = docs.supervision(stream, schedule, steps)
    return dag


def invalid_dag(stream: str, reason: str) -> DAG:
    """``<stream>_stream`` of a stream whose declaration is invalid, or whose DAGs cannot be built: it fails
    with the ``reason``."""
    schedule = timedelta(seconds=Supervision().interval_seconds)
    with make_dag(
        f"{stream}_stream",
        f"{stream}: stream",
        "The stream's declaration is invalid; its other DAGs come back when it is correct",
        tags=["stream", stream],
        stream=stream,
        schedule=schedule,
        # A new stream's would wait unseen. One that exists keeps its state.
        is_paused_upon_creation=False,
    ) as dag:
        # Named like the component that every stream has, so that its recovery ends what is told.
        task = InvalidDeclarationOperator(task_id=CONSUMER, stream=stream, reason=reason)
    dag.doc_md = docs.invalid(stream, schedule, task)
    return dag


def configuration_dag(problems: Sequence[str]) -> DAG:
    """What is wrong and belongs to no stream; there is none if nothing is."""
    schedule, stream = timedelta(seconds=Supervision().interval_seconds), INSTALLATION
    with make_dag(
        f"{stream}_{CONFIGURATION}",
        "Sluice: configuration",
        "Fails with what is wrong with the folders of streams, the overrides, or between streams",
        tags=["stream", stream],
        stream=stream,
        schedule=schedule,
        # It is there because of a fault, which would wait unseen.
        is_paused_upon_creation=False,
    ) as dag:
        task = InvalidDeclarationOperator(task_id="check", stream=stream, reason="; ".join(problems))
    dag.doc_md = docs.configuration(schedule, task)
    return dag
