"""Records whose keys say that they are withheld or copies: the ledger says if they are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sluice.core.findings import FindingName
from sluice.core.offsets.quarantine import DUPLICATE, WITHHELD_REASON
from sluice.core.offsets.sources import source_id
from sluice.ledger.keys import VERIFIED_TABLE, contents_key, planned_key
from sluice.loads.known.verified import VerifiedSources
from tests.support import lake as lakes
from tests.support.reconciliation import World

NEWER, SOURCE, OLDER = "c" * 16, "b" * 16, "a" * 16
COPY = f"{DUPLICATE} this row is in the table already"


class Purpose(World):
    def reject(self, count: int, reason: str, source: str | None = SOURCE) -> None:
        """A batch of nothing but these, which the consumer takes for rejected on purpose."""
        self.rejecting(0, count, reason, source)

    def plan(self, source: str = SOURCE, hours: float = 0, **more: Any) -> None:
        at = (datetime.now(UTC) - timedelta(hours=hours)).isoformat()
        names = {"bucket": "source", "key": "k.csv", "version_id": f"v{source[0]}", "etag": "e", "size": 1}
        document = {**names, "source_id": source, "run_id": f"r{source[0]}", "at": at, **more}
        self.history.put(planned_key(source), document)


@pytest.fixture
def world(tmp_path: Path) -> Purpose:
    made = Purpose(tmp_path)
    made.batch()
    made.run()
    return made


@pytest.mark.parametrize("reason", [WITHHELD_REASON, COPY])
def test_records_of_sources_that_no_load_planned_are_rejected(world: Purpose, reason: str) -> None:
    for n in range(9):
        world.reject(1, reason, f"{n:016x}")
    text = world.finds(FindingName.RECORDS_REJECTED)
    assert "9 of the last 9 records (100.0 %)" in text
    assert "9 of them have keys of sources that no load planned" in text
    # Found once, and nothing is counted twice by a rewrite of the quarantine or by a whole run.
    quarantine = world.lake.catalog.load_table(lakes.QUARANTINE)
    quarantine.overwrite(quarantine.scan().to_arrow(), snapshot_properties=summary_of(quarantine))
    world.run()
    world.run(full=True)


def summary_of(table: Any) -> dict[str, str]:
    kept = table.current_snapshot().summary.additional_properties
    return {key: value for key, value in kept.items() if key.startswith("sluice.")}


def test_records_that_a_load_planned_so_are_not(world: Purpose) -> None:
    world.plan(withheld=True)
    world.plan(OLDER)
    world.reject(9, WITHHELD_REASON)
    world.reject(9, COPY)
    world.reject(9, COPY, OLDER)
    world.run()
    # Its plan is of another load: without withhold.
    world.reject(9, WITHHELD_REASON, OLDER)
    assert "9 of the last 9 records" in world.finds(FindingName.RECORDS_REJECTED)


def test_they_add_up_with_malformed_ones(world: Purpose) -> None:
    world.reject(3, WITHHELD_REASON)
    world.rejecting(2)
    assert "3 of them have keys" in world.finds(FindingName.RECORDS_REJECTED)


def test_new_malformed_records_are_not_set_off_against_older_ones_that_were_planned_after_all(
    world: Purpose,
) -> None:
    world.reject(20, WITHHELD_REASON)
    world.finds(FindingName.RECORDS_REJECTED)
    # As a ledger that was put back; a run that verifies all finds none of them unplanned.
    world.plan(withheld=True)
    world.rejecting(9)
    assert "9 of the last 9 records" in world.finds(FindingName.RECORDS_REJECTED, full=True)


def test_a_version_that_waits_for_its_replace_is_named_by_each_run(world: Purpose) -> None:
    world.plan(withheld=True, hours=25)
    world.reject(9, WITHHELD_REASON)
    for _ in range(2):
        text = world.finds(FindingName.WITHHELD_WAITING)
        assert "s3://source/k.csv version vb (load rb): 9 records" in text
        assert "24 hours" in text
    # It hinders no verified state.
    newest = world.history.latest(VERIFIED_TABLE)
    assert newest is not None
    assert newest["ends"] == {"0": world.end}


def test_withheld_sources_are_asked_about_once(world: Purpose) -> None:
    for n in range(5):
        world.plan(f"{n:016x}", withheld=True, hours=25)
        world.reject(9, WITHHELD_REASON, f"{n:016x}")
    text = world.finds(FindingName.WITHHELD_WAITING)
    world.memory.got.clear()
    assert world.finds(FindingName.WITHHELD_WAITING) == text
    assert not [key for key in world.memory.got if "/sources/" in key or "/objects/" in key]


def test_the_state_of_an_earlier_version_is_asked_about_once_more_and_reads_this_one_s(
    world: Purpose,
) -> None:
    world.plan(withheld=True, hours=25)
    world.reject(9, WITHHELD_REASON)
    text = world.finds(FindingName.WITHHELD_WAITING)
    newest = world.history.latest(VERIFIED_TABLE)
    assert newest is not None
    assert newest["on_purpose"] == {"unplanned": 0, "withheld": {SOURCE: 9}}
    del newest["withheld_plans"]
    world.history.record_run(VERIFIED_TABLE, newest, datetime.now(UTC) + timedelta(seconds=1))
    assert world.finds(FindingName.WITHHELD_WAITING) == text


def test_a_version_that_does_not_wait_for_long_is_not(world: Purpose) -> None:
    world.plan(withheld=True, hours=23)
    world.reject(9, WITHHELD_REASON)
    world.run()


@pytest.mark.parametrize("newer", [(), (NEWER,)])
@pytest.mark.parametrize("taken_out", [{OLDER}, {SOURCE}])
def test_copies_of_a_version_that_was_replaced_or_taken_out_do_not_wait(
    world: Purpose, taken_out: set[str], newer: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.plan(withheld=True, hours=25)
    monkeypatch.setattr(VerifiedSources, "reverted", frozenset(taken_out))
    monkeypatch.setattr(VerifiedSources, "__init__", with_incarnation)
    names = (OLDER, SOURCE, *newer)
    contents = [{"source_id": one, "version_id": "v", "etag": "e", "size": 1} for one in names]
    world.history.put(contents_key("l", object_id_of("k.csv"), 1), {"contents": contents})
    world.reject(9, WITHHELD_REASON)
    world.run()


def with_incarnation(self: VerifiedSources, *given: Any) -> None:
    self.incarnation = "l"


def object_id_of(key: str) -> str:
    return source_id("source", key, "")
