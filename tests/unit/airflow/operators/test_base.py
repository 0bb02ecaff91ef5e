"""A step's failure for a wait that nothing ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from sluice.airflow.operators.base import StreamOperator
from sluice.airflow.operators.change.approval import ApproveChangeOperator
from sluice.airflow.operators.supervision.supervise import SuperviseOperator
from tests.support.raising import raising
from tests.support.steps import given


class Waits(StreamOperator):
    waits = (timedelta(minutes=7),)


@pytest.mark.parametrize(
    "step",
    [
        Waits(task_id="wait_published", stream="nyc_taxi"),
        StreamOperator(task_id="other", stream="nyc_taxi"),
        SuperviseOperator(task_id="consumer", stream="nyc_taxi", component="consumer"),
        ApproveChangeOperator(task_id="approve_change", stream="nyc_taxi"),
    ],
    ids=lambda step: step.task_id,
)
def test_a_wait_that_no_triggerer_ran_names_the_triggerer(step: Any) -> None:
    """As Airflow resumes a task whose timeout passed; a trigger that raised is tried again."""
    with raising(
        AirflowFailException, "SLU-513", "start the triggerer (airflow triggerer)", "clear this task"
    ):
        step.resume_execution(TRIGGER_FAIL_REPR, {"error": "Trigger timeout"}, given())
    with pytest.raises(AirflowException) as caught:
        step.resume_execution(TRIGGER_FAIL_REPR, {"error": "Trigger failure"}, given())
    assert not isinstance(caught.value, AirflowFailException)
    assert "SLU-513 the trigger" in str(caught.value)
    assert "Trigger failure" in str(caught.value)
    if isinstance(step, Waits):
        with pytest.raises(AirflowFailException, match=r"within 7 minutes"):
            step.resume_execution(TRIGGER_FAIL_REPR, {"error": "Trigger timeout"}, given())


def test_a_wait_that_ended_goes_on_with_its_step() -> None:
    class Goes(StreamOperator):
        def resume(self, context: Any, event: str) -> str:
            return event

    step = Goes(task_id="wait", stream="nyc_taxi")
    assert step.resume_execution("resume", {"event": "done"}, given()) == "done"
