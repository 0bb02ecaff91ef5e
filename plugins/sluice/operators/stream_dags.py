"""The DAG that supervises a stream."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from sluice.model.orders import Action
from sluice.operators.alarm import AlarmOperator
from sluice.operators.ask import AskOperator
from sluice.operators.carry_out import CarryOutOperator
from sluice.operators.provision_sinks import ProvisionSinksOperator
from sluice.operators.restart_stream import RestartStreamOperator
from sluice.operators.stop_stream import StopStreamOperator
from sluice.operators.tend import TendOperator
from sluice.sensors.moved import MovedSensor
from sluice.sensors.stream_health import StreamHealthSensor
from sluice.triggers.stream_health import LOOK_SECONDS

INTERVAL = timedelta(minutes=2)

DOC = """
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


def supervision_dag(
    stream: str,
    title: str,
    components: Sequence[str],
    *,
    schedule: timedelta | None = INTERVAL,
    look_seconds: float = LOOK_SECONDS,
) -> DAG:
    """``<stream>_stream``. ``look_seconds``: between two observations of the consumer."""
    others = [name for name in components if name != "consumer"]
    rows = "".join(TEND_ROW.format(part=part) for part in others)
    with DAG(
        dag_id=f"{stream}_stream",
        dag_display_name=f"{title}: stream",
        description=f"Is {title} well? Restarts it, asks a person, or raises the alarm",
        doc_md=DOC.format(
            title=title,
            components=", ".join(components),
            rows=(SINKS_ROW if "queries" in others else "") + rows,
        ),
        schedule=schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        # Longer than a person is waited for.
        dagrun_timeout=timedelta(minutes=75),
        # That a run came to no end: three intervals, which is more than observing, acting and verifying take.
        deadline=DeadlineAlert(
            reference=DeadlineReference.DAGRUN_QUEUED_AT,
            interval=3 * (schedule or INTERVAL),
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
