"""A person is told once per change; what could not be told is tried again, and visible."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from sluice.airflow import callbacks, delivery
from sluice.airflow.channel import RunChannel
from sluice.airflow.failures import failed, failed_over, final_failures
from sluice.config.notifications import INSTALLATION, Event
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, Unreachable
from sluice.core.findings import Finding, FindingName
from sluice.ledger.history import History
from sluice.ledger.keys import NOTIFIED, UNDELIVERED
from sluice.maintenance.reconciliation.report import check_findings
from sluice.notify import telling
from sluice.notify.telling import NotDelivered
from tests.support import notifier
from tests.support.memory_s3 import MemoryS3
from tests.support.notifier import Recorder, rule
from tests.support.raising import raising

RISK = failed(ErrorCode.HEALTH_DATA_AT_RISK, "the consumer of nyc_taxi is data at risk: 5 records")
STARTED = datetime.now(UTC) - timedelta(minutes=5)


class World:
    """``histories``: by name, all on one S3, which is ``away``, or ``is_full`` and takes no document."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.memory = MemoryS3()
        self.folder, self.patch = folder, patch
        self.away = self.is_full = False
        self.xcoms: dict[tuple[str, str], Any] = {}
        self.logical_date: datetime | None = STARTED
        self.configure(rule())

    def configure(self, text: str) -> None:
        notifier.configure(self.folder, self.patch, text)

    def history(self, name: str) -> History:
        if self.away:
            raise Unreachable("S3 is away")
        made = History(self.memory.as_client(), "s3://w/ledger", name)
        if self.is_full:
            made.put = self.refuse  # type: ignore[method-assign]
        return made

    def refuse(self, key: str, document: Any) -> Any:
        raise Refused("S3 denies the put", ErrorCode.S3_PERMISSION)

    brief_history = history

    def context(
        self, task: str, dag: str, error: BaseException | None, run: str = "r1", before: Any = None
    ) -> dict[str, Any]:
        components = {"consumer": "consumer", "producer": "producer"} if dag.endswith("_stream") else {}
        return {
            "task": SimpleNamespace(
                task_id=task, dag_id=dag, stream="nyc_taxi", component=components.get(task)
            ),
            "ti": self.ti(task, run, before),
            "run_id": run,
            "dag_run": SimpleNamespace(start_date=STARTED, logical_date=self.logical_date),
            "exception": error,
        }

    def ti(self, task: str, run: str, before: Any) -> Any:
        """``before``: the run before, if it failed; XComs are kept per run."""
        return SimpleNamespace(
            task_id=task,
            get_previous_ti=lambda: before,
            xcom_push=lambda key, value: self.xcoms.update({(run, key): value}),
            xcom_pull=lambda task_ids, key, run_id, map_indexes: self.xcoms.get((run_id, key)),
        )

    def fails(self, task: str, dag: str, error: BaseException | None = RISK, **more: Any) -> None:
        callbacks.task_failed(self.context(task, dag, error, **more))

    def run_ends(self, dag: str, reason: str, run: str = "r1", how: Any = callbacks.run_failed) -> None:
        made = DAG(dag_id=dag, schedule=None, dagrun_timeout=timedelta(hours=4))
        run_of = SimpleNamespace(start_date=STARTED, logical_date=self.logical_date)
        how("nyc_taxi", {"dag": made, "run_id": run, "reason": reason, "dag_run": run_of})

    def checks(self) -> None:
        telling.tell_open(self.history("nyc_taxi"), "nyc_taxi", RunChannel({}))

    def recovers(self, name: str = "nyc_taxi") -> None:
        note = notifier.note(Event.RECOVERY, "nyc_taxi", "consumer", "healthy again", ("d", "r2"))
        telling.tell(self.history(name), note, "", RunChannel({}))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path, monkeypatch)
    monkeypatch.setattr(callbacks, "PlatformHook", lambda: made)
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
    for run in ("r1", "r2"):
        text = (
            f"raw.nyc_taxi: 1 findings (offsets-missing): offsets-missing: {run} offsets are in neither table"
        )
        finding = failed(ErrorCode.RECONCILIATION_FINDING, text)
        world.fails("verify_table", "nyc_taxi_reconciliation", finding, run=run)
        world.run_ends("nyc_taxi_reconciliation", "task_failure", run)
    assert len(Recorder.sent) == 1
    other = failed(
        ErrorCode.RECONCILIATION_FINDING, "raw.nyc_taxi: 1 findings (main-moved): main-moved: to 5"
    )
    world.fails("verify_table", "nyc_taxi_reconciliation", other, run="r3")
    for run in ("r4", "r5"):
        world.run_ends("nyc_taxi_reconciliation", "success", run, callbacks.run_succeeded)
    assert Recorder.messages()[1:] == [
        f"nyc_taxi reconciliation verify_table: {other}",
        "nyc_taxi reconciliation: succeeds again",
    ]


def test_a_new_finding_in_fourth_place_is_told(world: World) -> None:
    """The message shows three; the condition has all."""
    names = [FindingName.FOREIGN_COMMIT, FindingName.RANGE_WRONG, FindingName.OFFSETS_MISSING]
    for run, more in enumerate([[], [], [FindingName.OFFSETS_DUPLICATED], [FindingName.OFFSETS_DUPLICATED]]):
        found = [Finding(name, f"of run {run}") for name in [*names, *more]]
        with pytest.raises(AirflowFailException) as failure, final_failures():
            check_findings(logging.getLogger(), found, "contents of raw.nyc_taxi")
        world.fails("verify_table", "nyc_taxi_reconciliation", failure.value, run=f"r{run}")
    first, second = Recorder.messages()
    assert "offsets-duplicated" not in first
    assert "offsets-duplicated" in second


def test_what_is_wrong_with_the_configuration_is_told_once_a_day_to_every_rule(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No run tells that it is corrected: its DAG is gone then."""
    world.configure(rule(more='streams = ["nyc_taxi"]\nevents = ["alert"]'))
    wrong = failed(
        ErrorCode.INVALID_CONFIGURATION, "/srv/x: No such file or directory. Fix: correct the path"
    )
    other = failed(ErrorCode.INVALID_CONFIGURATION, "'Rides' has a stream.toml. Fix: rename it")

    def fails(error: BaseException) -> None:
        context = world.context("check", "sluice_configuration", error)
        context["task"].stream = INSTALLATION
        callbacks.task_failed(context)

    for error in (wrong, wrong, other, other):
        fails(error)
    assert Recorder.messages() == [f"sluice configuration: {error}" for error in (wrong, other)]
    assert "/sluice/streams\n" in f"{Recorder.sent[0][1]}\n", "there is no page of a stream"
    monkeypatch.setattr(callbacks, "_today", lambda: date(2026, 1, 2))
    fails(wrong)
    fails(wrong)
    assert len(Recorder.sent) == 3


def finds(world: World, *problems: str) -> None:
    """A check of connections does."""
    error = failed_over(ErrorCode.CONNECTION_FINDING, f"{len(problems)} of 9 ends failed", problems)
    context = world.context("check_connections", "sluice_connections", error)
    context["task"].stream = INSTALLATION
    callbacks.task_failed(context)


def test_each_finding_is_told_once_however_many_there_are(world: World) -> None:
    """Also the fourth, which the task's one line only counts; brokers differ by a number alone."""
    found = [f"airflow kafka b-{number}:9092: it does not answer" for number in (1, 2, 3, 4)]
    finds(world, *found)
    finds(world, *found)
    ((_, text),) = Recorder.sent
    assert "4 of 9 ends failed" in text
    assert [line for line in text.splitlines() if line.startswith("- ")] == [f"- {one}" for one in found]
    other = "airflow smtp there: it does not answer"
    finds(world, *found[:3], other)
    assert Recorder.messages()[1].endswith(f"SLU-281 4 of 9 ends failed: {other}")
    finds(world, *found[:3])
    finds(world, *found)
    assert Recorder.messages()[2].endswith(found[3]), "it was well meanwhile"
    assert len(Recorder.sent) == 3


def test_more_findings_than_a_message_has_come_with_the_next_run(world: World) -> None:
    found = [f"role {chr(ord('a') + number)}: it does not answer" for number in range(25)]
    for _ in range(3):
        finds(world, *found)
    told = [line for sent in Recorder.sent for line in sent[1].splitlines() if line.startswith("- ")]
    assert told == [f"- {one}" for one in found]


def test_a_certificate_that_ends_is_told_once_and_another_end_again(world: World) -> None:
    def ending(left: str) -> str:
        return f"airflow s3 there: the certificate ends in {left}. Fix: renew it"

    finds(world, ending("13 d 3 h"))
    finds(world, ending("12 d 3 h"))
    finds(world, ending("9 h"))
    other = "airflow kafka there: it does not answer. Fix: start it"
    finds(world, ending("9 h"), other)
    context = {**world.context("check_connections", "sluice_connections", None), "reason": "success"}
    context["dag"] = DAG(dag_id="sluice_connections", schedule=None)
    callbacks.run_succeeded(INSTALLATION, context)
    told = [text.split(": ", 1)[1] for text in Recorder.messages()]
    first, second = f"1 of 9 ends failed: {ending('13 d 3 h')}", f"2 of 9 ends failed: {other}"
    assert told == [f"SLU-281 {first}", f"SLU-281 {second}", "succeeds again"]


def test_a_role_that_is_not_looked_at_any_more_is_told_once(world: World) -> None:
    def looks(*lines: str) -> None:
        """A check whose task is well."""
        callbacks.not_looked_at(world.context("check_connections", "sluice_connections", None), lines)
        context = {**world.context("check_connections", "sluice_connections", None), "reason": "success"}
        context["dag"] = DAG(dag_id="sluice_connections", schedule=None)
        callbacks.run_succeeded(INSTALLATION, context)

    first, second = (f"{role} platform file {role}.toml not looked at: it is not here" for role in ("a", "b"))
    looks()
    looks(first)
    looks(first)
    looks(first, second)
    looks(second)
    looks(first, second)
    looks()
    looks()
    told = [text.partition("SLU-281 ")[2] or text for text in Recorder.messages()]
    assert told == [
        f"1 end not looked at: {first}",
        f"2 ends not looked at: {second}",
        f"2 ends not looked at: {first}",
        "sluice connections roles: all roles are looked at again",
    ]


def test_sinks_that_fail_in_supervision_recover_by_their_own_success(world: World) -> None:
    error = failed(ErrorCode.DATABASE_UNREACHABLE, "no database")
    for _ in range(2):
        world.fails("provision_sinks", "nyc_taxi_stream", error)
    for _ in range(2):
        callbacks.task_succeeded(world.context("provision_sinks", "nyc_taxi_stream", None))
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
        world.checks()
    assert [name for name, _ in Recorder.sent] == ["a", "a", "b", "b"]


def test_a_notifier_that_hangs_is_given_up_and_hinders_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.configure(rule("a") + rule("b"))
    Recorder.hanging["a"] = threading.Event()
    monkeypatch.setattr(delivery.deliver, "__defaults__", (0.2,))
    note = notifier.note(Event.ALERT, "nyc_taxi", "consumer", "x", ("d", "r"))
    with raising(NotDelivered, "Recorder-", "no answer within 0.2 s"):
        telling.tell(world.history("nyc_taxi"), note, "SLU-602", RunChannel({}))
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
    note = notifier.note(Event.ALERT, "nyc_taxi", "consumer", "x", ("d", "r"))
    with raising(NotDelivered, *named):
        telling.tell(world.history("nyc_taxi"), note, "SLU-602", RunChannel({}))


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
    assert not telling.is_told(world.history("nyc_taxi"), "nyc_taxi")
    assert not world.memory.requests


def test_an_invalid_file_is_logged_by_a_callback(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.configure("[[notify]]\nnotifer = 1\n")
    world.fails("consumer", "nyc_taxi_stream")
    assert "SLU-101" in caplog.text
    assert "notifer" in caplog.text


def test_what_was_told_is_in_the_history(world: World) -> None:
    world.fails("consumer", "nyc_taxi_stream")
    world.fails("validate", "nyc_taxi_load")
    kept = world.history("nyc_taxi")
    (of_run,) = map(kept.get, kept.keys("runs/r1/notified-nyc_taxi_load-failure-"))
    for document, event in ((kept.latest(NOTIFIED), "alert"), (of_run, "failure")):
        assert document is not None
        assert (document["event"], document["run"], len(document["delivered"])) == (event, "r1", 1)


def test_a_risk_is_told_again_after_another_health(world: World) -> None:
    lagging = failed(ErrorCode.HEALTH_LAGGING, "its lag grows")
    for error in (lagging, RISK, lagging, RISK, RISK):
        world.fails("consumer", "nyc_taxi_stream", error)
    assert [text.split()[2] for text in Recorder.messages()] == ["SLU-601", "SLU-602", "SLU-601", "SLU-602"]


def test_overdue_maintenance_mutes_no_outage_and_its_success_ends_it(world: World) -> None:
    overdue = failed(ErrorCode.MAINTENANCE_OVERDUE, "no run was complete")
    for error in (overdue, overdue, RISK):
        world.fails("consumer", "nyc_taxi_stream", error)
    world.recovers()
    for error in (overdue, RISK):
        world.fails("consumer", "nyc_taxi_stream", error)
    world.run_ends("nyc_taxi_maintenance", "success", how=callbacks.run_succeeded)
    world.fails("consumer", "nyc_taxi_stream", overdue)
    assert [text.split(": ")[1][:7] for text in Recorder.messages()] == [
        "SLU-511", "SLU-602", "healthy", "SLU-602", "succeed", "SLU-511",
    ]  # fmt: skip


def test_a_ledger_that_cannot_be_written_gives_one_message_and_then_has_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.is_full = True
    before = None
    for number in range(4):
        world.fails("consumer", "nyc_taxi_stream", run=f"r{number}", before=before)
        before = SimpleNamespace(run_id=f"r{number}", state="failed")
    assert len(Recorder.sent) == 1
    assert "S3 denies the put" in caplog.text
    world.is_full = False
    world.fails("consumer", "nyc_taxi_stream", run="r4", before=before)
    world.fails("consumer", "nyc_taxi_stream", run="r5")
    assert len(Recorder.sent) == 1
    assert world.history("nyc_taxi").latest(NOTIFIED)


def test_a_killed_worker_keeps_no_xcom(world: World) -> None:
    """The DAG processor takes none."""
    world.is_full = True
    world.fails("consumer", "nyc_taxi_stream", None)
    assert (len(Recorder.sent), world.xcoms) == (1, {})


def test_who_gives_no_answer_is_called_once_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int] = []
    world.configure(rule())
    Recorder.hanging["a"] = threading.Event()
    monkeypatch.setattr(delivery.deliver, "__defaults__", (0.05,))
    monkeypatch.setattr(Recorder, "__init__", _counted(called))
    for number in range(4):
        world.fails("consumer", "nyc_taxi_stream", run=f"r{number}")
        world.fails("validate", "nyc_taxi_load")
        if number < 2:
            try:
                world.checks()
            except NotDelivered:
                continue
    assert len(called) == 4
    Recorder.hanging.pop("a").set()
    world.recovers()
    assert Recorder.messages() == ["nyc_taxi consumer: healthy again"]


def _counted(called: list[int]) -> Any:
    original = Recorder.__init__

    def made(self: Recorder, **given: Any) -> None:
        called.append(1)
        original(self, **given)

    return made


def test_a_clock_that_was_ahead_hides_no_later_record(world: World) -> None:
    kept = world.history("nyc_taxi")
    (rule_id,) = [one.id for one in telling.rules_for("nyc_taxi")]
    ahead = datetime.now(UTC) + timedelta(days=365)
    kept.record_run(NOTIFIED, {"told": {rule_id: ["SLU-602"]}}, ahead)
    for _ in range(2):
        world.recovers()
    for _ in range(2):
        world.fails("consumer", "nyc_taxi_stream")
    assert Recorder.messages() == ["nyc_taxi consumer: healthy again", f"nyc_taxi consumer: {RISK}"]


def test_a_rule_for_a_stream_that_is_gone_mutes_no_other(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.configure(rule("b", 'streams = ["gone"]') + rule("a"))
    world.fails("consumer", "nyc_taxi_stream")
    assert [name for name, _ in Recorder.sent] == ["a"]
    assert "'gone' is unknown" in caplog.text


def test_without_the_ledger_a_run_without_a_date_tells_nothing(world: World) -> None:
    """Airflow may answer any run as the one before it."""
    world.away, world.logical_date = True, None
    world.fails("consumer", "nyc_taxi_stream", before=SimpleNamespace(run_id="r0", state="success"))
    assert Recorder.sent == []
    world.away = False
    world.fails("consumer", "nyc_taxi_stream")
    assert len(Recorder.sent) == 1


def test_what_was_told_of_a_run_is_one_request_however_long_it_waits(world: World) -> None:
    for number in range(20):
        world.fails("validate", "nyc_taxi_load", run=f"r{number}")
    before = world.memory.requests.total()
    world.fails("validate", "nyc_taxi_load", run="r3")
    assert (len(Recorder.sent), world.memory.requests.total() - before) == (20, 1)


def test_a_failed_load_is_told_without_the_ledger(world: World) -> None:
    world.away = True
    world.fails("validate", "nyc_taxi_load")
    world.run_ends("nyc_taxi_load", "task_failure")
    assert len(Recorder.sent) == 1


def test_what_was_not_told_of_a_run_is_told_by_later_checks_oldest_first(world: World) -> None:
    Recorder.failing["a"] = ConnectionRefusedError(111, "refused")
    for number in range(7):
        world.fails(
            "validate",
            "nyc_taxi_load",
            failed(ErrorCode.LOAD_NOT_VERIFIED, f"{number} gaps"),
            run=f"r{number}",
        )
    kept = world.history("nyc_taxi")
    assert telling.is_told(kept, "nyc_taxi")
    with raising(NotDelivered, "refused"):
        world.checks()
    Recorder.failing.clear()
    world.checks()
    assert [text.split()[-2] for text in Recorder.messages()] == list("01234")
    for _ in range(2):
        world.checks()
    assert [text.split()[-2] for text in Recorder.messages()] == list("0123456")
    assert not telling.is_told(kept, "nyc_taxi")
    assert len(kept.newest_keys(UNDELIVERED, 10)) == 7, "the ledger is written once"
