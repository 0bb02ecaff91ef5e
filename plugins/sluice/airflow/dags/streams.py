"""The DAGs of every stream, from its stream.toml: load, backfill, supervision, maintenance, change,
reconciliation."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, get_parsing_context
from airflow.sdk.bases.operator import chain

from sluice.airflow import forms
from sluice.airflow.assets import loaded, loaded_interval
from sluice.airflow.dags import docs
from sluice.airflow.dags.maintenance_dags import change_dag, maintenance_dag, reconciliation_dag
from sluice.airflow.dags.make_dag import make_dag
from sluice.airflow.dags.supervision_dags import configuration_dag, invalid_dag, supervision_dag
from sluice.airflow.operators.load.asset_event import EmitAssetEventOperator
from sluice.airflow.operators.load.audit import AuditOperator
from sluice.airflow.operators.load.compare_sinks import CompareSinksOperator
from sluice.airflow.operators.load.ensure import EnsureComponentOperator, EnsureConsumerOperator
from sluice.airflow.operators.load.interval import CheckCorrectedFilesOperator, ProduceIntervalOperator
from sluice.airflow.operators.load.produce import ProduceOperator
from sluice.airflow.operators.load.produce_feed import ProduceFeedOperator
from sluice.airflow.operators.load.provision import ProvisionSinksOperator, ProvisionTopicOperator
from sluice.airflow.operators.load.topic_of_others import CheckTopicOperator, PlanTopicOperator
from sluice.airflow.operators.load.validate import ValidateOperator
from sluice.airflow.sensors.published import PublishedSensor
from sluice.config import streams
from sluice.config.reading.toml import ConfigError
from sluice.config.reading.values import shown
from sluice.config.sections.backfill import Backfill
from sluice.config.sections.backfill import dag_id as backfill_dag_id
from sluice.config.stream import SourceType, StreamSpec
from sluice.notify.occasions import MAINTENANCE, STREAM

log = logging.getLogger(__name__)

# Timeouts of task `produce`; a feed's waits in the triggerer.
SEND_TIMEOUTS = {
    SourceType.CSV: timedelta(hours=2),
    SourceType.GENERATOR: timedelta(hours=13),
    SourceType.FEED: timedelta(minutes=10),
    SourceType.TOPIC: timedelta(minutes=10),
}
PRODUCE: dict[SourceType, type[Any]] = {
    SourceType.CSV: ProduceOperator,
    SourceType.GENERATOR: ProduceOperator,
    SourceType.FEED: ProduceFeedOperator,
    SourceType.TOPIC: PlanTopicOperator,
}


def load_dag(spec: StreamSpec) -> DAG:
    """``<stream>_load``: send the source's records, and verify that all of them are in the lake. Of a topic
    of others: verify what is there, for each interval if there are ``[intervals]``."""
    is_others = spec.source is SourceType.TOPIC
    times: dict[str, Any] = {"max_active_runs": 1 if is_others else 4}
    if spec.intervals:
        times = {
            "schedule": CronDataIntervalTimetable(spec.intervals.cron, timezone="UTC"),
            "start_date": spec.intervals.begins,
            "max_active_runs": spec.intervals.max_active_runs,
        }
    with make_dag(
        f"{spec.name}_load",
        f"{spec.label}: load",
        f"{docs.RECORDS[spec.source]} through Kafka into {spec.table}, each record verified",
        tags=["load", spec.name],
        stream=spec.name,
        retries=2,
        task_timeout=timedelta(minutes=10),
        **times,
        params=forms.load(spec),
    ) as dag:
        steps = load_steps(spec, PRODUCE[spec.source])
        chain(*steps)
    dag.doc_md = docs.load(spec, steps)
    return dag


def backfill_dag(spec: StreamSpec, backfill: Backfill) -> DAG:
    """``<stream>_backfill``: a load per interval of the schedule, by Airflow's own backfills."""
    with make_dag(
        backfill_dag_id(spec.name),
        f"{spec.label}: backfill",
        f"Source files of an interval through Kafka into {spec.table}, each record verified",
        tags=["load", spec.name],
        stream=spec.name,
        retries=2,
        task_timeout=timedelta(minutes=10),
        schedule=CronDataIntervalTimetable(backfill.cron, timezone="UTC"),
        start_date=backfill.begins,
        max_active_runs=backfill.max_active_runs,
        # A run that a person triggers has no interval of its own.
        allowed_run_types=["scheduled", "backfill"],
        params=forms.limits(),
    ) as dag:
        steps = load_steps(spec, ProduceIntervalOperator)
        chain(*steps)
    dag.doc_md = docs.backfill(spec, backfill, steps)
    return dag


def load_steps(spec: StreamSpec, produce: type[Any]) -> list[Any]:
    """The steps of a load, in this order; ``produce``: the operator of its task."""
    is_backfill = produce is ProduceIntervalOperator
    is_others = spec.source is SourceType.TOPIC
    # A backfill's load is of an interval, and so are generated records.
    is_interval = is_backfill or spec.source is SourceType.GENERATOR or spec.intervals is not None
    name, hour, send_timeout = spec.name, timedelta(hours=1), SEND_TIMEOUTS[spec.source]
    # What the form allows; its value is the run's.
    publish_timeout = timedelta(minutes=forms.MAX_PUBLISH_MINUTES)
    steps: list[Any] = [
        CheckTopicOperator(task_id="check_topic", stream=name)
        if is_others
        else ProvisionTopicOperator(task_id="provision_topic", stream=name)
    ]
    if spec.queries:
        steps += [ProvisionSinksOperator(task_id="provision_sinks", stream=name)]
    steps += [EnsureConsumerOperator(task_id="ensure_consumer", stream=name)]
    if spec.queries:
        steps += [EnsureComponentOperator(task_id="ensure_queries", stream=name, component="queries")]
    steps += [
        # One at a time of this DAG, deferred ones too: a second run finds in the ledger what the first has
        # sent, and a feed's second run starts at the first's end offsets. A load and a backfill of the same
        # object may send it both, as an attempt that was abandoned may: the consumer quarantines the copies.
        produce(
            task_id=spec.planning_task,
            stream=name,
            max_active_tis_per_dag=1,
            execution_timeout=send_timeout,
        ),
        PublishedSensor(task_id="wait_for_publish", stream=name, timeout=publish_timeout),
        ValidateOperator(task_id="validate", stream=name, execution_timeout=hour),
    ]
    if spec.queries:
        steps += [
            PublishedSensor(
                task_id="wait_for_queries", stream=name, component="queries", timeout=publish_timeout
            ),
            CompareSinksOperator(task_id="compare_sinks", stream=name, execution_timeout=hour),
        ]
    steps += [AuditOperator(task_id="audit", stream=name, execution_timeout=timedelta(minutes=30))]
    if is_backfill:
        steps += [CheckCorrectedFilesOperator(task_id="check_corrected_files", stream=name)]
    # Readers of the event take the run as right: nothing that can fail comes after it.
    return [
        *steps,
        EmitAssetEventOperator(
            task_id="emit_asset_event",
            stream=name,
            asset=loaded(name),
            interval=loaded_interval(name) if is_interval else None,
        ),
    ]


def stream_dags(spec: StreamSpec) -> list[DAG]:
    """All DAGs of a stream. Raises what Airflow refuses of one."""
    dags = [
        load_dag(spec),
        supervision_dag(spec.name, spec.label, tuple(spec.components), spec.supervision),
        maintenance_dag(spec),
        change_dag(spec),
        reconciliation_dag(spec),
    ]
    if spec.backfill:
        dags.append(backfill_dag(spec, spec.backfill))
    for dag in dags:
        dag.validate()
        dag.check_cycle()
    return dags


def all_dags() -> Iterator[DAG]:
    """Yield the DAGs of every stream; an invalid one has the DAG that says so. Whatever a declaration holds,
    the other streams have theirs.

    Before a task runs, Airflow's parsing context names its DAG. Then only the declaration of that DAG's
    stream is read, so that no task takes longer because there are more streams.
    """
    names, asked = streams.names(), get_parsing_context().dag_id
    own = [name for name in names if asked in stream_dag_ids(name)]
    specs = []
    for name in own or names:
        try:
            spec = streams.load(name)
            dags = stream_dags(spec)
            specs.append(spec)
        except ConfigError as error:
            dags = [invalid_dag(name, str(error))]
        except Exception as error:
            log.exception("the DAGs of stream %s cannot be built", name)
            reason = (
                f"stream {name!r}: its DAGs cannot be built: {type(error).__name__}: {shown(str(error))}. "
                "Fix: remove from its stream.toml what was changed last; report this"
            )
            dags = [invalid_dag(name, reason)]
        yield from dags
    if not own and (problems := streams.problems(specs)):
        yield configuration_dag(problems)


def stream_dag_ids(stream: str) -> set[str]:
    """The ids that :func:`stream_dags` may give to its DAGs."""
    kinds = ("load", STREAM, MAINTENANCE, "change", "reconciliation")
    return {*(f"{stream}_{kind}" for kind in kinds), backfill_dag_id(stream)}
