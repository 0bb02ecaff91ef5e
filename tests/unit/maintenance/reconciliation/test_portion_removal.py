"""Portions of verifications are deleted when they are of no use any more, and no others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import BooleanExpression
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from sluice.clients.lake.snapshots import table_diff
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, Unreachable
from sluice.core.findings import FindingName
from sluice.core.offsets.counts import Counts
from sluice.ledger.documents import Ledger
from sluice.ledger.history import History
from sluice.ledger.keys import PORTIONS, VERIFIED_TABLE
from sluice.maintenance.reconciliation import portions
from sluice.maintenance.reconciliation.portion_removal import ABANDONED, useless
from sluice.maintenance.reconciliation.portions import UsedPortions
from tests.support.reconciliation import World

NOW = datetime.now(UTC)
LATE = ABANDONED + timedelta(hours=1)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A compacted file, which is read, in a portion of its own."""
    made = World(tmp_path)
    made.batch()
    made.batch()
    made.compact()
    made.batch(reject=1)
    monkeypatch.setattr(portions, "PORTION_ROWS", 0)
    return made


def kept(world: World) -> list[str]:
    return list(world.history.keys("portions/"))


def leave(world: World, prefix: str, age: timedelta) -> str:
    key = f"portions/{prefix}/{age.total_seconds():g}.json"
    world.history.put(key, {})
    world.memory.modified["w", f"ledger/nyc_taxi/{key}"] = NOW - age
    return key


def test_a_verification_that_is_recorded_leaves_none(world: World) -> None:
    theirs = leave(world, "concurrent", timedelta(days=1))
    world.run()
    assert kept(world) == [theirs]


@pytest.mark.parametrize(
    ("full", "next_run"), [(True, "one"), (False, "two")], ids=["on request", "first of the stream"]
)
def test_those_of_one_that_ended_before_its_state_was_recorded_stay_and_are_taken(
    world: World, monkeypatch: pytest.MonkeyPatch, full: bool, next_run: str
) -> None:
    """By the same run, or by the next one."""
    record = History.record_run

    def ended(self: History, name: str, *given: Any) -> Any:
        return 1 / 0 if name == VERIFIED_TABLE else record(self, name, *given)

    with monkeypatch.context() as patch:
        patch.setattr(History, "record_run", ended)
        with pytest.raises(ZeroDivisionError):
            world.run(full=full, run_id="one")
    left = kept(world)
    assert left
    read, count = list[DataFile](), table_diff.count_offsets

    def noted(table: Table, files: Sequence[DataFile], *rows: BooleanExpression) -> Counts[int]:
        read.extend(files)
        return count(table, files, *rows)

    monkeypatch.setattr(table_diff, "count_offsets", noted)
    world.run(full=full, run_id=next_run)
    assert read == []
    assert kept(world) == []


def test_those_of_one_that_ended_after_it_go_when_they_are_old(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed, remove = list[str](), world.remove

    def ended(bucket: str, keys: Iterable[str]) -> None:
        removed.extend(keys)
        raise KeyboardInterrupt

    monkeypatch.setattr(world, "remove", ended)
    with pytest.raises(KeyboardInterrupt):
        world.run()
    assert world.history.latest(VERIFIED_TABLE)
    left = kept(world)
    assert len(left) == len(removed)
    monkeypatch.setattr(world, "remove", remove)
    for key in left:
        world.memory.modified["w", f"ledger/nyc_taxi/{key}"] = NOW
    world.batch()
    world.run()
    assert kept(world) == left
    for key in left:
        world.memory.modified["w", f"ledger/nyc_taxi/{key}"] = NOW - LATE
    world.run()
    assert kept(world) == []


def test_a_verification_with_findings_goes_on_with_its_own(world: World) -> None:
    stale = leave(world, "abandoned", LATE)
    world.compact(list(range(1, 12)))
    world.finds(FindingName.OFFSETS_MISSING, FindingName.OFFSETS_IN_BOTH)
    assert kept(world)
    assert stale not in kept(world)


def test_a_missing_right_is_said_and_fails_no_verification(world: World) -> None:
    world.refuses_deletion = Refused("no right. Fix: grant it", ErrorCode.S3_PERMISSION)
    notes = world.run()["notes"]
    assert "were not deleted: no right. Fix: grant it" in notes[-1]
    assert kept(world)
    world.refuses_deletion = None
    assert world.history.latest(VERIFIED_TABLE)


def test_portions_that_cannot_be_listed_hide_no_finding(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state is recorded by then: the next run would not find it."""

    def away(self: Ledger, prefix: str, *given: Any) -> Any:
        if prefix == PORTIONS:
            raise Unreachable("no answer", ErrorCode.S3_UNREACHABLE)
        return written(self, prefix, *given)

    written = Ledger.written
    monkeypatch.setattr(Ledger, "written", away)
    assert "were not deleted: no answer" in world.run()["notes"][-1]
    assert world.history.latest(VERIFIED_TABLE)


def test_one_that_still_writes_portions_is_not_abandoned_however_old_its_first_ones_are() -> None:
    written = [
        ("portions/going/1.json", NOW - 3 * LATE),
        ("portions/going/2.json", NOW - timedelta(days=1)),
        ("portions/left/1.json", NOW - LATE),
        ("portions/left/2.json", NOW - LATE),
    ]
    found = useless(written, UsedPortions(), NOW, is_recorded=True)
    assert found == ["portions/left/1.json", "portions/left/2.json"]


def test_own_ones_of_files_that_are_not_read_any_more_go_when_they_are_old() -> None:
    written = [
        (f"portions/own/{name}.json", NOW - age)
        for name, age in (("used", 2 * LATE), ("moved", LATE), ("new", timedelta()))
    ]
    used = UsedPortions({"portions/own/"}, {"portions/own/used.json"})
    assert useless(written, used, NOW, is_recorded=False) == ["portions/own/moved.json"]
    assert useless(written, used, NOW, is_recorded=True) == [key for key, _ in written]
