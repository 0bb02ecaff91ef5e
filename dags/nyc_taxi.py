"""
### Load New York's taxi trips, and prove it

One run takes CSV objects of the source bucket through the topic `nyc-avro-topic` into the lake's table
`raw.nyc_taxi`, and ends green only if every row of theirs is there exactly once, or in quarantine with its
reason.

| step | what it does | when it is red |
|---|---|---|
| `provision_topic` | the topic is as `stream.toml` declares it | it would have to shrink |
| `ensure_stream` | the consumer runs and owns the stream | it dies, or does not own it in 3 minutes |
| `produce` | Spark sends the objects' rows, each with its identity | an object is missing or damaged |
| `landed` | waits until all of it is published | the consumer is down, or the time is up |
| `validate` | proves every offset and row anew | a gap, a duplicate, a missing row |
| `audit` | counts objects, versions and delete markers | over the stream's budget |
| `announce` | an event of the asset `nyc_taxi` that carries the proof | there is no proof |

Every step may be cleared and run again, and runs may overlap: an object version is loaded once, whatever is
repeated. To load a corrected file, upload it under the same name: its new version is a new source.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Asset, Param

from sluice.operators.announce import AnnounceOperator
from sluice.operators.audit import AuditOperator
from sluice.operators.ensure_stream import EnsureStreamOperator
from sluice.operators.produce import ProduceOperator
from sluice.operators.provision_topic import ProvisionTopicOperator
from sluice.operators.stream_dags import decision_dag, supervision_dag
from sluice.operators.validate import ValidateOperator
from sluice.sensors.landed import LandedSensor

STREAM = "nyc_taxi"

with DAG(
    dag_id="nyc_taxi_load",
    dag_display_name="NYC taxi: load",
    description="Taxi trips from CSV objects through Kafka into the lake, each row proved",
    doc_md=__doc__,
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=4,
    dagrun_timeout=timedelta(hours=4),
    tags=["load", "nyc_taxi", "sluice"],
    default_args={
        "owner": "sluice",
        "retries": 2,
        "retry_delay": timedelta(seconds=20),
        "execution_timeout": timedelta(minutes=10),
    },
    params={
        "source_prefix": Param(
            "nyc_taxi/",
            type="string",
            title="Source prefix",
            description="Every .csv and .csv.gz object of the source bucket under this prefix is loaded",
            pattern="^[^/].*$",
        ),
        "objects": Param(
            [],
            type=["array", "null"],
            items={"type": "string", "pattern": "^[^/].*\\.csv(\\.gz)?$"},
            title="Objects",
            description="Keys in the source bucket, one per line; left empty, the prefix above is loaded",
        ),
        "max_quarantined_percent": Param(
            5,
            type="number",
            minimum=0,
            maximum=100,
            title="Quarantine limit (%)",
            description="The load is red when more than this share of its rows is in quarantine",
        ),
        "landed_timeout_minutes": Param(
            30,
            type="integer",
            minimum=1,
            maximum=180,
            title="Time to land (minutes)",
            description="How long to wait, after producing, until everything is published",
        ),
    },
):
    (
        ProvisionTopicOperator(task_id="provision_topic", stream=STREAM)
        >> EnsureStreamOperator(task_id="ensure_stream", stream=STREAM)
        # One producer at a time: a second run finds in the ledger what the first has sent.
        >> ProduceOperator(
            task_id="produce",
            stream=STREAM,
            max_active_tis_per_dag=1,
            execution_timeout=timedelta(hours=2),
        )
        >> LandedSensor(task_id="landed", stream=STREAM)
        >> ValidateOperator(task_id="validate", stream=STREAM, execution_timeout=timedelta(hours=1))
        >> AuditOperator(task_id="audit", stream=STREAM, execution_timeout=timedelta(minutes=30))
        >> AnnounceOperator(
            task_id="announce", stream=STREAM, asset=Asset(name=STREAM, uri="sluice://lake/raw/nyc_taxi")
        )
    )

supervision_dag(STREAM, "NYC taxi", ("consumer",))
decision_dag(STREAM, "NYC taxi")
