"""
### Load what the Wikipedia stream gives, and prove it

One run takes events of Wikimedia's feed of recent changes through the topic `wiki-changes` into the lake's
table `raw.wiki_changes`, until so many events or minutes are over. It ends green only if every record that
came onto the topic meanwhile is there exactly once, or in quarantine with its reason.

| step | what it does | when it is red |
|---|---|---|
| `provision_topic` | the topic is as `stream.toml` declares it | it would have to shrink |
| `provision_sinks` | the queries' tables and topics are there | a database does not answer, or refuses |
| `ensure_stream` | the consumer runs and owns the stream | it dies, or does not own it in 3 minutes |
| `ensure_queries` | the process of the queries runs | somebody holds it |
| `produce` | sends what the feed gives; where the stream's own producer does, counts that | nothing came |
| `landed` | waits until all of it is published | the consumer is down, or the time is up |
| `validate` | proves every offset and event id anew | a gap, a duplicate, an event twice |
| `counted` | waits until every query has counted all of it | the queries are down, or the time is up |
| `check_sinks` | counts the lake's rows anew, against every sink | a result is not as in the lake |
| `audit` | counts objects, versions and delete markers | over the stream's budget |
| `announce` | an event of the asset `wiki_changes` that carries the proof | there is no proof |

Every step may be cleared and run again, and runs may overlap: one producer sends at a time. A run's range
begins where the topic ended before its first attempt, so what a killed attempt sent is proved with the rest.

---

### Supervise the Wikipedia stream

While this DAG is not paused, the stream's consumer, producer and queries shall run. Every two minutes they
are looked at, and what their verdicts ask for is done. Only Airflow starts them again when they end: once for
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
| `tend_producer` | looks at the producer, restarts it, listens for its heartbeat | cut off, no heartbeat |
| `provision_sinks` | looks at the queries' tables and topics, and makes what is missing | no answer |
| `tend_queries` | the same for the queries | the same |

Trigger it with an action to restart, stop or start the stream: all three processes. A stopped stream is held:
nothing starts it until it is started or restarted by such an order. Verdicts that changed, restarts, orders
and answers are kept in the ledger, under `history`, for each process apart. Steps are not retried: the next
run looks anew. While a question waits for its answer, nothing is looked at.

---

### Compact the Wikipedia table

The table has a partition for each date and server, and each batch adds a file to each of them. Once a day the
files of closed dates become few large ones.

| step | what it does | when it is red |
|---|---|---|
| `compact` | Spark rewrites the files of the dates before `before` | the same rows cannot be shown |
| `check` | reads both sides again without Spark: the same coordinates, as many rows | they differ |

The job publishes nothing of which it cannot show that the same rows are there, each once. The
stream runs on meanwhile: its owner sees that the table was moved, and takes over again.
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
from sluice.operators.check_compaction import CheckCompactionOperator
from sluice.operators.check_sinks import CheckSinksOperator
from sluice.operators.compact import CompactOperator
from sluice.operators.ensure_part import EnsurePartOperator
from sluice.operators.ensure_stream import EnsureStreamOperator
from sluice.operators.produce_feed import ProduceFeedOperator
from sluice.operators.provision_sinks import ProvisionSinksOperator
from sluice.operators.provision_topic import ProvisionTopicOperator
from sluice.operators.restart_stream import RestartStreamOperator
from sluice.operators.stop_stream import StopStreamOperator
from sluice.operators.tend import TendOperator
from sluice.operators.validate import ValidateOperator
from sluice.sensors.landed import LandedSensor
from sluice.sensors.moved import MovedSensor
from sluice.sensors.stream_health import StreamHealthSensor

STREAM = "wiki_changes"
LOAD_DOC, STREAM_DOC, COMPACT_DOC = __doc__.split("\n---\n")

with DAG(
    dag_id="wiki_changes_load",
    dag_display_name="Wikipedia changes: load",
    description="Events of Wikimedia's feed through Kafka into the lake, each record proved",
    doc_md=LOAD_DOC,
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=4,
    # Longer than the longest run of the producer, with a retry of it that counts from the beginning.
    dagrun_timeout=timedelta(hours=28),
    tags=["load", "sluice", "wiki_changes"],
    default_args={
        "owner": "sluice",
        "retries": 2,
        "retry_delay": timedelta(seconds=20),
        "execution_timeout": timedelta(minutes=10),
    },
    params={
        "events": Param(
            10_000,
            type="integer",
            minimum=1,
            maximum=10_000_000,
            title="Events",
            description="The run sends so many events of the feed, or fewer if the time below is up before",
        ),
        "minutes": Param(
            5,
            type="integer",
            minimum=1,
            maximum=720,
            title="Time to send (minutes)",
            description="How long the feed is read at most; red when nothing came at all",
        ),
        "max_quarantined_percent": Param(
            5,
            type="number",
            minimum=0,
            maximum=100,
            title="Quarantine limit (%)",
            description="The load is red when more than this share of its events is in quarantine",
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
        # One at a time: a second run would count what the first one sends.
        >> ProduceFeedOperator(
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
            task_id="announce",
            stream=STREAM,
            asset=Asset(name=STREAM, uri="sluice://lake/raw/wiki_changes"),
        )
    )

with DAG(
    dag_id="wiki_changes_stream",
    dag_display_name="Wikipedia changes: stream",
    description="Is the Wikipedia stream well? Restarts it, asks a person, or raises the alarm",
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
    tags=["sluice", "stream", "wiki_changes"],
    default_args={"owner": "sluice", "retries": 0, "execution_timeout": timedelta(minutes=5)},
    params={
        "action": Param(
            Action.SUPERVISE.value,
            type="string",
            enum=[action.value for action in Action],
            title="Action",
            description="supervise: look, and do what is needed. restart: start consumer, producer and "
            "queries anew. stop: end them, and keep them stopped. start: end that, and start what is down",
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

    # Beside the consumer's lane: each of them is well or not by itself.
    TendOperator(task_id="tend_producer", stream=STREAM, part="producer")
    ProvisionSinksOperator(task_id="provision_sinks", stream=STREAM) >> TendOperator(
        task_id="tend_queries", stream=STREAM, part="queries", trigger_rule="all_done"
    )

with DAG(
    dag_id="wiki_changes_compact",
    dag_display_name="Wikipedia changes: compact",
    description="The small files of closed dates become few large ones, with the same rows, proved twice",
    doc_md=COMPACT_DOC,
    schedule=timedelta(days=1),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=8),
    tags=["maintenance", "sluice", "wiki_changes"],
    default_args={
        "owner": "sluice",
        "retries": 2,
        "retry_delay": timedelta(minutes=1),
        "execution_timeout": timedelta(hours=2),
    },
    params={
        "before": Param(
            None,
            type=["string", "null"],
            format="date",
            title="Before",
            description="Files of earlier dates than this are rewritten; left empty, than yesterday (UTC)",
        ),
    },
):
    CompactOperator(task_id="compact", stream=STREAM) >> CheckCompactionOperator(
        task_id="check", stream=STREAM
    )
