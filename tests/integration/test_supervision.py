"""Supervision through Airflow: what it does by itself, on request, and what it leaves to a person."""

from __future__ import annotations

import signal
import xmlrpc.client
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer, TopicPartition
from supervisor.xmlrpc import Faults

from local.stack.stack import wait_until
from tests.integration.rig import SPEC, Rig
from tests.integration.supervision import (
    RUN_SECONDS,
    end,
    finish,
    is_patient_for_long,
    open_transaction,
    supervise,
    trigger,
    wait_for_task,
)
from tests.support.processes import component_processes, process_tree, signal_all

MORE_RUNS = 4


@pytest.fixture(autouse=True)
def _supervised(rig: Rig) -> Iterator[None]:
    open_transaction(rig)
    rig.ensure_stream()
    yield
    open_transaction(rig)


def test_a_stream_that_is_well_is_left_alone_and_its_lag_is_kafkas_to_show(rig: Rig) -> None:
    rig.send({partition: rig.trips(5) for partition in range(SPEC.topic.partitions)})
    rig.wait_for_everything()
    pid = rig.status().pid
    run = supervise(rig)
    assert (run.state, run.health in ("idle", "healthy")) == ("success", True), run.log()
    assert (run.tasks, run.did) == ({"consumer": "success"}, set())
    (task,) = rig.airflow.tasks(rig.supervision, run.run_id)
    assert task["pid"] is None, "a worker was needed"
    assert rig.status().pid == pid
    group = Consumer(rig.stack.kafka("admin") | {"group.id": f"sluice-{SPEC.name}"})
    asked = [TopicPartition(SPEC.topic.name, p) for p in range(SPEC.topic.partitions)]
    committed = {found.partition: found.offset for found in group.committed(asked, timeout=20)}
    group.close()
    assert committed == {partition: after for partition, (_, after) in rig.bounds().items()}


def test_a_hung_stream_is_noticed_though_the_triggerer_is_killed_meanwhile(rig: Rig) -> None:
    rig.wait_for_everything()
    epoch = rig.epoch()
    hung = component_processes(rig, SPEC.program)
    signal_all(hung, signal.SIGSTOP)
    rig.send({partition: rig.trips(5) for partition in range(SPEC.topic.partitions)})
    run_id = trigger(rig)
    wait_for_task(rig, rig.supervision, run_id, "consumer", "deferred")
    triggerer = rig.process("airflow-triggerer")["pid"]
    signal_all(process_tree(triggerer), signal.SIGKILL)
    run = finish(rig, run_id)
    for _ in range(MORE_RUNS):
        # Where batches took long, it is patient for longer than one run, and the next one goes on from there.
        if run.health != "stalled" and is_patient_for_long(rig):
            run = supervise(rig)
    assert rig.process("airflow-triggerer")["pid"] != triggerer
    assert (run.state, run.health) == ("success", "stalled"), run.log()
    assert run.did == {"restart", "recovered"}
    assert not [process for process in hung if process.is_running()], "the hung family is still there"
    rig.wait_for_everything()
    assert rig.epoch() == epoch + 1
    rig.assert_exact()


def test_a_stream_on_hold_stays_down_until_it_is_released(rig: Rig) -> None:
    run = supervise(rig, action="stop", reason="the broker moves house")
    assert (run.state, "suspend" in run.did) == ("success", True)
    assert rig.process()["statename"] in ("EXITED", "STOPPED")

    scheduled = trigger(rig)
    load = rig.load(objects=[rig.put("on-hold.csv", rig.slice(0, 50))])
    run = finish(rig, scheduled)
    assert (run.health, run.did) == ("suspended", set())
    assert (load.state, load.tasks["ensure_consumer"]) == ("failed", "failed")
    said = load.log("ensure_consumer")
    assert all(words in said for words in ("operator", "the broker moves house", "action start")), said
    assert rig.attempts(load.run_id, "ensure_consumer") == 1, "another attempt cannot help"
    assert rig.process()["statename"] in ("EXITED", "STOPPED")

    run = supervise(rig, action="start")
    assert (run.state, run.did) == ("success", {"resume", "start", "recovered"})
    assert rig.process()["statename"] == "RUNNING"
    assert rig.history.suspended() is None
    rig.wait_for_everything()
    rig.assert_exact()


def test_what_ended_is_started_once_and_what_keeps_ending_is_left_to_a_person(rig: Rig) -> None:
    epoch = started_once_for_two_runs(rig)
    # The click of the second run began the counts again: one more restart that no person asked for.
    rig.history.record("restart", {"who": "tests", "requested": False}, datetime.now(UTC))
    assert SPEC.supervision.max_restarts == 1, "the next end is one too many"

    end(rig)
    for _ in range(2):
        run = supervise(rig)
        assert (run.state, run.health, run.did) == ("failed", "flapping", set()), run.log()
        said = run.log()
        assert all(word in said for word in ("SLU-614", "action restart", f"/dags/{rig.supervision}")), said
        assert rig.process()["statename"] in ("EXITED", "STOPPED"), "it was restarted without a person"
    run = supervise(rig, action="restart", component="consumer", reason="the disk is repaired")
    assert (run.state, run.did) == ("success", {"resume", "restart", "recovered"})
    recorded = rig.history.restart_history(datetime.now(UTC), SPEC.supervision)
    assert (recorded.restarts, recorded.left_since) == ([], None), "restarts before the action count no more"
    assert rig.epoch() == epoch + 1
    rig.send({0: rig.trips(5)})
    rig.wait_for_everything()
    rig.assert_exact()


def started_once_for_two_runs(rig: Rig) -> int:
    """The second run finds another start of the process than the one that had ended. Gives the new writer."""
    end(rig)
    epoch = rig.epoch()
    first = trigger(rig)
    second = trigger(rig, action="restart", reason="a second click")
    runs = [finish(rig, first), finish(rig, second)]
    assert {run.state for run in runs} == {"success"}, [run.tasks for run in runs]
    assert runs[0].health == "down"
    rig.wait_for_everything()
    assert rig.epoch() == epoch + 1
    # The click restarts nothing; what counts against the stream counts from it on.
    assert [run.did for run in runs] == [{"restart", "recovered"}, {"resume"}]
    return rig.epoch()


def test_supervisord_starts_a_stream_once_however_many_ask(rig: Rig) -> None:
    rig.stop_stream()
    epoch = rig.epoch()

    def start(_: int) -> int:
        """0 where it was started, else the code of the refusal."""
        try:
            rig.stack.daemon.proxy().startProcess(SPEC.program, False)
        except xmlrpc.client.Fault as refusal:
            return refusal.faultCode
        return 0

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(start, range(4)))
    assert sorted(answers) == [0, *[Faults.ALREADY_STARTED] * 3]
    wait_until("one failover", lambda: rig.epoch() == epoch + 1, RUN_SECONDS)
