"""Supervision tells of outages, requests and recoveries, and takes a worker only when there is something to
tell."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from sluice.airflow import callbacks
from sluice.airflow.channel import RunChannel
from sluice.airflow.triggers import health
from sluice.config.notifications import Event
from sluice.core.errors import Unreachable
from sluice.core.processes.heartbeat import HeartbeatState
from sluice.core.processes.status import ProcessState
from sluice.notify import telling
from sluice.notify.telling import NotDelivered
from tests.support import notifier
from tests.support.notifier import Recorder, rule
from tests.support.raising import raising
from tests.unit.airflow.operators.supervision.test_supervise import SPEC, STREAM, World

SILENT = HeartbeatState.CONNECTING


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    notifier.configure(tmp_path, monkeypatch, rule())
    made = World(component="producer")
    monkeypatch.setattr(callbacks, "PlatformHook", lambda: made.hook)
    yield made
    Recorder.clear()


@pytest.fixture
def consumer(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(component="consumer")
    monkeypatch.setattr(callbacks, "PlatformHook", lambda: made.hook)
    return made


def airflow(world: World) -> str:
    """A check as Airflow carries it through, with the callback of its failure."""
    try:
        return world.supervise()
    except AirflowFailException as error:
        task = SimpleNamespace(
            task_id=world.component, dag_id=f"{STREAM}_stream", stream=STREAM, component=world.component
        )
        ti = SimpleNamespace(get_previous_ti=lambda: None)
        callbacks.task_failed({"task": task, "ti": ti, "run_id": "r", "exception": error})
        return str(error)


def break_source(world: World) -> None:
    """Alive, and without an answer of its source for longer than it may be."""
    world.state, world.state_since = SILENT, 4000.0
    world.heard = world.heartbeat(1, state=SILENT, since=4000)


def repair_source(world: World) -> None:
    world.heard = world.heartbeat(1)


def test_an_outage_is_told_once_and_its_recovery_once(world: World) -> None:
    airflow(world)
    assert (Recorder.sent, world.ti.pushed) == ([], {}), "no worker"
    for _ in range(5):
        break_source(world)
        assert "SLU-606" in airflow(world)
    assert [text.split(":")[1][:8] for text in Recorder.messages()] == [" SLU-606"]
    world.ti.pushed.clear()
    repair_source(world)
    assert airflow(world) == "healthy"
    assert world.ti.pushed, "a worker told"
    assert "healthy again" in Recorder.messages()[-1]
    world.ti.pushed.clear()
    for _ in range(3):
        repair_source(world)
        assert airflow(world) == "healthy"
    assert (len(Recorder.sent), world.ti.pushed) == (2, {})


def test_to_know_what_was_told_costs_a_check_two_requests(world: World, tmp_path: Path) -> None:
    def requests() -> int:
        before = world.memory.requests.total()
        repair_source(world)
        airflow(world)
        return world.memory.requests.total() - before

    # The first check records the health besides.
    requests()
    first, then = requests(), requests()
    (tmp_path / "notifications.toml").unlink()
    without = requests()
    assert (first, then) == (without + 2, without + 2)


def test_what_another_process_told_is_noticed_at_the_next_check(world: World) -> None:
    """A missed deadline may be told by another triggerer."""
    airflow(world)
    run = (f"{STREAM}_stream", "r9")
    note = notifier.note(Event.DEADLINE, STREAM, "supervision", "SLU-512 late", run)
    telling.tell(world.kept, note, "SLU-512", RunChannel({}))
    repair_source(world)
    airflow(world)
    assert [text.split(":")[0] for text in Recorder.messages()] == [
        f"{STREAM} supervision",
        f"{STREAM} producer",
    ]


def test_a_recovery_that_cannot_be_told_turns_the_check_red_until_it_is(world: World) -> None:
    break_source(world)
    airflow(world)
    Recorder.failing["a"] = TimeoutError("timed out")
    for _ in range(2):
        repair_source(world)
        with raising(AirflowFailException, "SLU-241", "TimeoutError: timed out"):
            world.supervise()
    Recorder.failing.clear()
    repair_source(world)
    assert world.supervise() == "healthy"
    assert "healthy again" in Recorder.messages()[-1]


def test_a_failed_delivery_hides_no_health_and_hinders_no_restart(world: World) -> None:
    Recorder.failing["a"] = TimeoutError("timed out")
    break_source(world)
    assert airflow(world).startswith("SLU-606")
    repair_source(world)
    world.process = World(ProcessState.EXITED).process
    assert airflow(world) == "down"
    assert world.did == ["start"]


def test_a_restart_that_does_not_help_is_told_once(world: World) -> None:
    world.lives = None
    for _ in range(2):
        world.process = World(ProcessState.EXITED).process
        world.heard = None
        assert "SLU-504" in airflow(world)
    (message,) = Recorder.messages()
    assert "did not recover" in message


def test_an_outage_of_the_history_is_no_recovery(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    def away(*_: Any) -> bool:
        raise Unreachable("S3 is away")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(health, "is_told", away)
        assert airflow(world) == "healthy"
    assert "S3 is away" in capsys.readouterr().out
    assert world.ti.pushed == {}


def test_an_invalid_file_turns_a_healthy_check_red(world: World, tmp_path: Path) -> None:
    (tmp_path / "notifications.toml").write_text("[[notify]]\nnotifer = 1\n")
    with raising(AirflowFailException, "SLU-101", "notifications.toml", "notifer"):
        world.supervise()


def test_what_is_left_to_a_person_is_told_once_with_the_ways_on_and_its_end_once(world: World) -> None:
    for seconds in (30, 90, 150):
        at = datetime.fromtimestamp(world.now - seconds, UTC)
        world.kept.record("restart", {"who": "schedule", "requested": False, "identity": str(seconds)}, at)
    world.process = World(ProcessState.EXITED).process
    for _ in range(3):
        assert airflow(world).startswith("SLU-614")
    ((_, text),) = Recorder.sent
    for part in (
        f"{STREAM} producer: SLU-614",
        f"trigger {STREAM}_stream with action restart; or with action stop",
        f"Restart or stop it: http://localhost:8080/dags/{STREAM}_stream",
        f"/streams/{STREAM}",
    ):
        assert part in text
    world.supervise(user="ada", action="restart", at=datetime.now(UTC))
    assert len(Recorder.sent) == 1
    assert airflow(world) == "healthy"
    assert "healthy again" in Recorder.messages()[-1]


def test_a_consumer_that_is_well_again_is_told_though_its_maintenance_is_overdue(consumer: World) -> None:
    note = notifier.note(Event.ALERT, STREAM, "consumer", "SLU-602 at risk", ("d", "r0"))
    telling.tell(consumer.kept, note, "SLU-602", RunChannel({}))
    ended = datetime.now(UTC) - 3 * timedelta(hours=SPEC.maintenance.schedule_hours, minutes=1)
    consumer.kept.record_maintenance(ended, "r")
    for _ in range(3):
        assert airflow(consumer).startswith("SLU-511")
    assert [text.split(": ")[1].split()[0] for text in Recorder.messages()] == ["SLU-602", "idle", "SLU-511"]
    telling.tell(consumer.kept, note, "SLU-602", RunChannel({}))
    assert len(Recorder.sent) == 4


@pytest.mark.parametrize("is_well", [True, False])
def test_the_next_check_tells_of_a_load_that_could_not_be_told(consumer: World, is_well: bool) -> None:
    Recorder.failing["a"] = TimeoutError("timed out")
    note = notifier.note(Event.FAILURE, STREAM, "load validate", "SLU-401 2 gaps", ("load", "r7"))
    with raising(NotDelivered, "timed out"):
        telling.tell_of_run(lambda: consumer.kept, note, RunChannel({}))
    if is_well:
        with raising(AirflowFailException, "SLU-241", "timed out"):
            consumer.supervise()
    else:
        consumer.away["process"] = Unreachable("supervisord is away")
        assert airflow(consumer).startswith("SLU-6")
    Recorder.failing.clear()
    airflow(consumer)
    assert Recorder.messages()[0] == f"{STREAM} load validate: SLU-401 2 gaps"
    airflow(consumer)
    assert [text for text in Recorder.messages() if "validate" in text] == Recorder.messages()[:1]
