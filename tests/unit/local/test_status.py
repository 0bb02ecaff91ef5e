"""The streams' lines of `make status`."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from local.base import UsageError
from local.status import show
from local.status.observe import (
    ComponentHistory,
    Observation,
    SupervisionStatus,
    Unavailable,
    component_history,
    rate,
    run_concurrently,
)
from local.status.rows import StreamRow, component_row, format_age, format_event
from sluice.clients.lake.commits import Commit
from sluice.config import folders, streams
from sluice.core.processes import exits
from sluice.core.processes.heartbeat import Heartbeat, HeartbeatState
from sluice.core.processes.status import ProcessState as S
from sluice.core.processes.status import ProcessStatus
from sluice.ledger.history import History
from sluice.supervision.rules.sample import Sample
from tests.support.memory_s3 import MemoryS3
from tests.support.supervision import position

SPEC = streams.load("nyc_taxi")
NOW = 10_000.0


def batch(at: float, records: int, began: float | None = None) -> Commit:
    return Commit(1, at, "batch", 3, began=began, records=records)


def recorded(health: str) -> dict[str, Any]:
    """A change of health that supervision recorded three minutes ago."""
    at = datetime.fromtimestamp(NOW - 180, UTC).isoformat()
    return {"kind": "health", "health": health, "message": "why so", "at": at}


def process(state: S = S.RUNNING, program: str = SPEC.program) -> ProcessStatus:
    return ProcessStatus(program, state, 7, NOW - 600)


WELL = Observation(
    sample=Sample(NOW, process(), begins={0: 0}, ends={0: 1205}, published=position(end=5)),
    health=recorded("healthy"),
    batches=[batch(NOW - 30, 100), batch(NOW - 40, 100)],
    history=ComponentHistory(
        [False, True, False], {"kind": "restart", "who": "ada", "at": "1970-01-01T02:45:40+00:00"}
    ),
    supervision=SupervisionStatus(paused=False, last_end=NOW - 100),
)


def consumer(state: str = "RUNNING", **changes: Any) -> StreamRow:
    return component_row(SPEC, SPEC.component("consumer"), state, dataclasses.replace(WELL, **changes), NOW)


def test_a_consumer_that_is_healthy() -> None:
    row = consumer()
    assert [(cell.text, cell.is_ok) for cell in row.cells] == [
        ("RUNNING", None),
        ("healthy, 3 min ago", True),
        ("1,200", None),
        ("10", None),
        ("30 s ago", None),
        ("2 automatic, 1 requested", None),
        ("100 s ago", True),
        ("restart by ada, 60 s ago", None),
    ]
    assert (row.name, row.is_ok, row.message, row.style) == ("nyc_taxi", True, "", "green")


@pytest.mark.parametrize(
    ("health", "ok", "style", "says"),
    [
        ("catching up", True, "green", False),
        ("suspended", True, "cyan", True),
        ("down", False, "yellow", True),
        ("flapping", False, "magenta", True),
        ("data lost", False, "red", True),
        ("fenced", False, "red", True),
    ],
)
def test_recorded_health_has_its_sets_style_and_says_why(
    health: str, ok: bool, style: str, says: bool
) -> None:
    row = consumer(health=recorded(health))
    assert (row.is_ok, row.style, row.message) == (ok, style, "why so" if says else "")


def test_it_judges_nothing_itself() -> None:
    """The process has ended a moment ago; supervision has not seen that yet."""
    row = consumer(sample=Sample(NOW, process(S.EXITED)))
    assert (row.state.text, row.health.text) == ("EXITED", "healthy, 3 min ago")


@pytest.mark.parametrize("paused", [True, False])
def test_what_ended_over_its_configuration_says_over_which_at_once(paused: bool) -> None:
    """Also if supervision has not seen that yet, or does not check."""
    line = "SLU-101 ConfigError: stream.toml: unknown key 'x'"
    ended = dataclasses.replace(process(S.EXITED), exit_status=exits.CONFIGURATION, description=line)
    supervision = SupervisionStatus(paused, NOW - 100)
    row = consumer(sample=Sample(NOW, ended), supervision=supervision)
    assert (row.message, row.is_ok) == (f"stream-nyc_taxi is EXITED ({line})", False)
    told = recorded("down") | {"message": f"stream-nyc_taxi is EXITED ({line}), exit code 78 after 3 s"}
    row = consumer(sample=Sample(NOW, ended), supervision=supervision, health=told)
    assert row.message.count(line) == 1
    stopped = dataclasses.replace(ended, state=S.STOPPED, exit_status=0)
    assert consumer(sample=Sample(NOW, stopped)).message == ""


@pytest.mark.parametrize("component", ["sample", "health", "batches", "history", "supervision"])
def test_what_does_not_answer_is_unknown_and_is_not_ok(component: str) -> None:
    row = consumer(**{component: Unavailable("Kafka sleeps")})
    assert (row.is_ok, row.message) == (False, "Kafka sleeps")
    assert {cell.text for cell in row.cells if cell.is_ok is False} == {"unknown"}


def test_what_one_system_does_not_say_is_unknown() -> None:
    row = consumer(sample=Sample(NOW, process(), errors={"kafka": "Kafka sleeps"}))
    assert (row.state.text, row.lag.text, row.message) == ("RUNNING", "unknown", "kafka: Kafka sleeps")


def test_what_was_never_checked_is_unknown() -> None:
    assert (consumer(health=None).health.text, consumer(health=None).is_ok) == ("unknown", False)


def test_the_same_reason_is_said_once() -> None:
    away = Unavailable("MinIO sleeps")
    assert consumer(health=away, batches=away, history=away).message == "MinIO sleeps"


@pytest.mark.parametrize(
    ("supervision", "text", "ok"),
    [
        (SupervisionStatus(False, NOW - 360), "6 min ago", True),
        (SupervisionStatus(False, NOW - 361), "6 min ago", False),
        (SupervisionStatus(False, None), "never", False),
        (SupervisionStatus(True, NOW - 10), "paused", False),
    ],
)
def test_supervision_is_missed_after_three_intervals(
    supervision: SupervisionStatus, text: str, ok: bool | None
) -> None:
    cell = consumer(supervision=supervision).supervision
    assert (cell.text, cell.is_ok) == (text, ok)


def test_a_stream_that_is_not_to_run_is_off_and_no_trouble() -> None:
    down: dict[str, Any] = {"health": recorded("down"), "sample": Sample(NOW, process(S.STOPPED))}
    row = consumer(supervision=SupervisionStatus(True, None), **down)
    assert (row.health.text, row.is_ok, row.message) == ("off", True, "")
    assert (row.supervision.text, row.supervision.is_ok) == ("paused", None)
    row = consumer(supervision=SupervisionStatus(False, NOW), **down)
    assert (row.health.text, row.is_ok, row.message) == ("down, 3 min ago", False, "why so")


@pytest.mark.parametrize(
    ("last_end", "words"),
    [(NOW - 3 * 86_400, "last check 3 days ago"), (NOW - 10, "last check 10 s ago"), (None, "never checked")],
)
@pytest.mark.parametrize("state", [S.RUNNING, S.STARTING, S.BACKOFF])
def test_a_component_at_work_without_checks_is_not_ok_and_says_how_to_unpause(
    state: S, last_end: float | None, words: str
) -> None:
    """What was recorded before the pause says nothing of now."""
    row = consumer(sample=Sample(NOW, process(state)), supervision=SupervisionStatus(True, last_end))
    assert (row.is_ok, row.health.is_ok, row.health.text) == (False, False, f"healthy, {words}")
    assert (row.supervision.text, row.supervision.is_ok) == ("paused", False)
    assert row.style == "yellow"
    assert "supervision is paused" in row.message
    assert "Fix: unpause DAG nyc_taxi_stream" in row.message
    assert "local/run airflow dags unpause nyc_taxi_stream" in row.message


def test_a_health_that_was_recorded_before_supervision_stopped_is_not_ok() -> None:
    """Unpaused, but no run ends: the scheduler may be gone."""
    row = consumer(supervision=SupervisionStatus(False, NOW - 3 * 86_400))
    assert (row.health.text, row.health.is_ok, row.style) == (
        "healthy, last check 3 days ago",
        False,
        "yellow",
    )


def test_a_pause_hides_no_health_that_is_worse() -> None:
    row = consumer(health=recorded("data lost"), supervision=SupervisionStatus(True, NOW - 9000))
    assert (row.style, row.is_ok, "why so" in row.message) == ("red", False, True)


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([], 0.0),
        ([batch(NOW - 301, 500)], 0.0),
        ([batch(NOW - 5, 500)], 0.0),
        ([batch(NOW - 5, 500, NOW - 10)], 100.0),
        # The oldest's records came before the span; one that is too old is left out.
        ([batch(NOW - 10, 300), batch(NOW - 20, 100), batch(NOW - 30, 999), batch(NOW - 400, 999)], 20.0),
    ],
)
def test_rows_per_second(batches: list[Commit], expected: float) -> None:
    assert rate(batches, NOW) == expected


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (None, "none"),
        ({"kind": "health", "health": "down"}, "health down, 10 s ago"),
        ({"kind": "restart", "who": "schedule", "health": "down"}, "restart by schedule, 10 s ago"),
        ({"kind": "suspend", "who": "ada"}, "suspend by ada, 10 s ago"),
        ({"kind": "recovered", "seconds": 36.9, "how": "writer 2"}, "recovered in 37 s, 10 s ago"),
    ],
)
def test_the_last_event_in_words(event: dict[str, Any] | None, words: str) -> None:
    assert format_event(event and event | {"at": "1970-01-01T02:46:30+00:00"}, NOW) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s ago"),
        (119, "119 s ago"),
        (120, "2 min ago"),
        (7200, "2 h ago"),
        (172_800, "2 days ago"),
        (-3, "0 s ago"),
    ],
)
def test_ago(seconds: float, words: str) -> None:
    assert format_age(NOW, NOW - seconds) == words
    assert format_age(NOW, None) == "never"


PARTS = streams.load("wiki_changes")
PRODUCER = PARTS.component("producer")


@pytest.mark.parametrize(
    ("health", "ok", "style"),
    [
        ("healthy", True, "green"),
        ("fenced", True, "cyan"),
        ("suspended", True, "cyan"),
        ("source unavailable", False, "red"),
    ],
)
def test_another_component_has_a_heartbeat_in_the_place_of_a_batch(health: str, ok: bool, style: str) -> None:
    heartbeat = Heartbeat(NOW - 3, 7, HeartbeatState.STREAMING, NOW - 500)
    sample = Sample(NOW, process(program=PRODUCER.program), heartbeat=heartbeat)
    seen = dataclasses.replace(WELL, sample=sample, health=recorded(health), batches=[])
    row = component_row(PARTS, PRODUCER, "RUNNING", seen, NOW)
    assert (row.name, row.to_json()["component"]) == ("wiki_changes producer", "producer")
    assert [row.lag.text, row.rate.text, row.last_batch.text] == ["–", "–", "heartbeat 3 s ago"]
    assert (row.is_ok, row.style) == (ok, style)


@pytest.mark.parametrize("as_json", [True, False])
def test_a_stream_with_a_wrong_declaration_hides_no_other(
    as_json: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rides").mkdir()
    (tmp_path / "rides" / "stream.toml").write_text("nonsense = 1")
    monkeypatch.setenv(folders.VARIABLE, str(tmp_path))
    monkeypatch.setattr(show.health, "rows", lambda context, states: [])
    monkeypatch.setattr(show, "observe", lambda stack, specs: defaultdict(lambda: WELL))
    states: Any = defaultdict(lambda: {"statename": "RUNNING"})
    stack: Any = SimpleNamespace(
        is_running=lambda: True,
        daemon=SimpleNamespace(states=lambda: states),
        context=None,
        ports={"airflow": 1},
        home=SimpleNamespace(root=tmp_path, secrets_file=tmp_path, platform=tmp_path),
    )
    assert show.main(stack, as_json=as_json) == 1
    said = capsys.readouterr().out
    assert "rides/stream.toml: " in said
    assert "'nonsense'" in said
    assert "nyc_taxi" in said
    if as_json:
        assert list(json.loads(said)["invalid"]) == ["rides"]


def history() -> History:
    """Return an empty history."""
    return History(MemoryS3().as_client(), "s3://warehouse/ledger", "wiki_changes")


def test_the_newest_event_of_any_kind() -> None:
    now, kept = datetime.now(UTC), history()
    for hours, kind, event in (
        *(
            (25, "restart", {"requested": True}),
            (9, "restart", {"requested": False}),
            (8, "restart", {"requested": True}),
        ),
        *((7, "suspend", {"who": "ada"}), (20, "health", {"health": "down"})),
    ):
        kept.record(kind, event, now - timedelta(hours=hours))
    found = component_history(kept, now)
    assert found.newest is not None
    assert (found.newest["kind"], found.newest["who"]) == ("suspend", "ada")
    assert found.restarts == [False, True]


def test_a_question_without_an_answer_does_not_hang() -> None:
    never = threading.Event()

    def refused() -> None:
        raise UsageError("unknown")

    began = time.monotonic()
    found = run_concurrently({"a": lambda: 1, "b": never.wait, "c": refused}, 0.3)
    assert time.monotonic() - began < 2
    assert found == {"a": 1, "b": "no answer within 0 s", "c": "unknown"}
    assert isinstance(found["b"], Unavailable)
    assert isinstance(found["c"], Unavailable)
    never.set()
