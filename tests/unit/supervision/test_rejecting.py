"""A stream that puts what it reads into the quarantine, as it is observed: from the snapshots of both tables
to its health."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from sluice.clients.kafka.admin import KafkaAdmin, TopicDescription
from sluice.clients.lake import commits
from sluice.clients.lake import position as positions
from sluice.clients.processes.base import Runtime
from sluice.config.sections.consumer import Budget
from sluice.config.sections.supervision import Supervision
from sluice.config.sections.topic import Topic
from sluice.config.stream import CONSUMER, StreamSpec
from sluice.core.processes.restarts import RestartHistory
from sluice.core.processes.status import ProcessState, ProcessStatus
from sluice.supervision.observer.sampler import Sampler
from sluice.supervision.rules.assess import assess
from sluice.supervision.rules.sample import Sample
from sluice.supervision.rules.status import WELL, Health, HealthReport
from tests.support import lake as lakes
from tests.support.steps import new_tables

SPEC = StreamSpec("nyc_taxi", lakes.TABLE, Topic("rides", 1), Budget(1), schema="schema.avsc")
REASON = "not an Avro body of Trip"
GOOD = 100


class World:
    """A stream with one partition, whose writer publishes batches; Kafka and the runtime."""

    def __init__(self, folder: Path) -> None:
        self.lake = lakes.make(folder)
        self.end = self.rejected = self.malformed = self.number = self.changes = 0
        self.newest = ""

    def batch(self, good: int = 0, bad: int = 0, on_purpose: int = 0, settle: bool = True) -> None:
        """On ``main``, and unless ``settle`` is False in the quarantine."""
        begin, self.end = self.end, self.end + good + bad + on_purpose
        more = {
            **self._rejections(),
            "writer": "w1_x",
            "batch-id": str(self.number),
            "topic-id": "T",
            "acquired-at": "1000000",
        }
        rows = [(0, begin + n) for n in range(good)]
        summary = lakes.summary("batch", 1, {0: self.end}, ranges={0: (begin, self.end)}, more=more)
        lakes.append(self.lake, rows, summary)
        if bad or on_purpose:
            self.rejected += bad + on_purpose
            self.malformed += bad
            self.newest = f"w1_x/{self.number}"
            if settle:
                self.quarantine(bad)
        self.number += 1

    def quarantine(self, bad: int = 1) -> None:
        said = {f"sluice.{key}": value for key, value in self._rejections().items()}
        if bad:
            said["sluice.newest-malformed"] = f"partition 0, offset {self.end - 1}: {REASON}"
        lakes.quarantine(self.lake, [{"stage": "consumer", "reason": REASON}], said)

    def change(self, taken: dict[int, int] | None = None, settle: bool = True) -> None:
        """``taken``: batch -> how many of its malformed records it takes out of the quarantine."""
        self.changes += 1
        self.rejected -= sum((taken or {}).values())
        more = {
            **self._rejections(),
            "changes": str(self.changes),
            "newest-changes": f"c{self.changes}",
            "topic-id": "T",
        }
        if taken:
            more["malformed-out"] = json.dumps({f"w1_x/{number}": count for number, count in taken.items()})
        lakes.append(self.lake, [], lakes.summary("change", 1, {0: self.end}, more=more))
        if taken and settle:
            self.quarantine(0)

    def _rejections(self) -> dict[str, str]:
        counts = {"rejected": str(self.rejected), "rejected-by": self.newest}
        return {**counts, "malformed": str(self.malformed)}

    def describe(self, topic: str) -> TopicDescription:
        return TopicDescription("T", 1)

    def begins(self, topic: str, partitions: int) -> dict[int, int]:
        return {0: 0}

    def ends(self, topic: str, partitions: int) -> dict[int, int]:
        return {0: self.end}

    def status(self, program: str) -> ProcessStatus:
        return ProcessStatus(program, ProcessState.RUNNING, 42, 1000.0)

    def observe(self, at: float | None = None) -> Sample:
        asked = cast("Any", self)
        observer = Sampler(
            cast("KafkaAdmin", asked), lambda: new_tables(self.lake), cast("Runtime", asked), SPEC, CONSUMER
        )
        sample = observer.observe(time.time() if at is None else at)
        assert not sample.errors
        return sample

    def health(
        self, samples: Sequence[Sample] = (), requested_at: float = 0.0, percent: int = 5
    ) -> HealthReport:
        history = RestartHistory(requested_at=requested_at)
        policy = Supervision(max_rejected_percent=percent)
        return assess(CONSUMER, [*samples, self.observe()], policy, history)


# Instead of 20, which take PyIceberg seconds.
LAST = 5


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(positions, "BATCHES", LAST)
    return World(tmp_path)


def test_a_stream_that_rejects_everything_is_red_however_slowly(world: World) -> None:
    for _ in range(4):
        world.batch(bad=1)
    assert world.health().health is Health.IDLE
    world.batch(bad=1)
    found = world.health()
    assert (found.health, found.is_final) == (Health.REJECTING, True)
    assert "5 of the last 5 records (100.0 %) were rejected" in found.message
    assert "max_rejected_percent is 5" in found.message
    assert f"newest: partition 0, offset 4: {REASON}" in found.message
    assert "Fix: " in found.message
    assert (found.details["malformed"], found.details["newest_malformed"]) == (
        5,
        f"partition 0, offset 4: {REASON}",
    )


def test_one_malformed_record_among_ten_is_none_of_its_business(world: World) -> None:
    world.batch(good=9, bad=1)
    assert world.health().health is Health.IDLE


def test_the_share_is_of_the_last_batches(world: World) -> None:
    world.batch(good=GOOD, bad=6)
    assert world.health().health is Health.REJECTING
    assert world.health(percent=6).health is Health.IDLE
    world.batch(good=20)
    assert world.health().health is Health.IDLE, "6 of 126 are less than 5 %"


def test_it_stays_red_while_nothing_comes_and_ends_with_good_batches(world: World) -> None:
    world.batch(bad=10)
    late = replace(world.observe(), at=time.time() + 9 * 86_400)
    assert assess(CONSUMER, [late], Supervision(), RestartHistory()).health is Health.REJECTING
    for _ in range(LAST - 1):
        world.batch(good=1)
    assert world.health().health is Health.REJECTING
    world.batch(good=1)
    assert world.health().health is Health.IDLE


def test_a_person_who_asked_for_a_start_has_dealt_with_what_came_before(world: World) -> None:
    world.batch(bad=10)
    now = time.time()
    assert world.health(requested_at=now - 60).health is Health.REJECTING
    assert world.health(requested_at=now + 1).health is Health.IDLE
    earlier = world.observe()
    for _ in range(2):
        world.batch(bad=5)
    assert world.health([earlier], requested_at=earlier.at).health is Health.REJECTING


def test_a_change_ends_it_by_the_malformed_records_that_it_takes_out(world: World) -> None:
    world.batch(bad=10)
    before = world.observe()
    # A replay, or a revert of another load.
    world.change()
    assert world.health([before]).health is Health.REJECTING
    # Killed before it publishes its part in the quarantine.
    world.change({0: 5}, settle=False)
    found = world.health([before])
    assert found.health is Health.REJECTING
    assert "5 of the last 5 records" in found.message
    world.change({0: 1})
    assert world.observe().published.malformed == 10, "it only grows"  # type: ignore[union-attr]
    assert world.health([before]).health is Health.IDLE
    world.batch(bad=4)
    assert world.health().health is Health.REJECTING, "the 4 that are left, and 4 more"


def test_a_change_of_older_records_hides_no_new_ones(world: World) -> None:
    world.batch(bad=100)
    for _ in range(LAST):
        world.batch(good=10)
    world.batch(bad=10)
    world.change({0: 100})
    found = world.health()
    assert found.health is Health.REJECTING
    assert "10 of the last 50 records (20.0 %)" in found.message
    world.change({LAST + 1: 10})
    assert world.health().health is Health.IDLE


def test_a_burst_is_seen_though_a_change_came_since_the_check_before(world: World) -> None:
    world.batch(good=10)
    check = world.observe(time.time() - 120)
    world.batch(bad=100)
    for _ in range(LAST):
        world.batch(good=10)
    world.change()
    found = world.health([check])
    assert found.health is Health.REJECTING
    assert "100 of the last 150 records (66.7 %)" in found.message
    world.change({1: 100})
    assert world.health([check]).health in WELL


def test_snapshots_of_the_stream_are_read_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2 * LAST):
        world.batch(good=1, bad=1)
    world.change()
    walks, walk = list[int](), commits.ancestors

    def counted(table: Table) -> Iterator[Snapshot]:
        walks.append(0)
        for snapshot in walk(table):
            walks[-1] += 1
            yield snapshot

    for module in (commits, positions):
        monkeypatch.setattr(module, "ancestors", counted)
    position = world.lake.position(lakes.TABLE, lakes.QUARANTINE)
    assert position is not None
    assert position.newest_malformed
    assert walks == [LAST + 1, 1], "of the table to the last batches, of the quarantine to the newest"


def test_what_is_rejected_on_purpose_does_not_count(world: World) -> None:
    world.batch(on_purpose=5000)
    assert world.health().health is Health.IDLE
    world.batch(good=5, bad=6, on_purpose=5000)
    found = world.health()
    assert found.health is Health.REJECTING
    assert "6 of the last 11 records (54.5 %)" in found.message


def test_the_newest_batch_counts_once_its_records_are_in_the_quarantine(world: World) -> None:
    """Until then nothing tells which of them were rejected on purpose."""
    world.batch(on_purpose=10, settle=False)
    assert world.health().health is Health.IDLE
    world.batch(bad=10, settle=False)
    assert world.health().health is Health.IDLE
    world.quarantine()
    assert world.health().health is Health.REJECTING


def test_what_came_between_two_checks_is_seen_though_the_last_batches_are_good(world: World) -> None:
    world.batch(good=10)
    check = world.observe(time.time() - 120)
    world.batch(bad=100)
    for _ in range(LAST):
        world.batch(good=10)
    assert world.health().health is Health.IDLE, "this test's burst is over by then"
    found = world.health([check])
    assert found.health is Health.REJECTING
    assert "100 of the last 150 records (66.7 %)" in found.message


def test_100_percent_are_never_exceeded(world: World) -> None:
    world.batch(bad=100)
    assert world.health(percent=100).health is Health.IDLE


def test_a_quarantine_costs_nothing_while_nothing_was_rejected(world: World) -> None:
    world.batch(good=3)
    world.lake.catalog.drop_table(lakes.QUARANTINE)
    assert world.health().health is Health.IDLE
