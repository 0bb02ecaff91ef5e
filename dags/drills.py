"""
### Drill: inject a fault, and check that the stack detects it, recovers and loses no record

On the embedded stack without external systems only, against the stack of this Airflow. Choose a drill; task
`drill` runs the command of `make drill` and shows its output. `airflow_killed` would kill this task too, so
only `make drill` runs it.

A drill first waits until the stream is healthy and sends background records, then injects one fault, and
measures the time until Airflow detects it and until records are published again. Then it verifies that every
offset of the topic, and every record that it sent, is in the lake exactly once, and ends with a load. It
fails, with the reason in one line, unless all of this holds. It repairs the fault, also if it fails or the
task is stopped. Its metrics are the task's return value, and in `build/drills.json`.

A drill unpauses the stream's `…_load` and `…_stream`; `record_dated_ahead` also those of
`isp_hits`, until its end. `catalog_restored` runs the stream's `…_maintenance` twice, `table_dropped` its
`…_reconciliation`. One drill runs at a time. `disk_full` needs a disk of its own, which only `make drill`
prepares. Never run a drill on a stack that is in use.
"""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import Param

from sluice.airflow.dags.make_dag import make_dag
from sluice.airflow.operators.supervision.drill import HOME_VARIABLE, DrillOperator

DRILLS = {
    "consumer_killed": "kill -9 of the consumer between the staging of a batch and its publish",
    "consumer_hung": "SIGSTOP of the consumer: it is alive, but makes no progress",
    "consumer_zombie": "A writer is paused during publish, and continues when it is fenced",
    "checkpoint_damaged": "A corrupt checkpoint of the running writer, then no checkpoint",
    "record_dated_ahead": "A hit of the ISP stream dated 20 hours ahead, then hits of now: none is late",
    "object_uploaded_twice": "The same bytes uploaded again under a loaded key, and loaded again",
    "malformed_record": "A malformed record and a tombstone at the head of a partition",
    "everything_rejected": "Another producer sends records in Confluent's format, and nothing else arrives",
    "catalog_restored": "The catalog restored to before a compaction, under the running consumer",
    "table_dropped": "The table dropped from the catalog, under the running consumer and reconciliation",
    "catalog_killed": "kill -9 of PostgreSQL during a publish",
    "broker_killed": "kill -9 of Kafka's broker",
    "broker_away": "Kafka's broker is unreachable for three minutes",
    "minio_killed": "kill -9 of MinIO",
    "bucket_errors": "MinIO answers 500 and 503 for the table's data only",
    "disk_full": "MinIO's disk is full",
}

# The stack sets it for its Airflow, unless it runs in containers or has external systems.
if HOME_VARIABLE in os.environ:
    with make_dag(
        "drill",
        "Drill",
        "Injects a fault and checks detection, recovery and data",
        tags=["drill"],
        # For an attempt that died with its Airflow: the next one repairs what that left.
        retries=1,
        task_timeout=timedelta(hours=1),
        doc_md=__doc__,
        is_paused_upon_creation=True,
        params={
            "drill": Param(
                "consumer_killed",
                type="string",
                title="Drill",
                description="The fault to inject",
                enum=list(DRILLS),
                values_display=DRILLS,
            ),
            "trigger_immediately": Param(
                False,
                type="boolean",
                title="Trigger immediately",
                description="Trigger supervision right after the fault, instead of waiting for its schedule",
            ),
        },
    ) as dag:
        DrillOperator(task_id="drill")
