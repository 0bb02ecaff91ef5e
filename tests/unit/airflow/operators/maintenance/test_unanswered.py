"""Reconciliation while no triggerer looks, or waits: the worker that Airflow then starts does all of it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR
from airflow.sdk.exceptions import AirflowFailException

from sluice.airflow.operators.maintenance import reconciliation
from sluice.airflow.operators.maintenance.reconciliation import (
    CheckFilesOperator,
    ObserveOffsetsOperator,
    VerifyTableOperator,
)
from tests.support import lake as lakes
from tests.support.reconciliation import BATCH, World
from tests.support.steps import given

# As Airflow resumes a task whose timeout passed, and one whose trigger ended over an error.
ENDS = pytest.mark.parametrize("error", ["Trigger timeout", "Trigger failure"])


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.batch(reject=1)
    return made


def unanswered(world: World, kind: Any, error: str = "Trigger timeout") -> dict[str, Any]:
    context = given(params={"full": False}, run_id="r")
    return dict(world.step(kind).resume_execution(TRIGGER_FAIL_REPR, {"error": error}, context))


@ENDS
@pytest.mark.parametrize("kind", [ObserveOffsetsOperator, VerifyTableOperator, CheckFilesOperator])
def test_a_step_at_which_no_triggerer_looked_is_done_by_the_worker(
    world: World, kind: Any, error: str
) -> None:
    assert unanswered(world, kind, error)
    assert world.look(kind)["result"]


def publish_before_the_quarantine_has_it(world: World) -> None:
    start, world.end = world.end, world.end + 2
    said = lakes.summary("batch", 1, {0: world.end}, {0: 0}, {0: (start, world.end)})
    lakes.append(world.lake, [(0, start)], said)


def test_without_a_triggerer_the_worker_itself_waits_for_what_settles(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would wait for a triggerer again, and again."""
    publish_before_the_quarantine_has_it(world)
    slept = list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        row = dict.fromkeys(lakes.BAD_ROWS.names)
        row |= {"stage": "consumer", "reason": "r", "_kafka_partition": 0, "_kafka_offset": BATCH + 1}
        if len(slept) == 2:
            lakes.quarantine(world.lake, [row])

    monkeypatch.setattr(reconciliation.time, "sleep", sleep)
    assert "6 offsets, each once" in unanswered(world, VerifyTableOperator)["result"]
    assert slept == [5, 15]


def test_what_does_not_settle_is_found_without_a_triggerer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_before_the_quarantine_has_it(world)
    slept = list[float]()
    monkeypatch.setattr(reconciliation.time, "sleep", slept.append)
    with pytest.raises(AirflowFailException, match="offsets-missing"):
        unanswered(world, VerifyTableOperator)
    assert timedelta(seconds=sum(slept)) == timedelta(minutes=1)
