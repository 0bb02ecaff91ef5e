"""A published change, verified from the table (SQLite and files) alone: exact, and each way not to be."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sluice.changes import verify
from sluice.changes.verify import ChangeVerification
from sluice.clients.lake.snapshots import change_files, table_diff
from sluice.config import streams
from sluice.core.changes.plan import Action, ChangePlan
from sluice.core.changes.published import KEEP_IDS, Changes
from sluice.core.changes.result import ChangeResult
from sluice.core.error_codes import with_code
from sluice.core.errors import ClientError
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.rewrites import MAX_NAMED, REWRITES, Rewrites, Unverified
from sluice.core.tables.storage import REWRITE_ID
from sluice.ledger.keys import rewrite_key, run_key
from sluice.ledger.verified_rewrites import VerifiedRewrites
from tests.support import lake as lakes
from tests.support.memory_s3 import MemoryS3
from tests.support.steps import ledger

SOURCE, OTHER = "a" * 16, "b" * 16
ID = "c1"
# An offset and its row's value.
Rows = Sequence[tuple[int, float]]


def offsets(start: int, until: int) -> OffsetRanges:
    return OffsetRanges.of({0: [(start, until)]})


def usual(start: int, until: int) -> Rows:
    return [(offset, 1.0) for offset in range(start, until)]


@contextmanager
def failing(*parts: str) -> Iterator[pytest.ExceptionInfo[ClientError]]:
    """Expects an error whose code and message have these parts."""
    with pytest.raises(ClientError) as caught:
        yield caught
    text = with_code(caught.value.code, caught.value)
    missing = [part for part in parts if part not in text]
    assert not missing, f"{text} does not name {missing}"


class Changed:
    """A file of SOURCE's rows at offsets [0, 10) of partition 0, and a change of them."""

    def __init__(self, folder: Path) -> None:
        self.lake, self.changes, self.rewrite = lakes.make(folder), Changes(), "change-c1-1"
        self.s3_objects = MemoryS3()
        self.ledger = ledger("nyc_taxi", self.s3_objects)
        lakes.append(self.lake, [(0, offset) for offset in range(10)], lakes.summary("batch", 1, {0: 10}))

    @property
    def s3(self) -> Any:
        return self.s3_objects.as_client()

    def exchange(self, plan: ChangePlan, where: str, rows: Rows, source: str = SOURCE, **result: Any) -> None:
        """Take the rows out that ``where`` names, and add others; say that ``plan`` was done, but for what
        ``result`` says otherwise."""
        said: dict[str, Any] = {"out": plan.rows_out, "rows_out": 0, "published": plan.rows_in, **result}
        address = f"changes/{plan.id}.json"
        more = {"change-id": plan.id, "change-document": f"s3://warehouse/{address}"}
        self.changes = self.changes.more(plan.id, "")
        data = [
            {
                "fare_amount": value, "_kafka_partition": 0, "_kafka_offset": offset, "_source_id": source,
                "_source_row": offset,
            }
            for offset, value in rows
        ]  # fmt: skip
        self.lake.catalog.load_table(lakes.TABLE).overwrite(
            pa.Table.from_pylist(data, schema=lakes.ROWS),
            overwrite_filter=where,
            snapshot_properties={
                **lakes.summary("change", 1, {0: 10}, more=more),
                **self.changes.properties(),
                REWRITE_ID: self.rewrite,
            },
        )
        made = change_files.find(self.lake.table(lakes.TABLE), plan.id)
        assert made is not None
        none, counts = OffsetRanges(), (len(made.removed), len(made.added))
        document = ChangeResult(
            id=plan.id, action=plan.action, removed=none, kept=0, files_removed=counts[0],
            files_added=counts[1], **{"rejected": none, **said},
        )  # fmt: skip
        self.s3_objects.objects["warehouse", address] = json.dumps(document.to_document()).encode()

    def plan(self, action: Action, counted: int = 0, **parts: Any) -> ChangePlan:
        plan = ChangePlan(ID, action, "nyc-avro-topic", **parts)
        document = {"rows_out": counted, "records_in": plan.rows_in.count}
        before = self.lake.table(lakes.QUARANTINE).metadata_location
        told = {"counted": document, "metadata": {"raw.t": "s3://before.json", lakes.QUARANTINE: before}}
        self.ledger.put(run_key("r", "change"), {**plan.to_document(), **told})
        return plan

    def verify(self, settle: Callable[[], object] = lambda: True) -> dict[str, Any]:
        systems: Any = self
        spec = streams.load("nyc_taxi")
        return ChangeVerification(systems, spec, self.ledger, "r").run(settle)

    def refused(self, *parts: str) -> None:
        with failing("SLU-421", *parts):
            self.verify()
        assert self.ledger.get(run_key("r", "change-proof")) is None

    def quarantine(self, offsets: Sequence[int], source: str = SOURCE, reason: str = "bad") -> None:
        rows = [
            {
                "stage": "consumer", "reason": reason, "_kafka_partition": 0, "_kafka_offset": offset,
                "_source_id": source, "_source_row": offset,
            }
            for offset in offsets
        ]  # fmt: skip
        lakes.quarantine(self.lake, list(rows))


@pytest.fixture
def changed(tmp_path: Path) -> Changed:
    return Changed(tmp_path)


@pytest.fixture
def replay(changed: Changed) -> ChangePlan:
    return changed.plan(Action.REPLAY, rows_out=offsets(3, 6), rows_in=offsets(3, 6))


THREE = "_kafka_offset >= 3 and _kafka_offset < 6"


def test_a_replay_is_exact_and_its_proof_is_in_the_ledger(changed: Changed, replay: ChangePlan) -> None:
    changed.exchange(replay, THREE, [(3, 9.0), (4, 1.0), (5, 1.0)], rows_out=3)
    found = changed.verify()
    assert (found["rows_out"], found["published"], found["rejected"]) == (3, 3, 0)
    proof = changed.ledger.get(run_key("r", "change-proof"))
    assert proof is not None
    assert (proof["change_id"], proof["snapshot_id"]) == (ID, found["snapshot_id"])
    # Also those that added its files: reconciliation knows them so when they have expired.
    confirmed = changed.ledger.get(rewrite_key(proof["rewrite"]))
    diff = table_diff.diff(changed.lake.table(lakes.TABLE), None)
    assert confirmed is not None
    assert diff is not None
    assert {one.snapshot_id for one in diff.added} <= set(confirmed["snapshot_ids"])


@pytest.mark.parametrize(("answer", "code"), [("AccessDenied", "SLU-212"), ("SlowDown", "SLU-211")])
def test_a_result_that_s3_does_not_give_is_an_error_with_a_code(
    changed: Changed, replay: ChangePlan, answer: str, code: str
) -> None:
    """It was botocore's, which no task knows: without a code, and an object that is gone was tried again."""
    changed.exchange(replay, THREE, [(3, 9.0), (4, 1.0), (5, 1.0)], rows_out=3)
    with failing(code, f"document s3://warehouse/changes/{ID}.json", answer):
        # Right before the result is read.
        changed.verify(lambda: changed.s3_objects.refuse_gets.append(answer))


def test_a_result_that_is_gone_is_a_lost_file_of_the_table(changed: Changed, replay: ChangePlan) -> None:
    """The bucket was restored to before the change: it was an object of a source, without a fix."""
    changed.exchange(replay, THREE, [(3, 9.0), (4, 1.0), (5, 1.0)], rows_out=3)
    del changed.s3_objects.objects["warehouse", f"changes/{ID}.json"]
    with failing("SLU-224", f"s3://warehouse/changes/{ID}.json", "it is gone", "Fix: restore"):
        changed.verify()


def test_changes_without_maintenance_between_them_stay_verified(changed: Changed, replay: ChangePlan) -> None:
    """So many that the table does not name the first one any more."""
    rewrites, verified = Rewrites(), VerifiedRewrites(changed.ledger)
    for number in range(MAX_NAMED):
        rewrites = rewrites.more(f"change-{number}")
    for rewrite in rewrites.newest[:-1]:
        verified.confirm(rewrite, {})
    changed.rewrite = rewrites.newest[-1]
    changed.exchange(replay, THREE, [(3, 9.0), (4, 1.0), (5, 1.0)], rows_out=3)
    with changed.lake.catalog.load_table(lakes.TABLE).transaction() as transaction:
        transaction.set_properties({REWRITES: rewrites.to_json()})
    changed.verify()
    assert verified.unverified(rewrites.more("change-next")) == Unverified(("change-next",))


@pytest.fixture
def recovered(changed: Changed) -> ChangePlan:
    """One of two records that the topic has lost is rejected again."""
    changed.quarantine([10, 11])
    plan = changed.plan(Action.RETRY, rows_in=offsets(10, 12))
    changed.lake.catalog.load_table(lakes.QUARANTINE).delete("_kafka_offset >= 0")
    return plan


RECOVERED: dict[str, Any] = {
    "published": offsets(10, 11),
    "rejected": offsets(11, 12),
    "recovered": offsets(10, 12),
}


def test_a_record_that_was_read_from_the_quarantine_is_the_same(
    changed: Changed, recovered: ChangePlan
) -> None:
    changed.quarantine([11], reason="still bad")
    changed.exchange(recovered, "_kafka_offset > 20", usual(10, 11), **RECOVERED)
    assert changed.verify()["published"] == 1


def test_a_record_that_was_read_from_the_quarantine_and_is_another_row(
    changed: Changed, recovered: ChangePlan
) -> None:
    changed.quarantine([11])
    changed.exchange(recovered, "_kafka_offset > 20", usual(10, 11), source=OTHER, **RECOVERED)
    changed.refused("1 records that were read from the quarantine have other values in the table")


def test_a_record_that_stays_in_the_quarantine_and_is_altered(
    changed: Changed, recovered: ChangePlan
) -> None:
    changed.quarantine([11], source=OTHER)
    changed.exchange(recovered, "_kafka_offset > 20", usual(10, 11), **RECOVERED)
    changed.refused("1 records that stay in the quarantine have other values there")


def test_a_record_was_read_from_a_quarantine_whose_state_is_gone(
    changed: Changed, recovered: ChangePlan
) -> None:
    changed.quarantine([11])
    changed.exchange(recovered, "_kafka_offset > 20", usual(10, 11), **RECOVERED)
    document = changed.ledger.require(run_key("r", "change"), "x")
    Path(document["metadata"][lakes.QUARANTINE].removeprefix("file://")).unlink()
    with failing("cannot be compared alone any more", "metadata"):
        changed.verify()


def test_a_row_that_was_to_stay_and_has_another_value(changed: Changed, replay: ChangePlan) -> None:
    rows = [(offset, 2.0 if offset == 8 else 1.0) for offset in range(10)]
    changed.exchange(replay, "_kafka_offset >= 0", rows, rows_out=3)
    changed.refused("7 rows of the removed files were to stay, and the added files have 7, or with other")


def test_a_row_that_was_to_stay_and_is_gone(changed: Changed, replay: ChangePlan) -> None:
    changed.exchange(replay, "_kafka_offset >= 0", usual(0, 9), rows_out=3)
    changed.refused("7 rows of the removed files were to stay, and the added files have 6")


def test_a_record_that_did_not_come(changed: Changed, replay: ChangePlan) -> None:
    changed.exchange(replay, THREE, usual(3, 5), rows_out=3)
    changed.refused("records that come", "0=[5,6)")


def test_a_record_that_came_twice(changed: Changed, replay: ChangePlan) -> None:
    changed.exchange(replay, THREE, [*usual(3, 6), (4, 1.0)], rows_out=3)
    changed.refused("records that come", "0=[4,5)")


def test_a_record_of_which_the_result_says_nothing(changed: Changed, replay: ChangePlan) -> None:
    changed.exchange(replay, THREE, usual(3, 6), rows_out=3, published=offsets(3, 5))
    changed.refused("0=[3,6) were planned, 0=[3,5) came")


def test_a_reverted_source_is_gone_or_named(changed: Changed) -> None:
    plan = changed.plan(Action.REVERT, counted=10, sources_out=(SOURCE,), reverts=(SOURCE,))
    changed.exchange(plan, "_kafka_offset >= 0", (), rows_out=10, out=offsets(0, 10))
    assert changed.verify()["rows_out"] == 10


def test_a_row_of_a_reverted_source_that_is_there(changed: Changed) -> None:
    plan = changed.plan(Action.REVERT, counted=10, sources_out=(SOURCE,), reverts=(SOURCE,))
    changed.exchange(plan, "_kafka_offset < 9", (), rows_out=9, out=offsets(0, 9))
    changed.refused("10 rows were planned to go, and 9 went", "1 rows of the sources that went are there")


def test_rows_that_went_and_are_there(changed: Changed) -> None:
    plan = changed.plan(Action.REVERT, rows_out=offsets(0, 10), reverts=(SOURCE,))
    changed.exchange(plan, "_kafka_offset < 9", (), rows_out=10)
    changed.refused("rows that went are there: 0=[9,10)")


def test_a_change_that_is_not_published(changed: Changed, replay: ChangePlan) -> None:
    with failing("SLU-421", "change c1 is not published", "has 0 changes", "Fix: clear apply_change"):
        changed.verify()
    revert(changed, "c2")
    with failing("SLU-421", "c1 is not published", "1 changes", "planned after 0", "Fix: trigger a new run"):
        changed.verify()


def test_a_change_that_comes_while_it_is_compared_is_no_difference(
    changed: Changed, replay: ChangePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its code was that of a change that it is too late to compare, with another fix than to try again."""
    changed.exchange(replay, THREE, usual(3, 6), rows_out=3)
    check = verify.check_offsets

    def meanwhile(files: Any) -> Any:
        monkeypatch.setattr(verify, "check_offsets", check)
        revert(changed, "c2")
        return check(verify.LoadFiles.at(changed.lake, streams.load("nyc_taxi"), replay.rows_in))

    monkeypatch.setattr(verify, "check_offsets", meanwhile)
    with failing("SLU-508", "another change was published while c1", "clear this task"):
        changed.verify()
    assert changed.verify()["published"] == 3


def revert(changed: Changed, name: str, **result: Any) -> None:
    """All rows go."""
    later = ChangePlan(name, Action.REVERT, "nyc-avro-topic", sources_out=(SOURCE,))
    changed.exchange(later, "_kafka_offset >= 0", (), **{"rows_out": 10, "out": offsets(0, 10), **result})


def test_a_verified_change_stays_verified_whatever_comes_later(changed: Changed, replay: ChangePlan) -> None:
    changed.exchange(replay, THREE, usual(3, 6), rows_out=3)
    first = changed.verify()
    for number in range(KEEP_IDS + 1):
        revert(changed, f"later-{number}")
        assert changed.verify() == first
    assert ID not in changed.changes.newest


def test_offsets_of_later_changes_are_left_out(changed: Changed, replay: ChangePlan) -> None:
    """The verification comes after the revert of the same load."""
    changed.exchange(replay, THREE, usual(3, 6), rows_out=3)
    revert(changed, "c2")
    assert changed.verify()["published"] == 3
    proof = changed.ledger.get(run_key("r", "change-proof"))
    assert proof is not None
    assert proof["left_out"] == offsets(0, 10).to_json()


def test_a_record_that_did_not_come_is_found_beside_those_of_later_changes(
    changed: Changed, replay: ChangePlan
) -> None:
    changed.exchange(replay, THREE, usual(3, 5), rows_out=3)
    later = ChangePlan("c2", Action.REPLAY, replay.topic, rows_out=offsets(3, 4), rows_in=offsets(3, 4))
    changed.exchange(later, "_kafka_offset = 3", usual(3, 4), rows_out=1)
    changed.refused("records that come", "0=[5,6)")


def test_a_reverted_source_that_a_later_change_brought_back(changed: Changed) -> None:
    plan = changed.plan(Action.REVERT, counted=10, sources_out=(SOURCE,), reverts=(SOURCE,))
    changed.exchange(plan, "_kafka_offset >= 0", (), rows_out=10, out=offsets(0, 10))
    redo = ChangePlan("c2", Action.REDO, "nyc-avro-topic", rows_in=offsets(0, 10), redoes=(ID,))
    changed.exchange(redo, "_kafka_offset >= 0", usual(0, 10))
    assert changed.verify()["rows_out"] == 10


def test_so_many_later_changes_that_it_cannot_be_compared_alone(changed: Changed, replay: ChangePlan) -> None:
    changed.exchange(replay, THREE, usual(3, 6), rows_out=3)
    for number in range(KEEP_IDS + 1):
        revert(changed, f"later-{number}")
    with failing("SLU-422", "9 changes came after it", "_reconciliation", "full"):
        changed.verify()


def test_a_change_whose_snapshots_have_expired(changed: Changed, replay: ChangePlan) -> None:
    changed.exchange(replay, THREE, usual(3, 6), rows_out=3)
    expired(changed)
    with failing("SLU-422", ID, "have expired", "nyc_taxi_reconciliation", "full"):
        changed.verify()


def test_a_catalog_that_was_restored_to_before_the_change(changed: Changed, replay: ChangePlan) -> None:
    changed.exchange(replay, THREE, usual(3, 6), rows_out=3)
    changed.verify()
    restored(changed)
    with failing("change c1 is not published"):
        changed.verify()
    # Also if another change was published then.
    revert(changed, "c2")
    with failing("change c1 is not published"):
        changed.verify()


def test_a_proof_of_a_lost_history_counts_no_more_when_many_changes_came_after_the_restore(
    changed: Changed, replay: ChangePlan
) -> None:
    """The table named it no more, so the run was green without its change."""
    changed.exchange(replay, THREE, usual(3, 6), rows_out=3)
    changed.verify()
    restored(changed)
    for number in range(KEEP_IDS + 1):
        revert(changed, f"other-{number}")
    with failing("SLU-422", "9 changes were published since c1", "never made", "Fix: ", "new run") as caught:
        changed.verify()
    assert "reconciliation" not in str(caught.value), "it passes without the change"


@pytest.mark.parametrize("later", [0, 1, MAX_NAMED])
def test_a_verified_change_whose_snapshots_have_expired_stays_verified(
    changed: Changed, replay: ChangePlan, later: int
) -> None:
    """Also if more rewrites came than the table names, all of them compactions."""
    changed.exchange(replay, THREE, usual(3, 6), rows_out=3)
    first = changed.verify()
    named(changed, changed.rewrite, *(f"compaction-{number}" for number in range(later)))
    expired(changed)
    assert changed.verify() == first


def test_the_proof_of_one_make_of_a_change_does_not_count_for_another(
    changed: Changed, replay: ChangePlan
) -> None:
    """Made again after a restore, and not verified until its snapshots expired."""
    changed.exchange(replay, THREE, usual(3, 6), rows_out=3)
    changed.verify()
    restored(changed)
    changed.exchange(replay, THREE, usual(3, 6), rows_out=3)
    named(changed, "change-c1-2")
    expired(changed)
    with failing("SLU-422", "have expired: they are kept"):
        changed.verify()


def named(changed: Changed, *rewrites: str) -> None:
    """The table names these rewrites, as far as it does."""
    found = Rewrites()
    for rewrite in rewrites:
        found = found.more(rewrite)
    with changed.lake.catalog.load_table(lakes.TABLE).transaction() as transaction:
        transaction.set_properties({REWRITES: found.to_json()})


def expired(changed: Changed) -> None:
    """The snapshots of the change; a batch says what it said."""
    own = changed.lake.table(lakes.TABLE).snapshots()[-2:]
    said = lakes.summary("batch", 1, {0: 11}) | changed.changes.properties()
    lakes.append(changed.lake, [(0, 10)], said)
    table = changed.lake.catalog.load_table(lakes.TABLE)
    table.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in own]).commit()


def test_a_change_that_was_made_again_after_a_restore_is_verified_again(
    changed: Changed, replay: ChangePlan
) -> None:
    changed.exchange(replay, THREE, usual(3, 6), rows_out=3)
    first = changed.verify()
    restored(changed)
    changed.exchange(replay, THREE, usual(3, 5), rows_out=3)
    with failing("SLU-421", "0=[5,6)"):
        changed.verify()
    restored(changed)
    changed.exchange(replay, THREE, usual(3, 6), rows_out=3)
    again = changed.verify()
    assert again["snapshot_id"] != first["snapshot_id"]
    assert changed.verify() == again
    assert changed.ledger.get(run_key("r", f"change-proof-{again['snapshot_id']}")) is not None


def restored(changed: Changed) -> None:
    changed.lake.catalog.drop_table(lakes.TABLE)
    changed.lake.catalog.create_table(lakes.TABLE, lakes.ROWS)
    lakes.append(changed.lake, [(0, offset) for offset in range(10)], lakes.summary("batch", 1, {0: 10}))
    changed.changes = Changes()


def test_a_revert_by_offsets_of_which_no_row_went(changed: Changed) -> None:
    plan = changed.plan(Action.REVERT, counted=10, rows_out=offsets(0, 10), reverts=(SOURCE,))
    changed.exchange(plan, "_kafka_offset > 1000", (), out=OffsetRanges())
    changed.refused("rows that went are there", "0=[0,10)")


def test_rows_of_a_revert_by_offsets_that_are_in_quarantine_stay_there(changed: Changed) -> None:
    where: dict[str, object] = {"_kafka_partition": 0, "_kafka_offset": 10}
    lakes.quarantine(changed.lake, [where | {"stage": "consumer", "reason": "bad"}])
    plan = changed.plan(Action.REVERT, counted=10, rows_out=offsets(0, 11), reverts=(SOURCE,))
    changed.exchange(plan, "_kafka_offset >= 0", (), rows_out=10, out=offsets(0, 10))
    assert changed.verify()["rows_out"] == 10


def test_single_records_that_went_are_in_neither_table(changed: Changed) -> None:
    where: dict[str, object] = {"_kafka_partition": 0, "_kafka_offset": 10}
    lakes.quarantine(changed.lake, [where | {"stage": "consumer", "reason": "bad"}])
    plan = changed.plan(Action.REMOVE, 2, rows_out=OffsetRanges.of({0: [(3, 4), (10, 11)]}))
    changed.exchange(plan, "_kafka_offset = 3", [], rows_out=2)
    changed.refused("rows that went are there: 0=[10,11)")
    changed.lake.catalog.load_table(lakes.QUARANTINE).delete("_kafka_offset = 10")
    assert changed.verify()["rows_out"] == 2


def test_a_change_whose_exchange_has_expired_cannot_be_compared(changed: Changed, replay: ChangePlan) -> None:
    """Its files are in a snapshot of its own, which goes before that with the stream's state."""
    changed.exchange(replay, THREE, usual(3, 6), rows_out=3)
    address = "changes/c1.json"
    document = json.loads(changed.s3_objects.objects["warehouse", address])
    document |= {"files_removed": document["files_removed"] + 1}
    changed.s3_objects.objects["warehouse", address] = json.dumps(document).encode()
    with failing("SLU-422", "has expired", "full"):
        changed.verify()


def test_a_proof_that_left_offsets_out_counts_only_while_the_later_changes_are_there(
    changed: Changed, replay: ChangePlan
) -> None:
    changed.exchange(replay, THREE, usual(3, 5), rows_out=3)
    before_later = changed.lake.catalog.load_table(lakes.TABLE).metadata_location
    later = ChangePlan("c2", Action.REPLAY, replay.topic, rows_out=offsets(3, 6), rows_in=offsets(3, 6))
    changed.exchange(later, THREE, usual(3, 6), rows_out=2, out=offsets(3, 5))
    assert changed.verify() == changed.verify()
    changed.lake.catalog.drop_table(lakes.TABLE)
    changed.lake.catalog.register_table(lakes.TABLE, before_later)
    with failing("SLU-421", "1 gaps", "0=[5,6)"):
        changed.verify()


def test_an_attempt_beside_main_is_not_taken_for_the_one_on_it(changed: Changed, replay: ChangePlan) -> None:
    """``main`` was moved back by hand, and the change made again."""
    table = changed.lake.catalog.load_table(lakes.TABLE)
    base = table.current_snapshot()
    assert base is not None
    changed.exchange(replay, THREE, usual(3, 6), rows_out=3)
    changed.verify()
    table.refresh()
    table.manage_snapshots().set_current_snapshot(snapshot_id=base.snapshot_id).commit()
    changed.changes = Changes()
    changed.exchange(replay, THREE, usual(3, 5), rows_out=3)
    with failing("SLU-421", "1 gaps"):
        changed.verify()
