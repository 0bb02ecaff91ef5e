"""A person is told once per change; what could not be told is tried again, and visible."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from sluice.clients.errors import Unreachable
from sluice.clients.ledger import History
from sluice.hooks import delivery, notifications
from sluice.hooks.delivery import NotDelivered
from sluice.hooks.failures import failed
from sluice.model.error_codes import ErrorCode
from sluice.model.spec.ledger import NOTIFIED, NOTIFIED_RUN
from sluice.model.spec.notifications import Event
from tests.support import notifier
from tests.support.memory_s3 import MemoryS3
from tests.support.notifier import Recorder, rule
from tests.support.raising import raising

RISK = failed(ErrorCode.HEALTH_DATA_AT_RISK, "the consumer of nyc_taxi is data at risk: 5 records")
STARTED = datetime.now(UTC) - timedelta(minutes=5)


class World:
    """``histories``: by name, all on one S3; ``away``: S3 does not answer."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.memory = MemoryS3()
        self.folder, self.patch = folder, patch
        self.away = False
        self.configure(rule())

    def configure(self, text: str) -> None:
        notifier.configure(self.folder, self.patch, text)

    def history(self, name: str) -> History:
        if self.away:
            raise Unreachable("S3 is away")
        return History(self.memory.as_client(), "s3://w/ledger", name)

    def context(
        self, task: str, dag: str, error: BaseException | None, run: str = "r1", before: Any = None
    ) -> dict[str, Any]:
        components = {"consumer": "consumer", "producer": "producer"} if dag.endswith("_stream") else {}
        return {
            "task": SimpleNamespace(
                task_id=task, dag_id=dag, stream="nyc_taxi", component=components.get(task)
            ),
            "ti": SimpleNamespace(get_previous_ti=lambda: before),
            "run_id": run,
            "dag_run": SimpleNamespace(start_date=STARTED),
            "exception": error,
        }

    def fails(self, task: str, dag: str, error: BaseException | None = RISK, **more: Any) -> None:
        notifications.task_failed(self.context(task, dag, error, **more))

    def run_ends(self, dag: str, reason: str, run: str = "r1", how: Any = notifications.run_failed) -> None:
        made = DAG(dag_id=dag, schedule=None, dagrun_timeout=timedelta(hours=4))
        how("nyc_taxi", {"dag": made, "run_id": run, "reason": reason})

    def recovers(self, name: str = "nyc_taxi") -> None:
        note = notifications.compose(Event.RECOVERY, "nyc_taxi", "consumer", "healthy again", ("d", "r2"))
        notifications.tell(self.history(name), note, "", {})


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path, monkeypatch)
    monkeypatch.setattr(notifications, "PlatformHook", lambda: made)
    yield made
    Recorder.clear()


def test_a_stream_that_stays_broken_is_told_once_and_its_recovery_once(world: World) -> None:
    for run in range(30):
        world.fails("consumer", "nyc_taxi_stream", run=f"r{run}")
    assert Recorder.messages() == [f"nyc_taxi consumer: {RISK}"]
    for _ in range(3):
        world.recovers()
    assert Recorder.messages()[1:] == ["nyc_taxi consumer: healthy again"]
    world.fails("consumer", "nyc_taxi_stream")
    assert len(Recorder.sent) == 3


def test_another_health_is_told_and_each_component_on_its_own(world: World) -> None:
    world.fails("consumer", "nyc_taxi_stream")
    world.fails("producer", "nyc_taxi_stream")
    world.fails("consumer", "nyc_taxi_stream", failed(ErrorCode.HEALTH_UNKNOWN, "Kafka is away"))
    assert [text.split(":")[0] for text in Recorder.messages()] == [
        "nyc_taxi consumer",
        "nyc_taxi producer",
        "nyc_taxi consumer",
    ]


def test_a_message_has_the_links_and_the_way_out(world: World) -> None:
    world.fails("consumer", "nyc_taxi_stream")
    ((_, text),) = Recorder.sent
    for part in ("/dags/nyc_taxi_stream/runs/r1/tasks/consumer", "/sluice/streams/nyc_taxi", "#data-at-risk"):
        assert part in text


def test_a_failed_load_is_told_once_per_run_whatever_tells(world: World) -> None:
    error = failed(ErrorCode.LOAD_NOT_VERIFIED, "2 gaps")
    world.fails("validate", "nyc_taxi_load", error)
    world.fails("validate", "nyc_taxi_load", error)
    world.run_ends("nyc_taxi_load", "task_failure")
    assert Recorder.messages() == ["nyc_taxi load validate: SLU-401 2 gaps"]
    world.fails("validate", "nyc_taxi_load", error, run="r2")
    world.fails("produce", "nyc_taxi_backfill", error, run="r2")
    assert len(Recorder.sent) == 3


def test_a_run_that_timed_out_without_a_failed_task_is_told(world: World) -> None:
    world.run_ends("nyc_taxi_load", "timed_out")
    world.run_ends("nyc_taxi_load", "timed_out")
    (message,) = Recorder.messages()
    assert "timed out after 4:00:00" in message


def test_a_killed_worker_is_told_without_its_reason(world: World) -> None:
    """The DAG processor calls it then, and has no exception."""
    world.fails("produce", "nyc_taxi_load", None)
    (message,) = Recorder.messages()
    assert "SLU-500 task produce ended without a report" in message


def test_hourly_runs_that_find_the_same_tell_once_and_their_end_once(world: World) -> None:
    finding = failed(ErrorCode.RECONCILIATION_FINDING, "gap 3=[1,2)")
    for run in ("r1", "r2"):
        world.fails("verify_table", "nyc_taxi_reconciliation", finding, run=run)
        world.run_ends("nyc_taxi_reconciliation", "task_failure", run)
    assert len(Recorder.sent) == 1
    other = failed(ErrorCode.RECONCILIATION_FINDING, "gap 4=[1,2)")
    world.fails("verify_table", "nyc_taxi_reconciliation", other, run="r3")
    for run in ("r4", "r5"):
        world.run_ends("nyc_taxi_reconciliation", "success", run, notifications.run_succeeded)
    assert Recorder.messages()[1:] == [
        f"nyc_taxi reconciliation verify_table: {other}",
        "nyc_taxi reconciliation: succeeds again",
    ]


def test_sinks_that_fail_in_supervision_recover_by_their_own_success(world: World) -> None:
    error = failed(ErrorCode.DATABASE_UNREACHABLE, "no database")
    for _ in range(2):
        world.fails("provision_sinks", "nyc_taxi_stream", error)
    for _ in range(2):
        notifications.task_succeeded(world.context("provision_sinks", "nyc_taxi_stream", None))
    assert Recorder.messages() == [
        "nyc_taxi provision_sinks: SLU-231 no database",
        "nyc_taxi provision_sinks: succeeds again",
    ]


def test_what_could_not_be_told_is_told_by_the_next_check(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    Recorder.failing["a"] = ConnectionRefusedError(111, "refused")
    world.fails("consumer", "nyc_taxi_stream")
    assert "SLU-241" in caplog.text
    assert "ConnectionRefusedError" in caplog.text
    assert world.history("nyc_taxi").latest(NOTIFIED) is None
    Recorder.failing.clear()
    world.fails("consumer", "nyc_taxi_stream", run="r2")
    assert len(Recorder.sent) == 1


def test_a_notifier_that_fails_repeats_no_other(world: World) -> None:
    world.configure(rule("a") + rule("b"))
    Recorder.failing["b"] = ValueError("no")
    for _ in range(2):
        world.fails("consumer", "nyc_taxi_stream")
        world.fails("validate", "nyc_taxi_load")
    assert [name for name, _ in Recorder.sent] == ["a", "a"]
    Recorder.failing.clear()
    for _ in range(2):
        world.fails("consumer", "nyc_taxi_stream")
        world.fails("validate", "nyc_taxi_load")
    assert [name for name, _ in Recorder.sent] == ["a", "a", "b", "b"]


def test_a_notifier_that_hangs_is_given_up_and_hinders_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.configure(rule("a") + rule("b"))
    Recorder.hanging["a"] = threading.Event()
    monkeypatch.setattr(delivery.deliver, "__defaults__", (0.2,))
    note = notifications.compose(Event.ALERT, "nyc_taxi", "consumer", "x", ("d", "r"))
    with raising(NotDelivered, "Recorder-", "no answer within 0.2 s"):
        notifications.tell(world.history("nyc_taxi"), note, "SLU-602", {})
    Recorder.hanging["a"].set()
    assert [name for name, _ in Recorder.sent] == ["b"]


@pytest.mark.parametrize(
    ("notifier_of", "named"),
    [
        ("no.such.Notifier", ["no.such.Notifier", "package"]),
        ("pathlib.Path", ["pathlib.Path", "BaseNotifier"]),
        (notifier.RECORDER, ["Recorder", "unexpected keyword argument 'nam'"]),
    ],
)
def test_a_class_that_cannot_be_called_is_named(world: World, notifier_of: str, named: list[str]) -> None:
    world.configure(f'[[notify]]\nnotifier = "{notifier_of}"\n[notify.arguments]\nnam = "x"\n')
    note = notifications.compose(Event.ALERT, "nyc_taxi", "consumer", "x", ("d", "r"))
    with raising(NotDelivered, *named):
        notifications.tell(world.history("nyc_taxi"), note, "SLU-602", {})


def test_a_rule_without_the_event_is_silent_and_follows_the_outage(world: World) -> None:
    world.configure(rule(more='events = ["recovery"]'))
    world.fails("consumer", "nyc_taxi_stream")
    assert Recorder.sent == []
    world.recovers()
    world.recovers()
    assert len(Recorder.sent) == 1


def test_a_failed_delivery_is_not_told_by_what_failed(world: World) -> None:
    world.fails("consumer", "nyc_taxi_stream", AirflowFailException("SLU-241 1 notifier(s) failed: x"))
    assert Recorder.sent == []


def test_without_the_ledger_the_first_failure_is_told(world: World) -> None:
    world.away = True
    away = failed(ErrorCode.S3_UNREACHABLE, "S3 is away")
    world.fails("consumer", "nyc_taxi_stream", away, before=SimpleNamespace(run_id="r0", state="success"))
    world.fails("consumer", "nyc_taxi_stream", away, before=SimpleNamespace(run_id="r0", state="failed"))
    assert Recorder.messages() == ["nyc_taxi consumer: SLU-211 S3 is away"]


def test_without_rules_nothing_is_asked(world: World) -> None:
    (world.folder / "notifications.toml").unlink()
    world.fails("consumer", "nyc_taxi_stream")
    world.fails("validate", "nyc_taxi_load")
    assert not notifications.is_told(world.history("nyc_taxi"), "nyc_taxi")
    assert not world.memory.requests


def test_an_invalid_file_is_logged_by_a_callback(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.configure("[[notify]]\nnotifer = 1\n")
    world.fails("consumer", "nyc_taxi_stream")
    assert "SLU-101" in caplog.text
    assert "notifer" in caplog.text


def test_what_was_told_is_in_the_history(world: World) -> None:
    world.fails("consumer", "nyc_taxi_stream")
    world.fails("validate", "nyc_taxi_load")
    for kind, event in ((NOTIFIED, "alert"), (NOTIFIED_RUN, "failure")):
        document = world.history("nyc_taxi").latest(kind)
        assert document is not None
        assert (document["event"], document["run"], len(document["delivered"])) == (event, "r1", 1)
