"""Processes that die, hang and come back: every row is there once, whatever was killed."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator

import pytest

from local.runtime.processes import end_all
from local.stack.stack import wait_until
from sluice.core.processes import exits
from tests.integration.faults import (
    PRODUCER_SECONDS,
    Producers,
    catch_between_stage_and_publish,
    second_consumer,
    wait_for_produce,
)
from tests.integration.rig import DAG, PUBLISH_SECONDS, SPEC, Rig
from tests.integration.supervision import open_transaction, supervise
from tests.support.processes import signal_all

# So many that a producer is still sending when its first rows are seen.
TIMES = 4


@pytest.fixture(autouse=True)
def _the_stream_runs(rig: Rig) -> None:
    open_transaction(rig)
    rig.ensure_stream()


@pytest.fixture
def _reset_after(rig: Rig) -> Iterator[None]:
    """After a test that the stream does not survive."""
    yield
    rig.reset()


def test_of_three_producers_one_is_killed_half_way_and_one_comes_back_from_the_dead(rig: Rig) -> None:
    """The task's first attempt is killed. A second producer, which was thought dead, wakes when the task's
    second attempt has sent the rest. No row is there twice."""
    rows = rig.slice(0, 29_999) * TIMES
    run_id = rig.start(objects=[rig.put("long.csv", rows)])
    producers = Producers(rig, run_id, len(rows))
    first = producers.suspend_half_way()
    with producers.another() as process:
        zombie = producers.suspend_half_way()
        sent = {partition: after for partition, (_, after) in rig.bounds().items()}
        signal_all(first, signal.SIGKILL)
        wait_for_produce(rig, run_id, DAG)
        signal_all(zombie, signal.SIGCONT)
        assert process.wait(PRODUCER_SECONDS) == 0, "the zombie sends on as if nothing had been"
    run = rig.finish(run_id)
    assert run.state == "success"
    assert rig.attempts(run_id, "produce") == 2
    (source,) = run.sources
    rig.wait_for_everything()
    assert rig.rows_of(source) == list(range(len(rows)))
    repeats = rig.quarantined(source)
    assert repeats, "the zombie sent nothing again: nothing was tested"
    assert all(row["reason"].startswith("duplicate: ") for row in repeats.values())
    again = [n for n, (p, offset) in rig.places(source).items() if n in repeats and offset < sent[p]]
    assert again == [], f"the second attempt sent {len(again)} rows that the topic had"
    rig.assert_exact()


def test_a_stale_writer_cannot_publish_and_a_lost_checkpoint_loses_nothing(rig: Rig) -> None:
    stale = catch_between_stage_and_publish(rig)
    epoch = rig.epoch()
    with second_consumer(rig):
        rig.wait_for_everything()
        assert rig.epoch() == epoch + 1
        before = rig.record_offsets()
        signal_all(stale, signal.SIGCONT)
        wait_until("the stale writer's end", lambda: rig.process()["statename"] == "EXITED", PUBLISH_SECONDS)
        assert rig.process()["exitstatus"] == exits.FENCED
        assert f"fenced: writer epoch {epoch}, newer epoch {epoch + 1}" in rig.stream_log()
        assert sorted(rig.record_offsets()) == sorted(before)
        rig.send({0: rig.trips(5)})
        rig.wait_for_everything()
        rig.assert_exact()

    rig.send({partition: rig.trips(10) for partition in range(SPEC.topic.partitions)})
    shutil.rmtree(rig.stack.home.checkpoints / SPEC.name)
    rig.start_stream()
    rig.wait_for_everything()
    rig.assert_exact()
    rig.assert_batches()


@pytest.mark.exhaustive
def test_maintenance_that_moves_main_makes_the_writer_acquire_the_lease_again(rig: Rig) -> None:
    rig.wait_for_everything()
    epoch, pid = rig.epoch(), rig.status().pid
    table = rig.stack.lake("consumer").table(SPEC.table)
    table.append(table.schema().as_arrow().empty_table())
    rig.send({partition: rig.trips(10) for partition in range(SPEC.topic.partitions)})
    rig.wait_for_everything()
    assert rig.epoch() > epoch
    assert rig.status().pid == pid, "it acquires the lease again by itself"
    rig.assert_exact()


@pytest.mark.exhaustive
def test_a_power_cut(rig: Rig) -> None:
    rig.wait_for_everything()
    before = sorted(rig.record_offsets())
    rig.send({partition: rig.trips(10) for partition in range(SPEC.topic.partitions)})
    # Once is not enough: a process that started after it was listed would live on.
    end_all(rig.stack.home.id, grace_seconds=0)
    rig.stack.up()
    after = Rig(rig.stack)
    run = after.load(objects=[after.put("after-the-cut.csv", after.slice(3000, 150))])
    assert run.state == "success"
    assert set(before) <= set(after.record_offsets())
    after.wait_for_everything()
    after.assert_exact()
    after.assert_batches()


@pytest.mark.usefixtures("_reset_after")
def test_a_recreated_topic_is_noticed_though_it_has_grown_past_the_table(rig: Rig) -> None:
    rig.wait_for_everything()
    before, epoch = sorted(rig.record_offsets()), rig.epoch()
    grown = {partition: end + 10 for partition, end in rig.ends().items()}
    rig.delete_topic()
    rig.create_topic(SPEC.topic.partitions)
    rig.send({partition: rig.trips(1) * count for partition, count in grown.items()})
    wait_until("the consumer's end", lambda: rig.process()["statename"] == "EXITED", PUBLISH_SECONDS)
    run = supervise(rig)
    assert (run.state, run.tasks["consumer"]) == ("failed", "failed"), run.tasks
    assert run.health == "topic recreated"
    assert "its id is" in run.log()
    assert (rig.process()["statename"], rig.epoch()) == ("EXITED", epoch), "it was restarted"
    rig.stack.daemon.proxy().startProcess(SPEC.program)
    wait_until("its second end", lambda: rig.process()["statename"] == "EXITED", PUBLISH_SECONDS)
    assert "was recreated" in rig.stream_log()
    assert (sorted(rig.record_offsets()), rig.epoch()) == (before, epoch)
