"""The sensor over an observation: which branch follows, and what it says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, DownstreamTasksSkipped

from sluice.hooks.observation import Observation
from sluice.model.health import WELL, Diagnosis, Verdict
from sluice.model.orders import Action, Step
from sluice.model.stream import Supervision
from sluice.sensors.stream_health import StreamHealthSensor, next_step, report
from sluice.triggers import base
from sluice.triggers.stream_health import StreamHealthTrigger, observe_seconds
from tests.support.raising import raising
from tests.support.supervision import context, diagnosis, sample


def sensor() -> StreamHealthSensor:
    return StreamHealthSensor(task_id="observe", stream="nyc_taxi")


def test_the_scheduler_can_make_its_trigger() -> None:
    made = sensor()
    arguments = made.start_trigger_args
    assert made.start_from_trigger
    assert arguments is not None
    assert arguments.trigger_kwargs is not None
    assert isinstance(arguments.timeout, timedelta)
    trigger = StreamHealthTrigger(**arguments.trigger_kwargs)
    assert trigger.serialize() == (arguments.trigger_cls, arguments.trigger_kwargs)
    assert arguments.next_method == "resume"
    assert set(arguments.trigger_kwargs) == {"stream", "role", "look_seconds"}
    # Long enough for two rounds of systems that do not answer.
    assert arguments.timeout.total_seconds() > observe_seconds(Supervision()) + base.QUESTION_SECONDS


STEPS = {
    Verdict.HEALTHY: Step.QUIET,
    Verdict.IDLE: Step.QUIET,
    Verdict.CATCHING_UP: Step.QUIET,
    Verdict.STARTING: Step.QUIET,
    Verdict.HELD: Step.QUIET,
    Verdict.STALLED: Step.RESTART,
    Verdict.DEAD: Step.RESTART,
    Verdict.FLAPPING: Step.ASK,
    Verdict.FALLING_BEHIND: Step.ALARM,
    Verdict.AT_RISK: Step.ALARM,
    Verdict.LOST: Step.ALARM,
    Verdict.RECREATED: Step.ALARM,
    Verdict.SUPERSEDED: Step.ALARM,
    Verdict.CUT_OFF: Step.ALARM,
    Verdict.UNOBSERVABLE: None,
}


@pytest.mark.parametrize("verdict", Verdict)
def test_each_verdict_has_its_step_and_an_order_goes_before(verdict: Verdict) -> None:
    assert next_step(verdict, Action.SUPERVISE) is STEPS[verdict]
    assert next_step(verdict, Action.STOP) is Step.STOP
    assert next_step(verdict, Action.START) is Step.RESTART
    assert next_step(verdict, Action.RESTART) is Step.RESTART
    assert all(next_step(verdict, action) for action in Action if action is not Action.SUPERVISE)


def test_nothing_is_green_that_is_not_well() -> None:
    assert {verdict for verdict, step in STEPS.items() if step is Step.QUIET} == {*WELL, Verdict.HELD}


def resume(found: Diagnosis, **params: Any) -> tuple[Any, list[str]]:
    """Let the sensor go on in a DAG with every branch; gives the context and what was skipped."""
    from airflow.providers.standard.operators.empty import EmptyOperator
    from airflow.sdk import DAG

    with DAG("d", schedule=None):
        made = StreamHealthSensor(task_id="observe", stream="nyc_taxi")
        made >> [EmptyOperator(task_id=step.value) for step in Step]
    given = context(**params)
    given["ti"].task = made
    event = Observation(found, [sample()]).to_json()
    try:
        with pytest.raises(DownstreamTasksSkipped) as caught:
            made.resume(given, event)
    finally:
        assert given["ti"].pushed["return_value"] == event
    return given, sorted(task for task, _ in caught.value.tasks)


def test_it_skips_all_branches_but_one_and_keeps_its_return_value() -> None:
    assert resume(diagnosis(Verdict.STALLED))[1] == ["alarm", "ask", "quiet", "stop"]
    assert resume(diagnosis(Verdict.UNOBSERVABLE), action="stop")[1] == ["alarm", "ask", "quiet", "restart"]


def test_a_wrong_declaration_is_red_with_its_line() -> None:
    with raising(AirflowFailException, "platform/airflow.toml: no [supervisor]"):
        sensor().resume(context(), {"error": "platform/airflow.toml: no [supervisor]"})


def test_what_could_not_be_observed_is_red_in_one_line() -> None:
    blind = diagnosis(Verdict.UNOBSERVABLE, sentence="kafka: away")
    given = context()
    with raising(AirflowFailException, "nyc_taxi", "kafka: away"):
        sensor().resume(given, Observation(blind, [sample()]).to_json())
    assert "return_value" in given["ti"].pushed


def test_the_log_shows_partitions_and_evidence() -> None:
    found = diagnosis(
        evidence={"at": 1e9, "restarts": [1e9], "still_seconds": 3.0, "process": {}, "held": None}
    )
    partitions, evidence = report(found, sample())
    assert partitions == (
        "\npartition  begin  published  end  lag\n---------  -----  ---------  ---  ---\n"
        "        0      0         10   15    5"
    )
    assert evidence.split("\n")[3:] == [
        "at             2001-09-09T01:46:40+00:00",
        "restarts       2001-09-09T01:46:40+00:00",
        "still_seconds  3.00",
    ]


def test_a_look_that_saw_nothing_can_be_shown() -> None:
    assert report(diagnosis(), sample(begins=None, ends=None))[0].count("\n") == 2
