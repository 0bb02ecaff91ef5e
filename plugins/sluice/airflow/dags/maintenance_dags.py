"""The DAGs of a stream beside its loads: maintenance, change, reconciliation."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG
from airflow.sdk.bases.operator import chain

from sluice.airflow import forms
from sluice.airflow.dags import docs
from sluice.airflow.dags.make_dag import make_dag
from sluice.airflow.operators.change.approval import ApproveChangeOperator
from sluice.airflow.operators.change.steps import (
    ApplyChangeOperator,
    PlanChangeOperator,
    VerifyChangeOperator,
)
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
    RemoveHistoryOperator,
)
from sluice.changes.approval import APPROVE
from sluice.changes.plan import PLAN
from sluice.config.stream import StreamSpec


def maintenance_dag(spec: StreamSpec) -> DAG:
    """``<stream>_maintenance``: compaction and late deletion of files and history, by default once a day."""
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
            RemoveHistoryOperator(task_id="remove_history", stream=spec.name, trigger_rule="none_failed"),
            RecordMaintenanceOperator(
                task_id="record_maintenance", stream=spec.name, trigger_rule="none_failed"
            ),
        ]
        chain(*steps)
        # A compaction that failed for one table, and is verified, stops no removal; but the run fails.
        steps[1] >> steps[-1]
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
