"""Supervision: how is the stream, and what is to be done?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.bases.branch import BranchMixIn
from airflow.sdk.exceptions import AirflowFailException
from airflow.triggers.base import StartTriggerArgs

from sluice.hooks.observation import Observation
from sluice.hooks.text import table
from sluice.model.health import ALARMING, ASKING, CALM, RESTARTABLE, Diagnosis, Verdict
from sluice.model.orders import Action, Step
from sluice.triggers.stream_health import LOOK_SECONDS, StreamHealthTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.model.samples import Sample

# Beyond what the trigger takes: for systems that answer late, and for a triggerer that comes back.
TIMEOUT = timedelta(minutes=4)

_ORDERS = {Action.STOP: Step.STOP, Action.START: Step.RESTART, Action.RESTART: Step.RESTART}


def next_step(verdict: Verdict, action: Action) -> Step | None:
    """What follows; None where that cannot be said, because the stream could not be observed."""
    if action is not Action.SUPERVISE:
        return _ORDERS[action]
    if verdict is Verdict.UNOBSERVABLE:
        return None
    for verdicts, step in (
        (CALM, Step.QUIET),
        (RESTARTABLE, Step.RESTART),
        (ASKING, Step.ASK),
        (ALARMING, Step.ALARM),
    ):
        if verdict in verdicts:
            return step
    raise ValueError(f"verdict {verdict.value!r} belongs to no step")


class StreamHealthSensor(BaseSensorOperator, BranchMixIn):
    """Observe the stream without a worker, and follow the branch that its verdict or a person's order asks
    for: a task that is named as :class:`Step` says.

    Its trigger is made by the scheduler; only ``resume`` takes a process. Returns the diagnosis and the
    looks that it rests on. Red when the stream could not be observed: never green for not having looked.
    """

    template_fields: Sequence[str] = ("stream",)
    inherits_from_skipmixin = True
    start_from_trigger = True

    def __init__(
        self, *, stream: str, role: str = "airflow", look_seconds: float = LOOK_SECONDS, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.role = role
        path, values = StreamHealthTrigger(stream=stream, role=role, look_seconds=look_seconds).serialize()
        self.start_trigger_args = StartTriggerArgs(
            trigger_cls=path, next_method="resume", trigger_kwargs=values, timeout=TIMEOUT
        )

    def resume(self, context: Context, event: dict[str, Any]) -> None:
        """What the trigger saw: the branch, or the failure."""
        if "error" in event:
            raise AirflowFailException(event["error"])
        observation = Observation.from_json(event)
        diagnosis = observation.diagnosis
        self.log.info("%s: %s", diagnosis.verdict.value, diagnosis.sentence)
        for text in report(diagnosis, observation.samples[-1]):
            self.log.info("%s", text)
        # Branching ends the task by raising, and a task that raises has no return value.
        context["ti"].xcom_push(key="return_value", value=event)
        step = next_step(diagnosis.verdict, Action(context["params"]["action"]))
        if step is None:
            raise AirflowFailException(f"{self.stream} is {diagnosis.verdict.value}: {diagnosis.sentence}")
        self.do_branch(context, step.value)


def report(diagnosis: Diagnosis, sample: Sample) -> list[str]:
    """Two tables: the partitions of the last look, and what the verdict rests on."""
    ends, begins = sample.ends or {}, sample.begins or {}
    published = sample.published.ends if sample.published else {}
    rows = [
        [p, begins.get(p, "-"), published.get(p, "-"), end, sample.unread().get(p, 0)]
        for p, end in sorted(ends.items())
    ]
    evidence = [
        [key, _shown(key, value)]
        for key, value in diagnosis.evidence.items()
        if value is not None and not isinstance(value, dict)
    ]
    return [
        table(["partition", "begin", "published", "end", "lag"], rows),
        table(["evidence", "value"], evidence),
    ]


def _shown(key: str, value: Any) -> Any:
    """Moments as such: they are seconds since 1970 in what is named ``at``, ``…_at`` and ``restarts``."""
    if key == "restarts":
        return ", ".join(_moment(at) for at in value) or "none"
    return _moment(value) if key == "at" or key.endswith("_at") else value


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
