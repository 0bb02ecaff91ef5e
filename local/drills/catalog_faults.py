"""A fault of the catalog: its database is restored to a backup, and maintenance ran since."""

from __future__ import annotations

from local.drills.drill import Drill, DrillContext, Failed
from local.stack import lake
from sluice.model.spec.maintenance import lake_tables
from sluice.model.verification.storage import REWRITE_ID

# A small file of each: compaction rewrites five or more.
BATCHES = 5
BATCHES_SECONDS = 300.0
MAINTENANCE_SECONDS = 1200.0


def restore_a_backup_from_before_maintenance(context: DrillContext) -> None:
    """Under the running consumer, which the runbook would have stopped."""
    stream = context.stream
    locations = {name: stream.lake.location(name) for name in lake_tables(stream.spec)}
    backup = {name: location for name, location in locations.items() if location}
    begin = stream.table().metadata.last_updated_ms
    # Of the background load.
    context.wait_for("batches after the backup", lambda: _batches(context, begin) >= BATCHES, BATCHES_SECONDS)
    run_maintenance(context)
    batches = _batches(context, begin)
    later = [s.summary for s in stream.table().metadata.snapshots if s.timestamp_ms > begin]
    if not any(summary and REWRITE_ID in summary.additional_properties for summary in later):
        raise Failed(f"maintenance rewrote no file of {stream.spec.table} after {batches} batches")
    context.record_injection()
    lake.restore_catalog(stream.stack.lake("consumer"), backup)
    context.say(f"{', '.join(backup)}: back at the backup, {batches} batches and a compaction ago")


def _batches(context: DrillContext, since_ms: int) -> int:
    return sum(commit.kind == "batch" for commit in context.stream.commits(since_ms / 1000))


def run_maintenance(context: DrillContext) -> None:
    """Until no run of it goes on: the schedule adds one when the DAG is unpaused. Raises Failed."""
    airflow, dag = context.stream.airflow, f"{context.stream.spec.name}_maintenance"
    airflow.wait_for_dag(dag)
    if not airflow.is_paused(dag):
        context.cleanup.callback(airflow.unpause, dag)
    airflow.unpause(dag)
    run = airflow.trigger(dag)
    state = airflow.wait(dag, run, MAINTENANCE_SECONDS)
    airflow.pause(dag)
    if state != "success":
        raise Failed(f"run {run} of {dag} was {state}")
    path = f"/dags/{dag}/dagRuns"

    def none_runs() -> bool:
        return not airflow.request("GET", path, params={"state": "running"})["dag_runs"]

    context.wait_for(f"the end of {dag}", none_runs, MAINTENANCE_SECONDS)


def detected_by_new_epoch(context: DrillContext) -> tuple[float, str] | None:
    """The writer acquired the lease again, on top of the restored table."""
    commits = context.stream.commits(context.injected_at)
    started = next((commit for commit in commits if commit.kind == "epoch-start"), None)
    return (started.at, f"the writer (epoch {started.epoch})") if started else None


DRILLS = [
    Drill(
        "catalog_restored",
        "the catalog's tables restored to a backup, after batches and maintenance",
        restore_a_backup_from_before_maintenance,
        [detected_by_new_epoch],
        # It fails if a file is missing that the tables, or a state recorded before, need.
        afterwards=run_maintenance,
    ),
]
