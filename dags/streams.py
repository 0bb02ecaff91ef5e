"""The DAGs of every stream, from its stream.toml: load, supervision, compaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset, AsyncCallback, DeadlineAlert, DeadlineReference, Param
from airflow.sdk.bases.operator import chain

from sluice.model import stream
from sluice.model.config import ConfigError
from sluice.model.orders import Action
from sluice.model.stream import Source, StreamSpec
from sluice.operators import docs, forms
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
from sluice.operators.produce import ProduceOperator
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

START = datetime(2026, 1, 1, tzinfo=UTC)
# The longest task that sends (a feed's waits in the triggerer), and the longest run, with a retry.
SEND_TIMEOUTS = {
    Source.CSV: (timedelta(hours=2), timedelta(hours=4)),
    Source.GENERATOR: (timedelta(hours=13), timedelta(hours=28)),
    Source.FEED: (timedelta(minutes=10), timedelta(hours=28)),
}

SUPERVISION_DOC = """
### Supervise {title}

While this DAG is not paused, these components shall run: {components}. Airflow checks them at every
interval, and restarts what ended or hangs, once for each end.

| step | what it does | when it fails |
|---|---|---|
| `observe` | observes the consumer until its verdict is clear, and chooses the next step | it could not |
| `quiet` | nothing: the consumer is healthy, or held | never |
| `restart` | restarts the consumer: it hangs, or ended, or a person asks | no answer |
| `ask` | restarts did not help: asks a person, with the evidence, for an hour | no answer of Airflow's |
| `answer` | records what was answered, and does it | as `restart` and `stop` |
| `verify` | a new owner publishes, or has nothing left to publish | not within two minutes |
| `stop` | by a person's order: holds the stream, and ends its process | it does not end |
| `alarm` | says what no restart mends, and what mends it | always |
{rows}
Trigger it with an action to restart, stop or start every component. A stopped stream is held until such
an order restarts or starts it. Verdicts that changed, restarts, orders and answers are in the ledger, under
`history`. Steps are not retried: the next run observes again.
"""
SINKS_ROW = (
    "| `provision_sinks` | creates missing tables and topics of the queries | a sink does not answer |\n"
)
TEND_ROW = "| `tend_{part}` | observes the {part}, restarts it, listens for its heartbeat | no heartbeat |\n"


def load_dag(spec: StreamSpec) -> DAG:
    """``<stream>_load``: send what the form asks for, and verify that all of it is in the lake."""
    send_timeout, run_timeout = SEND_TIMEOUTS[spec.source]
    with DAG(
        dag_id=f"{spec.name}_load",
        dag_display_name=f"{spec.label}: load",
        description=f"{docs.RECORDS[spec.source]} through Kafka into {spec.table}, each record proved",
        schedule=None,
        start_date=START,
        catchup=False,
        max_active_runs=4,
        dagrun_timeout=run_timeout,
        tags=["load", "sluice", spec.name],
        default_args={
            "owner": "sluice",
            "retries": 2,
            "retry_delay": timedelta(seconds=20),
            "execution_timeout": timedelta(minutes=10),
        },
        params=forms.load(spec),
    ) as dag:
        produce = ProduceFeedOperator if spec.source is Source.FEED else ProduceOperator
        asset = Asset(name=spec.name, uri=f"sluice://lake/{spec.table.replace('.', '/')}")
        name, hour = spec.name, timedelta(hours=1)
        steps: list[Any] = [ProvisionTopicOperator(task_id="provision_topic", stream=name)]
        if spec.queries:
            steps += [ProvisionSinksOperator(task_id="provision_sinks", stream=name)]
        steps += [EnsureStreamOperator(task_id="ensure_stream", stream=name)]
        if spec.queries:
            steps += [EnsurePartOperator(task_id="ensure_queries", stream=name, part="queries")]
        steps += [
            # One at a time, deferred ones too: a second run finds in the ledger what the first has sent, and
            # that of a feed begins where the first has ended.
            produce(task_id="produce", stream=name, max_active_tis_per_dag=1, execution_timeout=send_timeout),
            LandedSensor(task_id="landed", stream=name),
            ValidateOperator(task_id="validate", stream=name, execution_timeout=hour),
        ]
        if spec.queries:
            steps += [
                LandedSensor(task_id="counted", stream=name, part="queries"),
                CheckSinksOperator(task_id="check_sinks", stream=name, execution_timeout=hour),
            ]
        steps += [
            AuditOperator(task_id="audit", stream=name, execution_timeout=timedelta(minutes=30)),
            AnnounceOperator(task_id="announce", stream=name, asset=asset),
        ]
        chain(*steps)
    dag.doc_md = docs.load(spec, steps)
    return dag


def compact_dag(spec: StreamSpec) -> DAG:
    """``<stream>_compact``: once a day, few large files for the closed dates."""
    with DAG(
        dag_id=f"{spec.name}_compact",
        dag_display_name=f"{spec.label}: compact",
        description="The small files of closed dates become few large ones, with the same rows, proved twice",
        schedule=timedelta(days=1),
        start_date=START,
        catchup=False,
        max_active_runs=1,
        dagrun_timeout=timedelta(hours=8),
        tags=["maintenance", "sluice", spec.name],
        default_args={
            "owner": "sluice",
            "retries": 2,
            "retry_delay": timedelta(minutes=1),
            "execution_timeout": timedelta(hours=2),
        },
        params=forms.compact(),
    ) as dag:
        steps = [
            CompactOperator(task_id="compact", stream=spec.name),
            CheckCompactionOperator(task_id="check", stream=spec.name),
        ]
        chain(*steps)
    dag.doc_md = docs.compact(spec, steps)
    return dag


def supervision_dag(
    stream: str,
    title: str,
    components: Sequence[str],
    *,
    schedule: timedelta | None = timedelta(minutes=2),
    look_seconds: float = 5.0,
) -> DAG:
    """``<stream>_stream``. ``look_seconds``: between two observations of the consumer."""
    others = [name for name in components if name != "consumer"]
    rows = "".join(TEND_ROW.format(part=part) for part in others)
    with DAG(
        dag_id=f"{stream}_stream",
        dag_display_name=f"{title}: stream",
        description=f"Is {title} well? Restarts it, asks a person, or raises the alarm",
        doc_md=SUPERVISION_DOC.format(
            title=title,
            components=", ".join(components),
            rows=(SINKS_ROW if "queries" in others else "") + rows,
        ),
        schedule=schedule,
        start_date=START,
        catchup=False,
        max_active_runs=1,
        # Longer than a person is waited for.
        dagrun_timeout=timedelta(minutes=75),
        # That a run came to no end: three intervals, which is more than observing, acting and verifying take.
        deadline=DeadlineAlert(
            reference=DeadlineReference.DAGRUN_QUEUED_AT,
            interval=3 * (schedule or timedelta(minutes=2)),
            callback=AsyncCallback("sluice.triggers.missed.missed", kwargs={"stream": stream}),
        ),
        tags=["sluice", "stream", stream],
        default_args={"owner": "sluice", "retries": 0, "execution_timeout": timedelta(minutes=5)},
        params={
            "action": Param(
                Action.SUPERVISE.value,
                type="string",
                enum=[action.value for action in Action],
                title="Action",
                description="supervise: look, and do what is needed. restart: restart "
                f"{', '.join(components)}. stop: end them, and keep them stopped. "
                "start: end that, and start what is down",
            ),
            "why": Param(
                None,
                type=["string", "null"],
                maxLength=500,
                title="Why",
                description="For the stream's history, and for whoever finds it stopped",
            ),
        },
    ) as dag:
        observe = StreamHealthSensor(task_id="observe", stream=stream, look_seconds=look_seconds)
        restart = RestartStreamOperator(task_id="restart", stream=stream)
        ask = AskOperator(task_id="ask", stream=stream)
        answer = CarryOutOperator(task_id="answer", stream=stream)
        verify = MovedSensor(task_id="verify", stream=stream, trigger_rule="none_failed_min_one_success")

        observe >> [
            restart,
            ask,
            StopStreamOperator(task_id="stop", stream=stream),
            AlarmOperator(task_id="alarm", stream=stream),
            EmptyOperator(task_id="quiet"),
        ]
        ask >> answer
        [restart, answer] >> verify

        # Beside the consumer's lane; the queries are tended whatever their sinks' state is.
        for part in others:
            rule = "all_done" if part == "queries" else "all_success"
            tend = TendOperator(task_id=f"tend_{part}", stream=stream, part=part, trigger_rule=rule)
            if part == "queries":
                ProvisionSinksOperator(task_id="provision_sinks", stream=stream) >> tend
    return dag


for name in stream.names():
    try:
        spec = stream.load(name)
    except ConfigError:
        # Its supervision fails with the reason; the DAGs of other streams stay.
        supervision_dag(name, name, ("consumer",))
        continue
    load_dag(spec)
    interval = timedelta(seconds=spec.supervision.interval_seconds)
    supervision_dag(name, spec.label, tuple(spec.parts), schedule=interval)
    if spec.partition_by and not spec.partitions[0].width:
        compact_dag(spec)
