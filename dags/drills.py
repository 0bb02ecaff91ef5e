"""
### Drills: break the stack on purpose, and see whether it notices, recovers and loses nothing

One DAG per drill, on the embedded stack only, each against the stack that this Airflow belongs to. Its task
`drill` runs `make drill`'s command and shows its output. `airflow_killed` would kill this task too, so it is
`make drill`'s alone.

A drill first waits until the stream is healthy and sends background records, then breaks one thing, and
measures the time until Airflow detects it and until records are published again. Then it verifies that every
offset of the topic, and every record that it sent, is in the lake exactly once, and ends with a load. It
fails, with the reason in one line, if any of that is not so. It repairs what it broke, also if it fails or
the task is stopped. Its figures go to the task's return value and to `build/drills.json`.

A drill unpauses the stream's `…_load` and `…_stream`. One drill at a time. `disk_full` needs a disk of its
own, which only `make drill` prepares. Never run one on a stack whose downtime matters to anybody.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from sluice.operators.drill import HOME_VARIABLE, DrillOperator

DRILLS = {
    "poison_record": "A record that is no Avro, and a tombstone, at the head of a partition",
    "consumer_killed": "kill -9 of the consumer between the append of a batch and its publishing",
    "consumer_hung": "SIGSTOP of the consumer: alive, but nothing moves",
    "consumer_zombie": "An owner is suspended in a publish, and wakes under its successor",
    "checkpoint_damaged": "Rubbish in the running owner's checkpoint, then no checkpoint",
    "catalog_killed": "kill -9 of PostgreSQL in the middle of a publish",
    "broker_killed": "kill -9 of Kafka's broker",
    "broker_away": "Kafka's broker is away for three minutes",
    "minio_killed": "kill -9 of MinIO",
    "bucket_errors": "MinIO answers 500 and 503 for the table's data only",
    "disk_full": "MinIO's disk is full",
}

# A stack that is not embedded is none to break.
for name, what in DRILLS.items() if HOME_VARIABLE in os.environ else ():
    with DAG(
        dag_id=f"drill_{name}",
        dag_display_name=f"Drill: {name.replace('_', ' ')}",
        description=what,
        doc_md=__doc__,
        schedule=None,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=True,
        dagrun_timeout=timedelta(hours=2),
        tags=["drill", "sluice"],
        default_args={
            "owner": "sluice",
            # For an attempt that died with its Airflow: the next one repairs what that left.
            "retries": 1,
            "retry_delay": timedelta(seconds=20),
            "execution_timeout": timedelta(hours=1),
        },
        params={
            "trigger_immediately": Param(
                False,
                type="boolean",
                title="At once",
                description="Trigger supervision right after the break, and do not wait for its schedule",
            )
        },
    ) as dag:
        DrillOperator(task_id="drill", drill=name, trigger_immediately="{{ params.trigger_immediately }}")
