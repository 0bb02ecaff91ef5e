"""Processes that die, hang and come back: every row is there once, whatever was killed."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from local.drills.faults import signal_all
from local.processes import of_stack
from local.stack import wait_until
from sluice.model.process import SUPERSEDED_STATUS
from tests.integration.faults import catch_between_append_and_publish, wait_half_way
from tests.integration.rig import LAND_SECONDS, SPEC, Rig

TIMES = 6


@pytest.fixture(autouse=True)
def _the_stream_runs(rig: Rig) -> Iterator[None]:
    rig.ensure_stream()
    yield
    print(rig.stream_log()[-4000:])


def test_a_producer_killed_half_way_is_retried_and_sends_the_rest(rig: Rig) -> None:
    rows = rig.slice(0, 29_999) * TIMES
    run_id = rig.start(objects=[rig.put("long.csv", rows)])
    sent = wait_half_way(rig, run_id, len(rows), lambda jvm: jvm.kill())
    run = rig.finish(run_id)
    assert run.state == "success"
    assert rig.attempts(run_id, "produce") == 2
    (source,) = run.sources
    assert rig.rows_of(source) == list(range(len(rows)))
    repeats = [r for r in rig.quarantine() if r["_source_id"] == source]
    assert repeats == [], f"{len(repeats)} of {sent} rows were sent twice"
    rig.assert_exact()


def test_a_producer_that_was_thought_dead_sends_on_and_no_row_is_there_twice(rig: Rig) -> None:
    rows = rig.slice(0, 29_999) * TIMES
    run_id = rig.start(objects=[rig.put("zombie.csv", rows)])
    suspended: list[psutil.Process] = []

    def suspend(jvm: psutil.Process) -> None:
        jvm.suspend()
        suspended.append(jvm)

    wait_half_way(rig, run_id, len(rows), suspend)
    (zombie,) = suspended
    successor = subprocess.run(
        zombie_command(zombie), env=rig.stack.environment(), capture_output=True, text=True
    )
    zombie.resume()
    assert successor.returncode == 0, successor.stderr[-2000:]
    run = rig.finish(run_id)
    assert run.state == "success"
    (source,) = run.sources
    assert rig.rows_of(source) == list(range(len(rows)))
    repeats = [r["reason"] for r in rig.quarantine() if r["_source_id"] == source]
    assert repeats, "the zombie sent nothing again: nothing was tested"
    assert all(reason.startswith("repeat: ") for reason in repeats)
    rig.assert_exact()


def zombie_command(zombie: psutil.Process) -> list[str]:
    """The same job again, as a person would start it."""
    words = zombie.cmdline()
    plan = words[words.index("--plan") + 1]
    return [
        str(Path(sys.executable).parent / "spark-submit"),
        "--master",
        "local[2]",
        str(SPEC.producer_script),
        "--plan",
        plan,
    ]


def test_a_consumer_killed_between_append_and_publish(rig: Rig) -> None:
    processes = catch_between_append_and_publish(rig)
    token = rig.token()
    signal_all(processes, signal.SIGKILL)
    rig.revive()
    rig.wait_for_everything()
    assert rig.token() > token
    assert rig.unpublished() == [f"w{token}"]
    rig.assert_exact()


def test_a_stale_writer_that_comes_back_cannot_publish_and_ends(rig: Rig) -> None:
    stale = catch_between_append_and_publish(rig)
    token = rig.token()
    successor = subprocess.Popen([sys.executable, SPEC.consumer_script], env=rig.stack.environment())
    try:
        rig.wait_for_everything()
        assert rig.token() == token + 1
        before = rig.coordinates()
        signal_all(stale, signal.SIGCONT)
        wait_until("the stale writer's end", lambda: rig.process()["statename"] == "EXITED", LAND_SECONDS)
        assert rig.process()["exitstatus"] == SUPERSEDED_STATUS
        assert f"owner {token} may not publish: owner {token + 1} has taken over" in rig.stream_log()
        assert sorted(rig.coordinates()) == sorted(before)
        rig.send({0: rig.trips(5)})
        rig.wait_for_everything()
        rig.assert_exact()
    finally:
        successor.terminate()
        assert successor.wait(90) == 0
    rig.start_stream()


def test_a_lost_checkpoint_loses_nothing(rig: Rig) -> None:
    rig.wait_for_everything()
    rig.stop_stream()
    rig.send({partition: rig.trips(10) for partition in range(SPEC.topic.partitions)})
    shutil.rmtree(rig.stack.home.checkpoints / SPEC.name)
    rig.start_stream()
    rig.wait_for_everything()
    rig.assert_exact()


def test_maintenance_that_moves_main_makes_the_owner_begin_anew_from_there(rig: Rig) -> None:
    rig.wait_for_everything()
    token, pid = rig.token(), rig.process()["pid"]
    table = rig.stack.catalog("consumer").load_table(SPEC.table)
    table.append(table.schema().as_arrow().empty_table())
    rig.send({partition: rig.trips(10) for partition in range(SPEC.topic.partitions)})
    rig.wait_for_everything()
    assert rig.token() > token
    assert rig.process()["pid"] == pid, "it takes over again by itself"
    rig.assert_exact()


def test_a_power_cut(rig: Rig) -> None:
    rig.wait_for_everything()
    before = sorted(rig.coordinates())
    rig.send({partition: rig.trips(10) for partition in range(SPEC.topic.partitions)})
    signal_all(of_stack(rig.stack.home.id), signal.SIGKILL)
    wait_until("the end of all", lambda: not of_stack(rig.stack.home.id), 30)
    rig.stack.up()
    after = Rig(rig.stack)
    run = after.load(objects=[after.put("after-the-cut.csv", after.slice(3000, 150))])
    assert run.state == "success"
    assert set(before) <= set(after.coordinates())
    after.wait_for_everything()
    after.assert_exact()
