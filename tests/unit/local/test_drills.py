"""The drills themselves, as far as no fault has to be injected."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from local.base import UsageError
from local.drills import catalog_faults, command, drill, query_faults, record_faults
from local.drills.consumer_faults import process_tree
from local.drills.drill import POLL_SECONDS, DrillContext, Failed
from local.stack.stack import Stack
from sluice.clients.lake.catalog import Commit
from sluice.core.errors import Unreachable
from sluice.core.process import ProcessExit, ProcessState, ProcessStatus
from spark_jobs.isp_hits.transforms import FIELDS, REQUIRED
from tests.support.raising import raising

REPO = Path(__file__).resolve().parents[3]


def context(**stream: Any) -> DrillContext:
    """With parts of a stream, and no background load."""
    made: Any = SimpleNamespace(**stream)
    nothing: Any = None
    return DrillContext(made, nothing, print, injected_at=1000.0)


def test_every_drill_has_a_dag_but_the_one_that_kills_airflow() -> None:
    module = ast.parse((REPO / "dags" / "drills.py").read_text())
    [names] = [
        ast.literal_eval(node.value)
        for node in module.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DRILLS"
    ]
    assert list(names) == [name for name in command.DRILLS if name != "airflow_killed"]


def test_the_drills_that_are_chosen() -> None:
    assert [drill.name for drill in command.chosen("disk_full, consumer_hung")] == [
        "disk_full",
        "consumer_hung",
    ]
    assert [drill.name for drill in command.chosen("")] == list(command.DRILLS)
    with raising(UsageError, "DRILL=a,disk_full", "no drill a of", *command.DRILLS):
        command.chosen("a,disk_full")


def test_no_drill_breaks_external_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither those that a stack that runs remembers, nor those of the environment."""

    def unexpected(*_: object) -> None:
        raise AssertionError("the drill went on")

    monkeypatch.setattr(command, "_running", unexpected)
    monkeypatch.setattr(command, "own_stack", unexpected)
    monkeypatch.delenv("SLUICE_EXTERNAL", raising=False)
    stack = Stack(tmp_path)
    stack.home.prepare()
    stack.home.remember(external="/my-platform")
    with raising(UsageError, "/my-platform", "SLUICE_EXTERNAL", "Fix: ") as caught:
        command.main("consumer_killed", True, stack)
    assert len(str(caught.value).splitlines()) == 1
    monkeypatch.setenv("SLUICE_EXTERNAL", str(tmp_path))
    with raising(UsageError, str(tmp_path), "SLUICE_EXTERNAL", "Fix: "):
        command.main("consumer_killed", False)


def test_every_drill_has_detectors() -> None:
    assert all(drill.detected_by and drill.what for drill in command.DRILLS.values())


class History:
    def __init__(self, **events: list[dict[str, Any]]) -> None:
        self.events = events

    def since(self, kind: str, at: Any) -> list[dict[str, Any]]:
        found = self.events.get(kind, [])
        return [event for event in found if drill.moment(event["at"]) >= at.timestamp()]


def health(at: int, word: str) -> dict[str, Any]:
    return {"at": f"1970-01-01T00:{at // 60:02}:{at % 60:02}+00:00", "health": word}


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([], None),
        ([health(999, "down")], None),
        ([health(1001, "healthy"), health(1002, "catching up"), health(1003, "suspended")], None),
        (
            [health(1001, "idle"), health(1007, "stalled"), health(1009, "down")],
            (1007.0, "health stalled"),
        ),
        ([health(1001, "unknown")], (1001.0, "health unknown")),
    ],
)
def test_detected_by_the_first_status_that_needs_an_action(
    statuses: list[dict[str, Any]], expected: Any
) -> None:
    assert drill.detected_by_health(context(history=History(health=statuses))) == expected


def test_detected_by_rejecting_and_no_other_status() -> None:
    words = [health(1001, "unknown"), health(1003, "rejecting"), health(1005, "rejecting")]
    assert drill.detected_by_rejecting(context(history=History(health=words))) == (1003.0, "health rejecting")
    assert drill.detected_by_rejecting(context(history=History(health=words[:1]))) is None


def test_a_record_of_another_producer_is_framed_as_confluents_serializers_do() -> None:
    assert record_faults.in_confluents_format(b"body") == b"\x00\x00\x00\x00\x07body"


def test_detected_by_the_first_status_that_leads_to_a_restart() -> None:
    words = [health(1001, "fenced"), health(1002, "idle"), health(1005, "down")]
    assert drill.detected_by_restartable_health(context(history=History(health=words))) == (
        1005.0,
        "health down",
    )
    assert drill.detected_by_restartable_health(context(history=History(health=words[:2]))) is None


@pytest.mark.parametrize(
    ("pid", "start", "expected"),
    [(7, 900, None), (0, 0, None), (8, 1004, (1004.0, "supervisord")), (8, 999, (1000.0, "supervisord"))],
)
def test_detected_by_supervisord(pid: int, start: int, expected: Any) -> None:
    made = context(process=lambda program: {"pid": pid, "start": start})
    made.state["pids"] = {"kafka": 7}
    assert drill.detected_by_supervisord("kafka")(made) == expected


def test_detected_by_the_runtime() -> None:
    ended = ProcessExit(1003.0, -9, 50.0)
    before = ProcessStatus("stream-x", ProcessState.RUNNING, restarts=(990.0,), last_exit=ended)
    assert drill.detected_by_runtime(context(status=lambda: before)) is None
    after = replace(before, restarts=(990.0, 1003.5, 1010.0))
    found = drill.detected_by_runtime(context(status=lambda: after))
    assert found == (1003.5, "the runtime (signal 9 after 50 s)")


@pytest.mark.parametrize(
    ("early", "expected"),
    [(2, None), (3, (1005.0, "early_rows")), (4, "left out 2 early rows; one was sent")],
)
def test_detected_by_early_rows(monkeypatch: pytest.MonkeyPatch, early: int, expected: Any) -> None:
    def position(rows: int) -> Any:
        return SimpleNamespace(states={"windows": SimpleNamespace(early_rows=rows)})

    monkeypatch.setattr(query_faults.time, "time", lambda: 1005.0)
    monkeypatch.setattr(query_faults, "_position", lambda queried: position(early))
    made = context()
    made.state |= {"before": position(2), "queried": None}
    if isinstance(expected, str):
        with raising(Failed, expected):
            query_faults.detected_by_early_rows(made)
    else:
        assert query_faults.detected_by_early_rows(made) == expected


def test_detected_by_the_epoch_that_continues_from_the_restored_table() -> None:
    commits = [
        Commit(1, 1001.0, "batch", 4),
        Commit(2, 1002.0, "epoch-start", 5),
        Commit(3, 1003.0, "batch", 5),
    ]
    for known, expected in ((commits[:1], None), (commits, (1002.0, "the writer (epoch 5)"))):
        made = context(commits=lambda since, known=known: known if since == 1000.0 else [])
        assert catalog_faults.detected_by_new_epoch(made) == expected


@pytest.mark.parametrize(
    ("state", "failure"), [("success", ""), ("failed", "run r of taxi_maintenance was failed")]
)
def test_maintenance_in_a_drill_ends_paused_and_is_unpaused_afterwards_if_it_was(
    state: str, failure: str
) -> None:
    done: list[str] = []
    running: list[list[object]] = [[{}], []]
    airflow = SimpleNamespace(
        wait_for_dag=lambda dag: None,
        is_paused=lambda dag: False,
        unpause=lambda dag: done.append("unpause"),
        pause=lambda dag: done.append("pause"),
        trigger=lambda dag: "r",
        wait=lambda dag, run, seconds: state,
        request=lambda *_, **__: {"dag_runs": running.pop(0)},
    )
    made = context(airflow=airflow, spec=SimpleNamespace(name="taxi"))
    made.sleep = lambda seconds: None
    if failure:
        with raising(Failed, failure):
            catalog_faults.run_maintenance(made)
    else:
        catalog_faults.run_maintenance(made)
        assert not running, "the scheduled run has ended"
    assert done == ["unpause", "pause"]
    made.cleanup.close()
    assert done == ["unpause", "pause", "unpause"]


NOW = datetime(2026, 3, 1, 10, 3, tzinfo=UTC)
COUNTED = {"99999|2026-03-01T09:57:00Z": (50,), "99999|2026-03-01T10:02:00Z": (51,)}


@pytest.mark.parametrize(
    ("results", "late", "failure"),
    [
        (COUNTED, 0, ""),
        (COUNTED, 3, "3 rows were late after a record dated 20:00:00 ahead"),
        (
            {**COUNTED, "99999|2026-03-01T09:57:00Z": (49,)},
            0,
            "99999|2026-03-01T09:57:00Z of query windows is 49",
        ),
        ({}, 0, "is 0, and 50 hits of now were sent"),
    ],
)
def test_hits_of_now_are_all_counted_and_none_is_late(
    results: dict[str, tuple[int, ...]], late: int, failure: str
) -> None:
    if failure:
        with raising(Failed, failure):
            query_faults.check_counts(results, NOW, late)
    else:
        query_faults.check_counts(results, NOW, late)


def test_a_drills_hit_is_a_hit() -> None:
    fields = json.loads(query_faults.hit("x", NOW))
    assert set(REQUIRED) <= set(fields) <= set(FIELDS)
    assert datetime.fromisoformat(fields["hittime"]) == NOW
    assert re.fullmatch("[0-9]{5}", fields["zipcode"])


def test_a_drill_leaves_the_isp_stream_as_it_was() -> None:
    done: list[tuple[str, str]] = []
    states = {"stream-isp_hits": "STOPPED", "stream-isp_hits-queries": "RUNNING"}
    airflow = SimpleNamespace(
        wait_for_dag=lambda dag: None,
        is_paused=lambda dag: dag == "isp_hits_load",
        pause=lambda dag: done.append(("pause", dag)),
        unpause=lambda dag: done.append(("unpause", dag)),
    )
    supervisor = SimpleNamespace(
        getProcessInfo=lambda program: {"statename": states[program]},
        stopProcess=lambda program: done.append(("stop", program)),
    )
    daemon = SimpleNamespace(proxy=lambda: supervisor)
    made = context(stack=SimpleNamespace(airflow=lambda: airflow, daemon=daemon))
    query_faults._start(made)
    assert done == [("unpause", "isp_hits_load")]
    states["stream-isp_hits"] = "RUNNING"
    made.cleanup.close()
    assert done[1:] == [("pause", "isp_hits_load"), ("stop", "stream-isp_hits")]


def run(state: str, end: int | None) -> dict[str, Any]:
    return {
        "state": state,
        "end_date": None if end is None else f"1970-01-01T00:{end // 60:02}:{end % 60:02}Z",
    }


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([run("failed", 990), run("success", 1010), run("running", None)], None),
        ([run("failed", 1030), run("failed", 1010)], (1010.0, "a red run of x_stream")),
    ],
)
def test_detected_by_a_red_run(runs: list[dict[str, Any]], expected: Any) -> None:
    assert (
        drill.detected_by_failed_run(context(supervision="x_stream", supervision_runs=lambda: runs))
        == expected
    )


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([run("failed", 990), run("success", 1010), run("running", None)], None),
        ([run("failed", 1030), run("failed", 1010)], (1010.0, "a red run of taxi_reconciliation")),
    ],
)
def test_detected_by_a_red_run_of_reconciliation(runs: list[dict[str, Any]], expected: Any) -> None:
    asked: list[str] = []

    def request(method: str, path: str, **options: Any) -> dict[str, Any]:
        asked.append(path)
        return {"dag_runs": runs}

    made = context(airflow=SimpleNamespace(request=request), spec=SimpleNamespace(name="taxi"))
    assert catalog_faults.detected_by_reconciliation(made) == expected
    assert asked == ["/dags/taxi_reconciliation/dagRuns"]


def test_the_metadata_file_with_the_highest_number_is_registered_once() -> None:
    """Of two with one number the newest: the other was refused."""
    s3 = SimpleNamespace(get_paginator=lambda name: SimpleNamespace(paginate=pages))
    keys = [("00009-z", 1), ("00010-a", 2), ("00010-b", 3), ("snap-99-x", 9)]

    def pages(**given: str) -> list[dict[str, Any]]:
        assert given == {"Bucket": "w", "Prefix": "lake/raw/taxi/metadata/"}
        ends = {name: ".avro" if name.startswith("snap") else ".metadata.json" for name, _ in keys}
        return [
            {"Contents": [{"Key": f"{given['Prefix']}{n}{ends[n]}", "LastModified": at}]} for n, at in keys
        ]

    registered: dict[str, str] = {}
    catalog = SimpleNamespace(register_table=registered.__setitem__)
    stack = SimpleNamespace(admin_s3=lambda: s3, lake=lambda role: SimpleNamespace(catalog=catalog))
    made = context(
        stack=stack, spec=SimpleNamespace(table="raw.taxi"), lake=SimpleNamespace(location=registered.get)
    )
    made.state["folder"] = "s3://w/lake/raw/taxi"
    for _ in range(2):
        catalog_faults.register_the_table(made)
    assert registered == {"raw.taxi": "s3://w/lake/raw/taxi/metadata/00010-b.metadata.json"}


def test_waiting_takes_silence_for_nothing_yet() -> None:
    answers: list[Any] = [Unreachable("Kafka does not answer"), None, "seen"]

    def look() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    slept: list[float] = []
    made = context()
    made.sleep = slept.append
    assert made.wait_for("it", look, 60) == "seen"
    assert slept == [POLL_SECONDS] * 2


def test_waiting_ends_with_what_it_waited_for_and_why() -> None:
    def look() -> None:
        raise Unreachable("Kafka does not answer")

    with raising(Failed, "a batch", "-1 s", "Kafka does not answer"):
        context().wait_for("a batch", look, -1)
    with pytest.raises(ZeroDivisionError):
        context().wait_for("a bug", lambda: 1 // 0, 60)


@pytest.mark.parametrize(
    ("trigger_immediately", "states", "triggered"),
    [
        (False, [], 0),
        (True, [], 1),
        (True, ["success", "failed"], 1),
        (True, ["running", "success"], 0),
        (True, ["queued"], 0),
    ],
)
def test_at_once_supervision_is_triggered_when_it_is_not_at_work(
    trigger_immediately: bool, states: list[str], triggered: int
) -> None:
    asked: list[str] = []
    made = context(
        supervision="x_stream",
        supervision_runs=lambda limit: [{"state": state} for state in states],
        airflow=SimpleNamespace(trigger=asked.append),
    )
    made.trigger_immediately = trigger_immediately
    made.trigger_check()
    assert len(asked) == triggered
    made.injected_at = 0.0
    made.trigger_check()
    assert len(asked) == triggered, "no fault is injected yet"


def test_no_drill_and_no_test_signals_all_of_the_machine() -> None:
    """The parent of process 1 is 0, which is also the pid of a program that is not running."""
    with pytest.raises(ValueError, match="process 1"):
        process_tree(1)
    assert process_tree(0) == []
