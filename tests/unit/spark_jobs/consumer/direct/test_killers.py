"""Records that end the process which decodes them are found by halves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.clients.kafka.log.range_reader import Epochs
from sluice.core.offsets.deduplication import LoadedRows, Run
from sluice.core.offsets.ranges import IntervalSet
from spark_jobs.common.consumer.direct import killers
from spark_jobs.common.consumer.direct.killers import REASON, DecodingEnds, Killers, halves, process_ended
from spark_jobs.common.consumer.direct.rejected import RejectedPart
from spark_jobs.common.consumer.direct.task import Duplicates, Part, Result, Task
from tests.support.numbered import SOURCE

CRASH = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"
Place = tuple[int, int]


def part(partition: int, *pairs: Place) -> Part:
    return Part(partition, IntervalSet.of(pairs), Epochs(4, 5))


def places(task: Task) -> list[Place]:
    return [(one.partition, offset) for one in task.parts for pair in one.offsets for offset in range(*pair)]


class Runs:
    """Decodes tasks, unless one has a place that ends its process."""

    def __init__(self, kills: Callable[[list[Place]], bool]) -> None:
        self.kills = kills
        self.decoded: list[Place] = []
        self.quarantined: list[Place] = []
        self.attempts = 0

    def run(self, task: Task) -> list[Any]:
        self.attempts += 1
        if task.reason:
            assert task.reason == REASON
            return [tuple(places(task))]
        if self.kills(places(task)):
            raise RuntimeError(CRASH)
        self.decoded += places(task)
        return [tuple(places(task))]

    def all(self, *tasks: Task) -> list[Any]:
        results: list[Any] = Killers(self.run).results(tasks)
        self.quarantined = sorted({place for one in results for place in one}.difference(self.decoded))
        return results


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(killers.time, "sleep", found.append)
    return found


@given(st.sets(st.integers(0, 99), max_size=5))
def test_each_record_is_decoded_once_or_quarantined(killing: set[int]) -> None:
    runs = Runs(lambda found: any(p == 1 and offset in killing for p, offset in found))
    results = runs.all(Task((part(0, (0, 30)), part(1, (0, 40), (60, 100)))), Task((part(2, (7, 9)),)))
    expected = {(1, offset) for offset in killing if not 40 <= offset < 60}
    assert sorted(runs.quarantined) == sorted(expected)
    every = [(0, n) for n in range(30)] + [(1, n) for n in (*range(40), *range(60, 100))] + [(2, 7), (2, 8)]
    assert sorted(place for one in results for place in one) == every
    assert sorted(runs.decoded + runs.quarantined) == every


def test_one_of_many_is_found_in_a_few_attempts() -> None:
    runs = Runs(lambda found: (0, 333_333) in found)
    runs.all(Task((part(0, (0, 500_000)),)))
    assert runs.quarantined == [(0, 333_333)]
    # Undecoded, and a second time.
    assert runs.attempts < 2 * 20 + 3


def test_records_that_do_so_only_together_are_all_decoded() -> None:
    """Out of memory, for one."""
    runs = Runs(lambda found: len(found) > 25)
    runs.all(Task((part(0, (0, 100)),)))
    assert not runs.quarantined
    assert sorted(runs.decoded) == [(0, n) for n in range(100)]


def test_if_every_record_does_so_the_batch_fails() -> None:
    runs = Runs(lambda found: True)
    with pytest.raises(DecodingEnds, match=r"more than 20 records .*partition 0, offset 1;.*Fix: "):
        runs.all(Task((part(0, (0, 1_000)),)))
    assert not runs.decoded


def test_what_the_first_half_has_is_loaded_for_the_second() -> None:
    """A row that two producers sent is in both."""
    seen: list[tuple[list[Place], LoadedRows]] = []

    def run(task: Task) -> list[Result]:
        if (0, 3) in places(task) and len(places(task)) > 1:
            raise RuntimeError(CRASH)
        assert task.duplicates is not None
        seen.append((places(task), task.duplicates.loaded))
        runs = tuple(Run(SOURCE, 0, 10 + offset, 11 + offset, 1) for _, offset in places(task))
        return [Result((), RejectedPart(), runs, ())]

    duplicates = Duplicates(LoadedRows(), frozenset({SOURCE}))
    Killers(run).results([Task((part(0, (0, 4)),), duplicates)])
    found = [(of, loaded[SOURCE].partitions[0].pairs() if loaded.sources else ()) for of, loaded in seen]
    assert found == [
        ([(0, 0), (0, 1)], ()), ([(0, 2)], ((10, 12),)), ([(0, 3)], ((10, 13),)),
    ]  # fmt: skip


def test_another_failure_is_passed_on() -> None:
    def fail(task: Task) -> list[Any]:
        raise RuntimeError("no broker answers")

    with pytest.raises(RuntimeError, match="no broker"):
        Killers(fail).results([Task((part(0, (0, 9)),))])


def test_what_was_for_a_while_rejects_no_record(pauses: list[float]) -> None:
    """Out of memory, because of another process."""
    runs = Runs(lambda found: not pauses)
    runs.all(Task((part(0, (0, 50)),)))
    assert not runs.quarantined
    assert sorted(runs.decoded) == [(0, n) for n in range(50)]
    assert len(pauses) == 1


def test_if_what_is_not_decoded_ends_its_process_too_it_is_not_the_record() -> None:
    def fail(task: Task) -> list[Any]:
        raise RuntimeError(CRASH)

    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        Killers(fail).results([Task((part(0, (0, 9)),))])


def test_a_text_that_a_function_raises_is_no_ended_process() -> None:
    assert process_ended(RuntimeError(CRASH))
    assert not process_ended(RuntimeError("ValueError: 'Python worker exited unexpectedly' is no number"))


def test_the_leader_epoch_before_a_part_is_that_of_its_first_half_only() -> None:
    first, second = halves(part(3, (0, 2), (10, 13)))
    assert (first.offsets.pairs(), first.epochs) == (((0, 2),), Epochs(4, 5))
    assert (second.offsets.pairs(), second.epochs) == (((10, 13),), Epochs(-1, 5))
