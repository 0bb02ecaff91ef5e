"""Supervision through Airflow: what it does by itself, what it does by order, and when it asks a person.

Its runs are triggered here, and do what those of the schedule would.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Consumer, TopicPartition

from local.drills.faults import family, signal_all
from local.stack import wait_until
from tests.integration.rig import SPEC, Rig

RUN_SECONDS = 300


@dataclass
class Supervised:
    """A finished run of the supervising DAG."""

    rig: Rig
    run_id: str
    state: str
    tasks: dict[str, str]

    @property
    def done(self) -> set[str]:
        return {task for task, state in self.tasks.items() if state == "success"}

    @property
    def verdict(self) -> str:
        found = self.rig.airflow.xcom(self.rig.supervision, self.run_id, "observe")
        return str(found["diagnosis"]["verdict"])

    def log(self, task: str) -> str:
        return "\n".join(self.rig.airflow.log(self.rig.supervision, self.run_id, task))


def tasks_of(rig: Rig, run_id: str) -> dict[str, str]:
    return {task["task_id"]: task["state"] for task in rig.airflow.tasks(rig.supervision, run_id)}


def has_ended(rig: Rig, run_id: str, task: str) -> bool:
    """Whether the scheduler knows that the task's worker has ended, some seconds after the task."""
    log = (rig.stack.home.logs / "airflow-scheduler.log").read_text(errors="replace")
    return any(
        "Received executor event" in line and f"task_id='{task}'" in line and run_id in line
        for line in log.splitlines()
    )


def finish(rig: Rig, run_id: str) -> Supervised:
    state = rig.airflow.wait(rig.supervision, run_id, RUN_SECONDS)
    run = Supervised(rig, run_id, state, tasks_of(rig, run_id))
    for task in (name for name, end in run.tasks.items() if end == "failed"):
        print(f"{run_id} {task} failed:\n{run.log(task)[-3000:]}")
    return run


def supervise(rig: Rig, **conf: Any) -> Supervised:
    return finish(rig, rig.airflow.trigger(rig.supervision, conf))


@pytest.fixture(autouse=True)
def _supervised(rig: Rig) -> Iterator[None]:
    rig.ensure_stream()
    rig.airflow.wait_for_dag(rig.supervision)
    rig.airflow.unpause(rig.supervision)
    yield
    rig.airflow.pause(rig.supervision)
    print(rig.stream_log()[-3000:])


def kill(rig: Rig) -> None:
    signal_all(family(rig.process()["pid"]), signal.SIGKILL)
    wait_until("the consumer's end", lambda: rig.process()["statename"] == "EXITED", 30)


def test_a_stream_that_is_well_is_left_alone_and_its_lag_is_kafkas_to_show(rig: Rig) -> None:
    rig.send({partition: rig.trips(5) for partition in range(SPEC.topic.partitions)})
    rig.wait_for_everything()
    pid = rig.process()["pid"]
    run = supervise(rig)
    assert (run.state, run.verdict in ("idle", "healthy")) == ("success", True), run.log("observe")
    assert run.done == {"observe", "quiet"}
    assert rig.process()["pid"] == pid
    group = Consumer(rig.stack.kafka("admin") | {"group.id": f"sluice-{SPEC.name}"})
    asked = [TopicPartition(SPEC.topic.name, p) for p in range(SPEC.topic.partitions)]
    committed = {found.partition: found.offset for found in group.committed(asked, timeout=20)}
    group.close()
    assert committed == {partition: after for partition, (_, after) in rig.bounds().items()}


def test_two_who_start_it_at_once_make_one_process(rig: Rig) -> None:
    """And two restarts of one death: the second run finds another start of the process than it judged."""
    kill(rig)
    token = rig.token()
    first = rig.airflow.trigger(rig.supervision)
    second = rig.airflow.trigger(rig.supervision, {"action": "restart", "why": "a second click"})
    runs = [finish(rig, first), finish(rig, second)]
    assert {run.state for run in runs} == {"success"}, [run.tasks for run in runs]
    rig.wait_for_everything()
    assert rig.token() == token + 1
    started = [e for e in rig.history.since("restart", runs_began(rig, first)) if e["run"] in (first, second)]
    assert len(started) == 1
    rig.assert_exact()


def runs_began(rig: Rig, run_id: str) -> Any:
    from datetime import datetime

    return datetime.fromisoformat(rig.airflow.run(rig.supervision, run_id)["queued_at"])


def test_a_hung_stream_is_noticed_though_the_triggerer_is_killed_meanwhile(rig: Rig) -> None:
    rig.wait_for_everything()
    token = rig.token()
    hung = family(rig.process()["pid"])
    signal_all(hung, signal.SIGSTOP)
    rig.send({partition: rig.trips(5) for partition in range(SPEC.topic.partitions)})
    # What has published a moment ago is not looked at for long, and a run that looks for long is wanted.
    time.sleep(SPEC.supervision.stall_seconds / 2 + 5)
    run_id = rig.airflow.trigger(rig.supervision)
    wait_until("observe to be deferred", lambda: tasks_of(rig, run_id)["observe"] == "deferred", 60)
    triggerer = rig.process("airflow-triggerer")["pid"]
    signal_all(family(triggerer), signal.SIGKILL)
    run = finish(rig, run_id)
    assert rig.process("airflow-triggerer")["pid"] != triggerer
    assert (run.state, run.verdict) == ("success", "stalled"), run.log("observe")
    assert run.done == {"observe", "restart", "verify"}
    assert not [process for process in hung if process.is_running()], "the hung family is still there"
    rig.wait_for_everything()
    assert rig.token() == token + 1
    rig.assert_exact()


def test_a_stream_on_hold_stays_down_until_it_is_released(rig: Rig) -> None:
    run = supervise(rig, action="stop", why="the broker moves house")
    assert (run.state, "stop" in run.done) == ("success", True)
    assert rig.process()["statename"] in ("EXITED", "STOPPED")
    run = supervise(rig)
    assert (run.verdict, run.done) == ("held", {"observe", "quiet"})
    load = rig.load(objects=[rig.put("on-hold.csv", rig.slice(0, 50))])
    assert (load.state, load.tasks["ensure_stream"]) == ("failed", "failed")
    said = load.log("ensure_stream")
    assert all(words in said for words in ("on hold by operator", "the broker moves house", "action start"))
    assert rig.attempts(load.run_id, "ensure_stream") == 1, "another attempt cannot help"
    run = supervise(rig, action="start")
    assert (run.state, {"restart", "verify"} <= run.done) == ("success", True), run.tasks
    assert rig.process()["statename"] == "RUNNING"
    assert rig.history.held() is None
    rig.wait_for_everything()
    rig.assert_exact()


def test_a_stream_that_keeps_dying_is_asked_about_and_the_answer_is_carried_out(rig: Rig) -> None:
    supervise(rig, action="restart", why="the window begins here")
    for _ in range(SPEC.supervision.most_restarts):
        kill(rig)
        run = supervise(rig)
        assert (run.verdict, run.state) == ("dead", "success"), run.tasks
    kill(rig)
    run_id = rig.airflow.trigger(rig.supervision)
    wait_until(
        "the question", lambda: tasks_of(rig, run_id)["ask"] in ("awaiting_input", "failed"), RUN_SECONDS
    )
    assert tasks_of(rig, run_id)["ask"] == "awaiting_input"
    path = f"/dags/{rig.supervision}/dagRuns/{quote(run_id, safe='')}/taskInstances/ask/-1/hitlDetails"
    asked = rig.airflow.request("GET", path)
    assert f"restarted {SPEC.supervision.most_restarts} times" in asked["subject"]
    assert "dead" in asked["body"]
    assert rig.process()["statename"] == "EXITED", "it was restarted without an answer"
    # Airflow 3.3 takes a task that is answered before its worker's end for one that its executor has lost.
    wait_until("the end of the worker that asked", lambda: has_ended(rig, run_id, "ask"), 60)
    rig.airflow.request("PATCH", path, json={"chosen_options": ["Restart it"], "params_input": {}})
    run = finish(rig, run_id)
    assert (run.verdict, run.state) == ("flapping", "success"), run.tasks
    assert {"ask", "answer", "verify"} <= run.done
    answer = rig.history.latest("answer")
    assert answer is not None
    assert (answer["choice"], answer["who"], answer["run"]) == ("Restart it", "operator", run_id)
    kill(rig)
    run = supervise(rig)
    assert run.verdict == "dead", "restarts before the answer count no more"
    rig.send({0: rig.trips(5)})
    rig.wait_for_everything()
    rig.assert_exact()


def test_supervisord_starts_a_stream_once_however_many_ask(rig: Rig) -> None:
    rig.stop_stream()
    runtime = [rig.stack.daemon.proxy() for _ in range(4)]
    answers: list[str] = []

    def start(proxy: Any) -> None:
        try:
            proxy.startProcess(SPEC.program, False)
            answers.append("started")
        except Exception as refusal:
            answers.append(str(refusal))

    threads = [threading.Thread(target=start, args=(proxy,)) for proxy in runtime]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers)[-1] == "started"
    assert len([answer for answer in answers if "ALREADY_STARTED" in answer]) == 3
