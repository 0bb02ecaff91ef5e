"""A run of supervision that did not end in time."""

from __future__ import annotations

import asyncio
import inspect
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sluice.clients.errors import Unreachable
from sluice.triggers import missed as module
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


def call(monkeypatch: pytest.MonkeyPatch, kept: Any, given: dict[str, Any]) -> str:
    monkeypatch.setattr(module, "PlatformHook", lambda role: Hook(kept))
    return asyncio.run(module.missed(stream="nyc_taxi", context=given))


@pytest.mark.parametrize("as_text", [True, False])
def test_it_names_the_run(monkeypatch: pytest.MonkeyPatch, caplog: Any, as_text: bool) -> None:
    kept = history()
    assert call(monkeypatch, kept, context(as_text=as_text)) == "nyc_taxi_stream r1 missed its deadline"
    (event,) = events(kept, "missed")
    assert (event["run"], event["state"], event["deadline"]) == ("r1", "running", DEADLINE.isoformat())
    assert "run nyc_taxi_stream r1 is running, and should have ended by 2026-01-01T12:06" in caplog.text


def test_a_run_that_ended_late_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = history()
    call(monkeypatch, kept, context("success", DEADLINE + timedelta(seconds=1)))
    assert len(events(kept, "missed")) == 1


def test_a_run_that_ended_red_in_time_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    # Airflow 3.3 prunes the deadlines of green runs only.
    found = call(monkeypatch, None, context("failed", DEADLINE - timedelta(seconds=1)))
    assert found == "nyc_taxi_stream r1 ended in time, failed"


@pytest.mark.parametrize(("run", "answered", "missed"), [("r1", False, 0), ("r1", True, 1), ("r0", False, 1)])
def test_one_that_waits_for_a_person_is_not(
    monkeypatch: pytest.MonkeyPatch, run: str, answered: bool, missed: int
) -> None:
    kept = history()
    now = datetime.now(UTC)
    kept.record("question", {"run": run}, now)
    if answered:
        kept.record("answer", {"run": run}, now + timedelta(seconds=1))
    said = call(monkeypatch, kept, context())
    assert len(events(kept, "missed")) == missed
    assert ("waits for an answer since" in said) is (missed == 0)


def test_what_cannot_be_recorded_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    class Away:
        def latest(self, kind: str) -> Any:
            raise Unreachable("S3 is away")

    with pytest.raises(Unreachable):
        call(monkeypatch, Away(), context())


def test_airflow_can_call_it() -> None:
    assert inspect.iscoroutinefunction(module.missed)
    assert "context" in inspect.signature(module.missed).parameters
