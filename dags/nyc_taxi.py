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

---

### Supervise the taxi stream

While this DAG is not paused, the consumer of the stream shall run. Every two minutes it is looked at, and
what its verdict asks for is done. Only Airflow starts it again when it ends: once for each end, whoever else
asks at the same time.

| step | what it does | when it is red |
|---|---|---|
| `observe` | looks until the verdict is clear, and chooses what follows | it could not look |
| `quiet` | nothing: the stream is well, or held | never |
| `restart` | starts the consumer anew: it hangs, or ended, or a person asks | no answer |
| `ask` | restarts did not help: asks a person, with the evidence, for an hour | no answer of Airflow's |
| `answer` | records what was answered, and does it | as `restart` and `stop` |
| `verify` | a new owner publishes, or has nothing left to publish | not within two minutes |
| `stop` | by a person's order: holds the stream, and ends its process | it does not end |
| `alarm` | says what no restart mends, and what mends it | always |

Trigger it with an action to restart, stop or start the stream. A stopped stream is held: nothing starts it
until it is started or restarted by such an order. Verdicts that changed, restarts, orders and answers are
kept in the ledger, under `history`. Steps are not retried: the next run looks anew.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AsyncCallback, DeadlineAlert, DeadlineReference, Param

from sluice.model.orders import Action
from sluice.operators.alarm import AlarmOperator
from sluice.operators.announce import AnnounceOperator
from sluice.operators.ask import AskOperator
from sluice.operators.audit import AuditOperator
from sluice.operators.carry_out import CarryOutOperator
from sluice.operators.ensure_stream import EnsureStreamOperator
from sluice.operators.produce import ProduceOperator
from sluice.operators.provision_topic import ProvisionTopicOperator
from sluice.operators.restart_stream import RestartStreamOperator
from sluice.operators.stop_stream import StopStreamOperator
from sluice.operators.validate import ValidateOperator
from sluice.sensors.landed import LandedSensor
from sluice.sensors.moved import MovedSensor
from sluice.sensors.stream_health import StreamHealthSensor

STREAM = "nyc_taxi"
LOAD_DOC, STREAM_DOC = __doc__.split("\n---\n")

with DAG(
    dag_id="nyc_taxi_load",
    dag_display_name="NYC taxi: load",
    description="Taxi trips from CSV objects through Kafka into the lake, each row proved",
    doc_md=LOAD_DOC,
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

with DAG(
    dag_id="nyc_taxi_stream",
    dag_display_name="NYC taxi: stream",
    description="Is the taxi stream well? Restarts it, asks a person, or raises the alarm",
    doc_md=STREAM_DOC,
    schedule=timedelta(minutes=2),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    # Longer than a person is waited for.
    dagrun_timeout=timedelta(minutes=75),
    # That a run came to no end: three intervals, which is more than observing, acting and verifying take.
    deadline=DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(minutes=6),
        callback=AsyncCallback("sluice.triggers.missed.missed", kwargs={"stream": STREAM}),
    ),
    tags=["nyc_taxi", "sluice", "stream"],
    default_args={"owner": "sluice", "retries": 0, "execution_timeout": timedelta(minutes=5)},
    params={
        "action": Param(
            Action.SUPERVISE.value,
            type="string",
            enum=[action.value for action in Action],
            title="Action",
            description="supervise: look, and do what is needed. restart: start the consumer anew. stop: end "
            "it, and keep it stopped. start: end that, and start it if it does not run",
        ),
        "why": Param(
            None,
            type=["string", "null"],
            maxLength=500,
            title="Why",
            description="For the stream's history, and for whoever finds it stopped",
        ),
    },
):
    observe = StreamHealthSensor(task_id="observe", stream=STREAM)
    restart = RestartStreamOperator(task_id="restart", stream=STREAM)
    ask = AskOperator(task_id="ask", stream=STREAM)
    answer = CarryOutOperator(task_id="answer", stream=STREAM)
    verify = MovedSensor(task_id="verify", stream=STREAM, trigger_rule="none_failed_min_one_success")

    observe >> [
        restart,
        ask,
        StopStreamOperator(task_id="stop", stream=STREAM),
        AlarmOperator(task_id="alarm", stream=STREAM),
        EmptyOperator(task_id="quiet"),
    ]
    ask >> answer
    [restart, answer] >> verify
