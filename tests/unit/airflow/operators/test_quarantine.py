"""A quarantine that follows its table: a step waits for it, without a worker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from sluice.airflow.operators.change.steps import PlanChangeOperator, VerifyChangeOperator
from sluice.airflow.operators.load.validate import ValidateOperator
from sluice.airflow.operators.quarantine import QuarantineOperator
from sluice.airflow.triggers.quarantine import QuarantineTrigger
from tests.support.steps import NewTables, carried_out, given
from tests.support.supervision import connect


class Behind:
    """A lake whose quarantine has ``held`` of 3 rejected records, each time that it is asked."""

    def __init__(self, *held: int) -> None:
        self.held = list(held)

    def position(self, table: str) -> Any:
        assert table == "raw.nyc_taxi"
        return SimpleNamespace(rejected=3)

    def rejected_held(self, table: str) -> int:
        assert table == "raw.nyc_taxi_quarantine"
        return self.held.pop(0) if len(self.held) > 1 else self.held[0]


def settled(kind: type[QuarantineOperator], *held: int) -> tuple[bool, list[str]]:
    """What the step is told, and the outcome of each wait without a worker."""
    step, outcomes = kind(task_id="step", stream="nyc_taxi"), list[str]()
    hook, now = SimpleNamespace(lake=Behind(*held)), [0.0]
    step.__dict__ |= {"platform_hook": hook, "tables": NewTables(), "work": lambda _: step.settle()}

    async def sleep(seconds: float) -> None:
        now[0] += seconds

    def fire(waits: TaskDeferred) -> dict[str, Any]:
        assert waits.timeout == QuarantineOperator.waits[0]
        trigger = QuarantineTrigger(**{**waits.trigger.serialize()[1], "deadline": 60.0})
        connect(trigger, hook)
        trigger.clock, trigger.sleep = lambda: now[0], sleep

        async def first() -> dict[str, Any]:
            return dict((await anext(trigger.run())).payload)

        event = asyncio.run(first())
        outcomes.append(event["outcome"])
        return event

    return carried_out(step, given(), fire), outcomes


@pytest.mark.parametrize("kind", [PlanChangeOperator, VerifyChangeOperator, ValidateOperator])
def test_a_quarantine_that_is_behind_is_waited_for_without_a_worker(kind: Any) -> None:
    assert settled(kind, 3) == (True, [])
    assert settled(kind, 0, 1, 3) == (True, ["reached"])
    assert settled(kind, 0) == (False, ["timed out"])
