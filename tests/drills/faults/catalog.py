"""Faults of the catalog: it is restored to a backup from before maintenance; it loses the stream's table."""

from __future__ import annotations

import re

from sluice.clients.s3.requests import split
from sluice.config.tables import lake_tables
from sluice.core.tables.storage import REWRITE_ID
from tests.drills.detectors import detected_by_failed_run, detected_by_health
from tests.drills.drill import Drill, DrillContext, Failed
from tests.support.lake import restore_catalog

# A small file of each: compaction rewrites five or more.
BATCHES = 5
BATCHES_SECONDS = 300.0
MAINTENANCE_SECONDS = 1200.0
RECONCILIATION_SECONDS = 300.0
METADATA_FILE = re.compile(r"/(\d+)-[^/]+\.metadata\.json$")


def restore_a_backup_from_before_maintenance(context: DrillContext) -> None:
    """Under the running consumer, which the runbook would have stopped."""
    stream = context.stream
    locations = {name: stream.lake.location(name) for name in lake_tables(stream.spec)}
    backup = {name: location for name, location in locations.items() if location}
    begin = stream.table().metadata.last_updated_ms
    # The background load's batches.
    context.wait_for("batches after the backup", lambda: _batches(context, begin) >= BATCHES, BATCHES_SECONDS)
    run_maintenance(context)
    batches = _batches(context, begin)
    later = [s.summary for s in stream.table().metadata.snapshots if s.timestamp_ms > begin]
    if not any(summary and REWRITE_ID in summary.additional_properties for summary in later):
        raise Failed(f"maintenance rewrote no file of {stream.spec.table} after {batches} batches")
    context.record_injection()
    restore_catalog(stream.stack.lake("consumer"), backup)
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
    try:
        context.wait_for_success(dag, airflow.trigger(dag), MAINTENANCE_SECONDS)
    finally:
        airflow.pause(dag)

    def none_runs() -> bool:
        return all(run["state"] != "running" for run in context.stream.runs(dag))

    context.wait_for(f"the end of {dag}", none_runs, MAINTENANCE_SECONDS)


def detected_by_new_epoch(context: DrillContext) -> tuple[float, str] | None:
    """The writer acquired the lease again, on top of the restored table."""
    commits = context.stream.commits(context.injected_at)
    started = next((commit for commit in commits if commit.kind == "epoch-start"), None)
    return (started.at, f"the writer (epoch {started.epoch})") if started else None


def drop_the_table(context: DrillContext) -> None:
    """Metadata and files stay. Under the running consumer; and reconciliation runs."""
    stream, name = context.stream, context.stream.spec.table
    dag = f"{stream.spec.name}_reconciliation"
    context.unpause(dag)
    # It has passed before, or the next run would be its first.
    context.wait_for_success(dag, stream.airflow.trigger(dag), RECONCILIATION_SECONDS)
    folder = stream.table().location()
    context.state["folder"] = folder
    # Also of a drill that ends before its repair.
    context.cleanup.callback(register_the_table, context)
    context.record_injection()
    stream.stack.lake("consumer").catalog.drop_table(name)
    stream.airflow.trigger(dag)
    context.say(f"{name} dropped from the catalog; its files below {folder} stay")


def register_the_table(context: DrillContext) -> None:
    """As docs/operating.md, Table lost by the catalog; nothing if the catalog has it."""
    stream, name = context.stream, context.stream.spec.table
    if stream.lake.location(name) is not None:
        return
    location = newest_metadata(context)
    stream.stack.lake("consumer").catalog.register_table(name, location)
    context.say(f"{name} registered again: {location}")


def newest_metadata(context: DrillContext) -> str:
    """The table's metadata file with the highest number, the newest of several."""
    bucket, prefix = split(context.state["folder"])
    pages = context.stream.stack.admin_s3().get_paginator("list_objects_v2")
    found = [
        (int(match[1]), one["LastModified"], one["Key"])
        for page in pages.paginate(Bucket=bucket, Prefix=f"{prefix}/metadata/")
        for one in page.get("Contents", [])
        if (match := METADATA_FILE.search(one["Key"]))
    ]
    return f"s3://{bucket}/{max(found)[2]}"


def register_and_start(context: DrillContext) -> None:
    """The runbook: stop, register, start on request."""
    stream = context.stream
    stream.stop_stream()
    register_the_table(context)
    run = stream.airflow.trigger(stream.supervision, {"action": "start", "component": "consumer"})
    context.say(f"{stream.supervision} started the consumer: {stream.airflow.wait(stream.supervision, run)}")


DRILLS = [
    Drill(
        "catalog_restored",
        "The catalog restored to before a compaction, under the running consumer",
        restore_a_backup_from_before_maintenance,
        [detected_by_new_epoch],
        # It fails if a file is missing that the tables, or a state recorded before, need.
        afterwards=run_maintenance,
    ),
    Drill(
        "table_dropped",
        "The table dropped from the catalog, under the running consumer and reconciliation",
        drop_the_table,
        [detected_by_failed_run("reconciliation"), detected_by_health],
        repair=register_and_start,
    ),
]
