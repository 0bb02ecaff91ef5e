"""
### Load what the Wikipedia stream gives, and prove it

One run takes events of Wikimedia's feed of recent changes through the topic `wiki-changes` into the lake's
table `raw.wiki_changes`, until so many events or minutes are over. It ends green only if every record that
came onto the topic meanwhile is there exactly once, or in quarantine with its reason.

| step | what it does | when it is red |
|---|---|---|
| `provision_topic` | the topic is as `stream.toml` declares it | it would have to shrink |
| `ensure_stream` | the consumer runs and owns the stream | it dies, or does not own it in 3 minutes |
| `produce` | sends what the feed gives; where the stream's own producer does, counts that | nothing came |
| `landed` | waits until all of it is published | the consumer is down, or the time is up |
| `validate` | proves every offset and event id anew | a gap, a duplicate, an event twice |
| `audit` | counts objects, versions and delete markers | over the stream's budget |
| `announce` | an event of the asset `wiki_changes` that carries the proof | there is no proof |

Every step may be cleared and run again, and runs may overlap: one producer sends at a time. A run's range
begins where the topic ended before its first attempt, so what a killed attempt sent is proved with the rest.

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

from airflow.sdk import DAG, Asset, Param

from sluice.operators.announce import AnnounceOperator
from sluice.operators.audit import AuditOperator
from sluice.operators.check_compaction import CheckCompactionOperator
from sluice.operators.compact import CompactOperator
from sluice.operators.ensure_stream import EnsureStreamOperator
from sluice.operators.produce_feed import ProduceFeedOperator
from sluice.operators.provision_topic import ProvisionTopicOperator
from sluice.operators.stream_dags import decision_dag, supervision_dag
from sluice.operators.validate import ValidateOperator
from sluice.sensors.landed import LandedSensor

STREAM = "wiki_changes"
LOAD_DOC, COMPACT_DOC = __doc__.split("\n---\n")

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
        >> EnsureStreamOperator(task_id="ensure_stream", stream=STREAM)
        # One at a time: a second run would count what the first one sends.
        >> ProduceFeedOperator(
            task_id="produce",
            stream=STREAM,
            max_active_tis_per_dag=1,
            execution_timeout=timedelta(hours=13),
        )
        >> LandedSensor(task_id="landed", stream=STREAM)
        >> ValidateOperator(task_id="validate", stream=STREAM, execution_timeout=timedelta(hours=1))
        >> AuditOperator(task_id="audit", stream=STREAM, execution_timeout=timedelta(minutes=30))
        >> AnnounceOperator(
            task_id="announce",
            stream=STREAM,
            asset=Asset(name=STREAM, uri="sluice://lake/raw/wiki_changes"),
        )
    )

supervision_dag(STREAM, "Wikipedia changes", ("consumer", "producer", "report"))
decision_dag(STREAM, "Wikipedia changes")

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
