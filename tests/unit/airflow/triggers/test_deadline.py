"""A run of supervision that did not end in time."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from sluice.airflow.hook import PlatformHook
from sluice.airflow.triggers import deadline
from sluice.airflow.triggers.deadline import missed
from sluice.core.errors import Unreachable
from tests.support import notifier
from tests.support.notifier import Recorder, rule
from tests.support.supervision import events, history

DEADLINE = datetime(2026, 1, 1, 12, 6, tzinfo=UTC)


def context(state: str = "running", ended: datetime | None = None, as_text: bool = False) -> dict[str, Any]:
    return {
        "dag_run": {
            "dag_id": "nyc_taxi_stream", "dag_run_id": "r1", "state": state,
            "queued_at": "2026-01-01T12:00:00Z", "end_date": ended.isoformat() if ended else None,
        },
        "deadline": {"id": "1", "deadline_time": DEADLINE.isoformat() if as_text else DEADLINE},
    }  # fmt: skip


class Hook:
    def __init__(self, kept: Any) -> None:
        self.kept = kept

    def history(self, stream: str) -> Any:
        assert stream == "nyc_taxi"
        return self.kept

    brief_history = history


def call(kept: Any, given: dict[str, Any]) -> str:
    hook = cast("PlatformHook", Hook(kept))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deadline, "PlatformHook", lambda: hook)
        return asyncio.run(missed(stream="nyc_taxi", context=given))


@pytest.mark.parametrize("as_text", [True, False])
def test_it_names_the_run(as_text: bool) -> None:
    kept = history()
    assert call(kept, context(as_text=as_text)) == "nyc_taxi_stream r1 missed its deadline"
    (event,) = events(kept, "deadline_missed")
    assert (event["run"], event["state"], event["deadline"]) == ("r1", "running", DEADLINE.isoformat())


def test_a_run_that_ended_late_is_missed() -> None:
    kept = history()
    call(kept, context("success", DEADLINE + timedelta(seconds=1)))
    assert len(events(kept, "deadline_missed")) == 1


def test_a_run_that_ended_red_in_time_is_not() -> None:
    # Airflow 3.3 prunes the deadlines of green runs only.
    found = call(None, context("failed", DEADLINE - timedelta(seconds=1)))
    assert found == "nyc_taxi_stream r1 ended in time, failed"


def test_what_cannot_be_recorded_is_raised() -> None:
    class Away:
        def record(self, kind: str, document: Any, at: datetime) -> Any:
            raise Unreachable("S3 is away")

    with pytest.raises(Unreachable):
        call(Away(), context())


def test_it_is_told_once_while_the_history_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Away:
        def history(self, name: str) -> Any:
            raise Unreachable("S3 is away")

        brief_history = history

    notifier.configure(tmp_path, monkeypatch, rule())
    for hook, calls in ((Away(), 3), (Hook(history()), 2)):
        monkeypatch.setattr(deadline, "PlatformHook", lambda hook=hook: hook)
        for _ in range(calls):
            with nullcontext() if isinstance(hook, Hook) else pytest.raises(Unreachable):
                asyncio.run(missed(stream="nyc_taxi", context=context()))
    assert [text[:40] for text in Recorder.messages()] == [
        "nyc_taxi supervision: SLU-512 supervision"[:40]
    ] * 2
    Recorder.clear()


def test_airflow_can_call_it() -> None:
    assert inspect.iscoroutinefunction(missed)
    assert "context" in inspect.signature(missed).parameters
