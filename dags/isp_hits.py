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
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Asset, Param

from sluice.operators.announce import AnnounceOperator
from sluice.operators.audit import AuditOperator
from sluice.operators.check_sinks import CheckSinksOperator
from sluice.operators.ensure_part import EnsurePartOperator
from sluice.operators.ensure_stream import EnsureStreamOperator
from sluice.operators.produce_generated import ProduceGeneratedOperator
from sluice.operators.provision_sinks import ProvisionSinksOperator
from sluice.operators.provision_topic import ProvisionTopicOperator
from sluice.operators.stream_dags import decision_dag, supervision_dag
from sluice.operators.validate import ValidateOperator
from sluice.sensors.landed import LandedSensor

STREAM = "isp_hits"

with DAG(
    dag_id="isp_hits_load",
    dag_display_name="ISP hits: load",
    description="Generated hits of an ISP's customers through Kafka into the lake, each record proved",
    doc_md=__doc__,
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
        "hits": Param(
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
        >> ProduceGeneratedOperator(
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

supervision_dag(STREAM, "ISP hits", ("consumer", "queries"))
decision_dag(STREAM, "ISP hits")
