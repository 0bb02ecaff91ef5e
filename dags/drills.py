"""
### Drills: break the stack on purpose, and see whether it notices, recovers and loses nothing

One DAG per drill, each against the stack that this Airflow belongs to. Its task `drill` starts the drill as a
process of its own, which outlives even this Airflow's scheduler, and follows its log.

A drill waits for a calm stream with a trickle of records of its own, breaks one thing, and measures until it
is noticed and until records are published again. Then it proves that every offset of the topic, and every
record that it sent, is in the lake exactly once, and ends with a load. It is red, with the reason in one
line, when any of that is not so. Whatever comes, it mends what it broke. Its figures go to the task's return
value and to `build/drills.json`.

A drill unpauses the stream's `…_load` and `…_stream`. One drill at a time. `disk_full` needs a disk of its
own, which only `make drill` prepares. Never run one on a stack whose downtime matters to anybody.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from sluice.operators.drill import DrillOperator

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
    "airflow_killed": "kill -9 of scheduler, triggerer and consumer",
    "bucket_errors": "MinIO answers 500 and 503 for the table's data only",
    "disk_full": "MinIO's disk is full",
}

for name, what in DRILLS.items():
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
            # For an attempt that died with the scheduler: the next one finds the drill where it is.
            "retries": 2,
            "retry_delay": timedelta(seconds=20),
            "execution_timeout": timedelta(hours=1),
        },
        params={
            "at_once": Param(
                False,
                type="boolean",
                title="At once",
                description="Trigger supervision right after the break, and do not wait for its schedule",
            )
        },
    ):
        DrillOperator(task_id="drill", drill=name, at_once="{{ params.at_once }}")
