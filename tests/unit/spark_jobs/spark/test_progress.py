"""What the listener reports, and a producer whose Kafka is away."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.clients.kafka.query_progress import (
    ACTIVITY_SECONDS,
    ActivityEvent,
    ActivityKind,
    Entry,
    Progress,
    Totals,
)
from sluice.config.platform_sections.kafka import Kafka
from spark_jobs.common.spark import progress_listener
from spark_jobs.common.spark.progress_listener import SETTINGS, ProgressListener, ProgressProducer


def spark_json(run: str, batch: int, name: str = "q", rows: int = 5) -> dict[str, Any]:
    """A batch that ended just now."""
    return {
        "id": "i",
        "runId": run,
        "name": name,
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
        "batchId": batch,
        "batchDuration": 10,
        "numInputRows": rows,
        "durationMs": {"triggerExecution": 10},
        "stateOperators": [],
        "sources": [],
    }


def test_sums_count_from_the_run_s_start() -> None:
    sent: list[Entry] = []
    listener = ProgressListener(sent.append)
    for number in range(3):
        listener.batch_ended(spark_json("a", number))
    listener.batch_ended(spark_json("b", 0, ""))
    assert [entry.totals.rows for entry in sent if isinstance(entry, Progress)] == [5, 10, 15, 5]
    assert [entry.query for entry in sent] == ["q", "q", "q", "unnamed"]


def test_a_silent_query_reports_activity_and_one_that_ended_none(monkeypatch: pytest.MonkeyPatch) -> None:
    now, sent = [0.0], list[Entry]()
    monkeypatch.setattr(progress_listener, "monotonic", lambda: now[0])
    listener = ProgressListener(sent.append)

    def kinds() -> list[str]:
        found = [entry.kind for entry in sent if isinstance(entry, ActivityEvent)]
        sent.clear()
        return found

    event: Any = SimpleNamespace(runId="a", name="q", exception="why\nat line 7")
    listener.onQueryStarted(event)
    assert (kinds(), listener.all_ended.is_set()) == ([ActivityKind.STARTED], False)
    now[0] = ACTIVITY_SECONDS - 1
    listener.report_activity()
    assert kinds() == []
    now[0] += 1
    listener.report_activity()
    listener.report_activity()
    assert kinds() == [ActivityKind.WORKING]
    listener.onQueryIdle(event)
    listener.onQueryIdle(event)
    assert kinds() == [ActivityKind.IDLE]
    now[0] += ACTIVITY_SECONDS
    listener.report_activity()
    assert kinds() == [ActivityKind.IDLE]
    listener.onQueryTerminated(event)
    (end,) = sent
    assert isinstance(end, ActivityEvent)
    assert (end.kind, end.detail) == (ActivityKind.ENDED, "why")
    now[0] += 10 * ACTIVITY_SECONDS
    listener.report_activity()
    assert sent == [end]
    assert listener.all_ended.is_set()


def test_a_full_buffer_never_waits_and_its_losses_are_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Kafka("127.0.0.1:1")
    monkeypatch.setitem(SETTINGS, "queue.buffering.max.messages", 5)
    producer = ProgressProducer(away, "a")
    begun = time.monotonic()
    for number in range(20):
        producer.send(Progress("q", "r", number, 0.0, 1.0, 10, Totals(0.0)))
    assert time.monotonic() - begun < 1
    assert producer.lost == 15
    assert [record.levelname for record in caplog.records] == ["WARNING"]
