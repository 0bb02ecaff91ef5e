"""
### Load generated hits of an ISP's customers, and prove it

One run makes hits and takes them through the topic `isp-hits` into the lake's table `raw.isp_hits`: most of
them in the evening, to few of many zipcodes; some late, some repeated, some malformed. The stream's queries
count them into a database and topics. It ends green only if every hit is in the lake exactly once, or in
quarantine with its reason, and the database's and the topics' counts are the lake's.

| step | what it does | when it is red |
|---|---|---|
| `provision_topic` | the topic is as `stream.toml` declares it | it would have to shrink |
| `provision_sinks` | the queries' tables and topics are there | a database does not answer, or refuses |
| `ensure_stream` | the consumer runs and owns the stream | it dies, or does not own it in 3 minutes |
| `ensure_queries` | the process of the queries runs | somebody holds it |
| `produce` | Spark makes the hits and sends them, each with its identity | they would lie too far ahead |
| `landed` | waits until all of it is published | the consumer is down, or the time is up |
| `validate` | proves every offset and hit anew | a gap, a duplicate, a missing hit |
| `counted` | waits until every query has counted all of it | the queries are down, or the time is up |
| `check_sinks` | counts the lake's rows anew, against every sink | a result is not as in the lake |
| `audit` | counts objects, versions and delete markers | over the stream's budget |
| `announce` | an event of the asset `isp_hits` that carries the proof | there is no proof |

Every step may be cleared and run again, and runs may overlap: the same values are the same hits, which are
loaded once, whatever is repeated. A seed that is left empty is another one in every run.

---

### Supervise the ISP stream

While this DAG is not paused, the stream's consumer and its queries shall run. Every two minutes they are
looked at, and what their verdicts ask for is done. Only Airflow starts them again when they end: once for
each end, whoever else asks at the same time.

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
| `provision_sinks` | looks at the queries' tables and topics, and makes what is missing | no answer |
| `tend_queries` | looks at the queries, restarts them, listens for their heartbeat | no heartbeat |

Trigger it with an action to restart, stop or start the stream: both processes. A stopped stream is held:
nothing starts it until it is started or restarted by such an order. Verdicts that changed, restarts, orders
and answers are kept in the ledger, under `history`, for each process apart. Steps are not retried: the next
run looks anew. While a question waits for its answer, nothing is looked at.
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
from sluice.operators.check_sinks import CheckSinksOperator
from sluice.operators.ensure_part import EnsurePartOperator
from sluice.operators.ensure_stream import EnsureStreamOperator
from sluice.operators.produce import ProduceOperator
from sluice.operators.provision_sinks import ProvisionSinksOperator
from sluice.operators.provision_topic import ProvisionTopicOperator
from sluice.operators.restart_stream import RestartStreamOperator
from sluice.operators.stop_stream import StopStreamOperator
from sluice.operators.tend import TendOperator
from sluice.operators.validate import ValidateOperator
from sluice.sensors.landed import LandedSensor
from sluice.sensors.moved import MovedSensor
from sluice.sensors.stream_health import StreamHealthSensor

STREAM = "isp_hits"
LOAD_DOC, STREAM_DOC = __doc__.split("\n---\n")

with DAG(
    dag_id="isp_hits_load",
    dag_display_name="ISP hits: load",
    description="Generated hits of an ISP's customers through Kafka into the lake, each record proved",
    doc_md=LOAD_DOC,
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=4,
    # Longer than the longest sending at a rate, with a retry of it that sends little more than the rest.
    dagrun_timeout=timedelta(hours=28),
    tags=["isp_hits", "load", "sluice"],
    default_args={
        "owner": "sluice",
        "retries": 2,
        "retry_delay": timedelta(seconds=20),
        "execution_timeout": timedelta(minutes=10),
    },
    params={
        "rows": Param(
            100_000,
            type="integer",
            minimum=1,
            maximum=1_000_000_000,
            title="Hits",
            description="So many records are sent, repeated and malformed ones among them",
        ),
        "begin": Param(
            None,
            type=["string", "null"],
            format="date-time",
            title="Begin",
            description="When the first hit comes, as 2026-11-21T10:00:00Z; left empty, in this hour",
        ),
        "hours": Param(
            1,
            type="integer",
            minimum=1,
            maximum=8_784,
            title="Hours",
            description="Over so many hours the hits are spread; they must not end more than a day ahead",
        ),
        "per_second": Param(
            0,
            type="integer",
            minimum=0,
            maximum=1_000_000_000,
            title="Hits per second",
            description="How fast they are sent; 0: as fast as it goes. At most 12 hours in all",
        ),
        "seed": Param(
            None,
            type=["integer", "null"],
            minimum=0,
            maximum=9_007_199_254_740_991,
            title="Seed",
            description="The same seed and values make the same hits; left empty, others in every run",
        ),
        "zipcodes": Param(
            2_000,
            type="integer",
            minimum=1,
            maximum=50_000,
            title="Zipcodes",
            description="How many there are; the first gets about a tenth of all hits, the last few",
        ),
        "isps": Param(
            40,
            type="integer",
            minimum=1,
            maximum=1_000,
            title="ISPs",
            description="How many there are; a household has one of them",
        ),
        "late_percent": Param(
            2,
            type="number",
            minimum=0,
            maximum=100,
            title="Late hits (%)",
            description="This share comes later than it should, by half of the minutes below to all of them",
        ),
        "late_minutes": Param(
            30,
            type="integer",
            minimum=1,
            maximum=1_440,
            title="Latest (minutes)",
            description="How late a late hit comes at most",
        ),
        "duplicate_percent": Param(
            1,
            type="number",
            minimum=0,
            maximum=100,
            title="Repeated hits (%)",
            description="This share repeats an earlier hit in a record of its own",
        ),
        "malformed_percent": Param(
            0.5,
            type="number",
            minimum=0,
            maximum=100,
            title="Malformed hits (%)",
            description="This share is broken in one of ten ways, and ends in quarantine",
        ),
        "max_quarantined_percent": Param(
            5,
            type="number",
            minimum=0,
            maximum=100,
            title="Quarantine limit (%)",
            description="The load is red when more than this share of its hits is in quarantine",
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
        >> ProvisionSinksOperator(task_id="provision_sinks", stream=STREAM)
        >> EnsureStreamOperator(task_id="ensure_stream", stream=STREAM)
        >> EnsurePartOperator(task_id="ensure_queries", stream=STREAM, part="queries")
        # One producer at a time: a second run finds in the ledger what the first has sent.
        >> ProduceOperator(
            task_id="produce",
            stream=STREAM,
            max_active_tis_per_dag=1,
            execution_timeout=timedelta(hours=13),
        )
        >> LandedSensor(task_id="landed", stream=STREAM)
        >> ValidateOperator(task_id="validate", stream=STREAM, execution_timeout=timedelta(hours=1))
        >> LandedSensor(task_id="counted", stream=STREAM, part="queries")
        >> CheckSinksOperator(task_id="check_sinks", stream=STREAM, execution_timeout=timedelta(hours=1))
        >> AuditOperator(task_id="audit", stream=STREAM, execution_timeout=timedelta(minutes=30))
        >> AnnounceOperator(
            task_id="announce", stream=STREAM, asset=Asset(name=STREAM, uri="sluice://lake/raw/isp_hits")
        )
    )

with DAG(
    dag_id="isp_hits_stream",
    dag_display_name="ISP hits: stream",
    description="Is the ISP stream well? Restarts it, asks a person, or raises the alarm",
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
    tags=["isp_hits", "sluice", "stream"],
    default_args={"owner": "sluice", "retries": 0, "execution_timeout": timedelta(minutes=5)},
    params={
        "action": Param(
            Action.SUPERVISE.value,
            type="string",
            enum=[action.value for action in Action],
            title="Action",
            description="supervise: look, and do what is needed. restart: start consumer and queries "
            "anew. stop: end them, and keep them stopped. start: end that, and start what is down",
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

    # Beside the consumer's lane: the queries are well or not by themselves, whatever their sinks are.
    ProvisionSinksOperator(task_id="provision_sinks", stream=STREAM) >> TendOperator(
        task_id="tend_queries", stream=STREAM, part="queries", trigger_rule="all_done"
    )
