"""The DAGs of every stream, from its stream.toml: load, backfill, supervision, maintenance, change,
reconciliation."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable
from airflow.sdk.bases.operator import chain

from sluice.airflow import forms
from sluice.airflow.assets import loaded, loaded_interval
from sluice.airflow.dags import docs
from sluice.airflow.dags.make_dag import make_dag
from sluice.airflow.dags.supervision_dags import configuration_dag, invalid_dag, supervision_dag
from sluice.airflow.operators.change.approval import ApproveChangeOperator
from sluice.airflow.operators.change.steps import (
    ApplyChangeOperator,
    PlanChangeOperator,
    VerifyChangeOperator,
)
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
from sluice.airflow.operators.maintenance.compaction import CompactOperator, VerifyCompactionOperator
from sluice.airflow.operators.maintenance.reconciliation import (
    CheckFilesOperator,
    ObserveOffsetsOperator,
    VerifyTableOperator,
)
from sluice.airflow.operators.maintenance.removal import (
    RecordMaintenanceOperator,
    RecordMetadataOperator,
    RemoveFilesOperator,
)
from sluice.airflow.sensors.published import PublishedSensor
from sluice.changes.approval import APPROVE
from sluice.changes.plan import PLAN
from sluice.config import streams
from sluice.config.reading.toml import ConfigError
from sluice.config.reading.values import shown
from sluice.config.sections.backfill import Backfill
from sluice.config.sections.backfill import dag_id as backfill_dag_id
from sluice.config.stream import SourceType, StreamSpec

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


def maintenance_dag(spec: StreamSpec) -> DAG:
    """``<stream>_maintenance``: compaction and late deletion of files, by default once a day."""
    with make_dag(
        f"{spec.name}_maintenance",
        f"{spec.label}: maintenance",
        "Rewrites small files into a few large ones with the same rows, and deletes files that nothing needs",
        tags=["maintenance", spec.name],
        stream=spec.name,
        retries=2,
        retry_delay=timedelta(minutes=1),
        task_timeout=timedelta(hours=2),
        schedule=timedelta(hours=spec.maintenance.schedule_hours),
        params=forms.maintenance(spec),
    ) as dag:
        steps = [
            # Before anything changes, so that a catalog restored to before this run finds its files.
            RecordMetadataOperator(task_id="record_metadata", stream=spec.name),
            CompactOperator(task_id="compact", stream=spec.name),
            # Also of a job that failed: it may have published the first of its tables.
            VerifyCompactionOperator(task_id="verify_compaction", stream=spec.name, trigger_rule="all_done"),
            # Where the catalog maintains the tables, the steps before are skipped, and each says why.
            RemoveFilesOperator(task_id="remove_files", stream=spec.name, trigger_rule="none_failed"),
            RecordMaintenanceOperator(
                task_id="record_maintenance", stream=spec.name, trigger_rule="none_failed"
            ),
        ]
        chain(*steps)
        # A compaction that failed for one table, and is verified, stops no removal; but the run fails.
        steps[1] >> steps[4]
    dag.doc_md = docs.maintenance(spec, steps)
    return dag


def change_dag(spec: StreamSpec) -> DAG:
    """``<stream>_change``: replay, retry from quarantine, revert, redo and replace, on request."""
    with make_dag(
        f"{spec.name}_change",
        f"{spec.label}: change",
        "Replays, reverts or redoes rows, or loads what was quarantined: verified, and in one commit",
        tags=["change", spec.name],
        stream=spec.name,
        retries=2,
        task_timeout=timedelta(hours=3),
        # Those that wait for an answer block no other.
        max_active_runs=16,
        # It has no schedule: a request is not to wait unseen.
        is_paused_upon_creation=False,
        params=forms.change(),
    ) as dag:
        steps = [
            PlanChangeOperator(task_id=PLAN, stream=spec.name),
            ApproveChangeOperator(task_id=APPROVE, stream=spec.name),
            ApplyChangeOperator(task_id="apply_change", stream=spec.name, max_active_tis_per_dag=1),
            VerifyChangeOperator(task_id="verify_change", stream=spec.name),
        ]
        chain(*steps)
    dag.doc_md = docs.change(spec, steps)
    return dag


def reconciliation_dag(spec: StreamSpec) -> DAG:
    """``<stream>_reconciliation``: what the systems say of the stream, compared, by default once an hour."""
    with make_dag(
        f"{spec.name}_reconciliation",
        f"{spec.label}: reconciliation",
        "Compares the topic, the table, the quarantine, the consumer group and the stored files",
        tags=["reconciliation", spec.name],
        stream=spec.name,
        retries=2,
        task_timeout=timedelta(hours=2),
        schedule=timedelta(hours=spec.maintenance.reconciliation_hours),
        params=forms.reconciliation(),
    ) as dag:
        # Side by side: each finding is of its own.
        steps = [
            ObserveOffsetsOperator(task_id="observe_offsets", stream=spec.name),
            VerifyTableOperator(task_id="verify_table", stream=spec.name),
            CheckFilesOperator(task_id="check_files", stream=spec.name),
        ]
    dag.doc_md = docs.reconciliation(spec, steps)
    return dag


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
    the other streams have theirs."""
    specs = []
    for name in streams.names():
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
    if problems := streams.problems(specs):
        yield configuration_dag(problems)
