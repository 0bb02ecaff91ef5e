"""A load's offsets in files that another program wrote, as a managed catalog's compaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from sluice.clients.lake.catalog import Lake
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.json_record import Document
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.batches import time_of
from sluice.core.tables.rewrites import REWRITES, Rewrites
from sluice.core.tables.storage import REWRITE_ID
from sluice.ledger.batch_log import FOLDER, Restore, document_of, published_key, restored_key
from sluice.ledger.batches import BatchLog
from sluice.ledger.documents import Ledger
from sluice.ledger.own_snapshots import OwnSnapshots
from sluice.ledger.verified_rewrites import VerifiedRewrites
from sluice.loads.sources.base import Counted
from sluice.loads.verification.checks import LoadFiles, OffsetCheck, check_offsets
from tests.support import foreign
from tests.support import lake as lakes
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising
from tests.support.steps import ledger

REPEATING = [0, 1, 2, 2, 4, 5, 6, 7]
SPEC = cast("Any", SimpleNamespace(table=lakes.TABLE, quarantine_table=lakes.QUARANTINE))


def rewritten(folder: Path, offsets: list[int], properties: dict[str, str]) -> Lake:
    """Two batches of the offsets [0,8), whose files a rewrite has made one with these."""
    lake = lakes.make(folder)
    for start in (0, 4):
        said = lakes.summary("batch", 1, {0: start + 4}, ranges={0: (start, start + 4)})
        lakes.append(lake, [(0, start + number) for number in range(4)], said)
    values = [dict(zip(lakes.ROWS.names, (1.0, 0, one, "a" * 16, one), strict=True)) for one in offsets]
    table = lake.catalog.load_table(lakes.TABLE)
    foreign.rewrite(table, pa.Table.from_pylist(values, schema=lakes.ROWS), properties=properties)
    return lake


def check(folder: Path, offsets: list[int], properties: dict[str, str]) -> OffsetCheck:
    lake = rewritten(folder, offsets, properties)
    return check_offsets(LoadFiles.at(lake, SPEC, OffsetRanges.of({0: [(0, 8)]})))


def test_a_file_with_as_many_records_as_offsets_between_its_bounds_is_read(tmp_path: Path) -> None:
    found = check(tmp_path, [0, 1, 2, 2, 4, 5, 6, 7], {})
    assert found.read == 1
    assert str(found.verification.gaps) == "0=[3,4)"
    assert str(found.verification.duplicates) == "0=[2,3)"


@pytest.mark.parametrize("properties", [{}, {REWRITE_ID: "own"}])
def test_a_rewrite_with_the_same_rows_passes_and_is_read(tmp_path: Path, properties: dict[str, str]) -> None:
    found = check(tmp_path, list(range(8)), properties)
    assert (found.verification.is_ok, found.read) == (True, 1)


@pytest.mark.parametrize("offsets", [range(8), REPEATING])
def test_an_own_rewrite_that_is_kept_counts_once_it_was_verified(
    tmp_path: Path, offsets: Sequence[int]
) -> None:
    """A load may be validated between the tasks compact and verify_compaction. This one compares the rows
    with those before: if another program had exchanged some, they are the same."""
    made = Expired(tmp_path, list(offsets), {REWRITE_ID: "own"})
    for is_confirmed in (False, True):
        if is_confirmed:
            made.confirm()
        found = made.check()
        assert (found.verification.is_ok, found.read) == (offsets is not REPEATING, 1)
    made.reconciled()
    assert made.check().read == 0


@pytest.mark.parametrize(
    ("number", "is_known"),
    [(1, True), (2, True), (3, False), (0, False)],
    ids=["compacted before", "compacted then", "compacted later", "not known"],
)
def test_a_verified_rewrite_of_a_state_that_was_reconciled_counts_from_its_commit_on(
    tmp_path: Path, number: int, is_known: bool
) -> None:
    """By the number of the state that it compacted, which an own one gives its files."""
    made = Expired(tmp_path, list(range(8)), {REWRITE_ID: "own"})
    made.confirm()
    made.reconciled(made.second)
    found = made.own.among(made.lake.table(lakes.TABLE), {made.rewrite: number}, 1)
    assert found == ({made.rewrite} if is_known else set())


def another_table(made: Expired) -> None:
    made.state["table_uuid"] = "another"


def another_history(made: Expired) -> None:
    """The catalog was restored to before the state, and gives out its numbers again."""
    made.state["snapshot_id"] += 1


def lost_and_expired(made: Expired) -> None:
    """As the writer notes it that finds the restored catalog."""
    made.state |= {"snapshot_id": 1, "sequence_number": 2, "committed_at": 5_000}
    for _ in range(2):
        made.batch()
    restore = Restore(time_of(9_000), time_of(1_000))
    made.log.put(restored_key(restore, "w"), {"writer": "w", "at": restore.at.isoformat()})


@pytest.mark.parametrize("spoil", [another_table, another_history, lost_and_expired])
def test_a_reconciliation_of_another_table_or_history_shows_nothing(
    tmp_path: Path, spoil: Callable[[Expired], None]
) -> None:
    made = Expired(tmp_path, list(range(8)), {REWRITE_ID: "own"})
    made.confirm()
    made.reconciled()
    spoil(made)
    # As if the rewrite were kept: which state it is compared with is another question.
    assert made.own._of_verified(made.lake.table(lakes.TABLE), {made.rewrite: 2}) == set()
    if spoil is lost_and_expired:
        made.state["committed_at"] = 10_000
        assert made.own._of_verified(made.lake.table(lakes.TABLE), {made.rewrite: 2}) == {made.rewrite}


class Expired:
    """A table from whose ``main`` all has expired but its newest batch. ``requests``: GETs of documents."""

    def __init__(self, folder: Path, offsets: list[int], properties: dict[str, str]) -> None:
        self.lake, self.memory, self.end = rewritten(folder, offsets, properties), MemoryS3(), 8
        self.rewrite = self.newest
        self.log = Ledger(self.memory.as_client(), "s3://lake/nyc_taxi", FOLDER)
        self.state: Document = {}
        self.own = OwnSnapshots(ledger("nyc_taxi", self.memory), self.batch_log, lambda: self.state or None)
        self.second = self.lake.table(lakes.TABLE).metadata.snapshots[1].snapshot_id

    @property
    def newest(self) -> int:
        return self.lake.heads(lakes.TABLE)[lakes.TABLE].snapshot_id

    def confirm(self) -> None:
        """As task verify_compaction does."""
        rewrites = VerifiedRewrites(ledger("nyc_taxi", self.memory))
        rewrites.confirm("own", {"snapshot_ids": [self.rewrite]})

    def reconciled(self, number: int | None = None) -> None:
        """As task verify_table leaves a snapshot, by default the newest."""
        table = self.lake.table(lakes.TABLE)
        snapshot = table.snapshot_by_id(number or self.newest)
        assert snapshot is not None
        self.state = {
            "table_uuid": str(table.metadata.table_uuid),
            "snapshot_id": snapshot.snapshot_id,
            "sequence_number": snapshot.sequence_number,
            "committed_at": snapshot.timestamp_ms,
        }

    def batch_log(self) -> BatchLog:
        return BatchLog(self.lake.table(lakes.TABLE), self.log)

    def batch(self) -> None:
        """Publish four records; the batch is recorded, and the snapshot before it has expired."""
        before, self.end = self.newest, self.end + 4
        said = lakes.summary("batch", 1, {0: self.end}, ranges={0: (self.end - 4, self.end)})
        lakes.append(self.lake, [(0, offset) for offset in range(self.end - 4, self.end)], said)
        newest = next(iter(self.batch_log().on_main.values()))
        self.log.put(published_key([newest]), document_of([newest]))
        table = self.lake.catalog.load_table(lakes.TABLE)
        table.maintenance.expire_snapshots().by_id(before).commit()

    def check(self) -> OffsetCheck:
        source = cast(
            "Any",
            SimpleNamespace(
                source_id="a" * 16, start_offsets={}, head=lambda name: None, COUNTED=Counted.ROWS
            ),
        )
        expected = OffsetRanges.of({0: [(0, self.end)]})
        return check_offsets(LoadFiles.plan(self.lake, SPEC, [source], expected, self.own.among))


def test_a_file_of_a_rewrite_that_has_expired_is_read_and_those_of_expired_batches_are_not(
    tmp_path: Path,
) -> None:
    made = Expired(tmp_path, REPEATING, {})
    for _ in range(3):
        made.batch()
    found = made.check()
    assert (found.files, found.read) == (4, 1)
    assert str(found.verification.gaps) == "0=[3,4)"
    assert str(found.verification.duplicates) == "0=[2,3)"


def test_without_records_every_file_of_an_expired_snapshot_is_read(tmp_path: Path) -> None:
    made = Expired(tmp_path, REPEATING, {})
    made.batch()
    made.batch()
    found = check_offsets(LoadFiles.at(made.lake, SPEC, OffsetRanges.of({0: [(0, 16)]})))
    assert (found.files, found.read) == (3, 2)
    assert str(found.verification.gaps) == "0=[3,4)"


def test_a_file_of_a_verified_rewrite_that_has_expired_is_not_read(tmp_path: Path) -> None:
    made = Expired(tmp_path, list(range(8)), {REWRITE_ID: "own"})
    table = made.lake.catalog.load_table(lakes.TABLE)
    named = Rewrites().more("own").to_json()
    table.transaction().set_properties({REWRITES: named}).commit_transaction()
    made.batch()
    assert made.check().read == 1, "it is not verified"
    made.confirm()
    assert made.check().read == 1, "what was compacted is not verified"
    made.reconciled()
    assert made.check().read == 0


def test_the_log_is_asked_for_no_more_documents_than_there_are_files_in_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Expired(tmp_path, REPEATING, {})
    for _ in range(6):
        made.batch()
    asked, get = list[str](), Ledger.get

    def counted(self: Ledger, key: str) -> Document | None:
        asked.append(key)
        return get(self, key)

    monkeypatch.setattr(Ledger, "get", counted)
    expected = OffsetRanges.of({0: [(0, 12)]})
    source = cast(
        "Any",
        SimpleNamespace(source_id="a" * 16, start_offsets={}, head=lambda name: None, COUNTED=Counted.ROWS),
    )
    found = check_offsets(LoadFiles.plan(made.lake, SPEC, [source], expected, made.own.among))
    # The rewrite's and the first batch's, behind newer documents that have neither.
    assert (found.files, found.read, len(asked)) == (2, 2, 2)
    assert str(found.verification.duplicates) == "0=[2,3)"


@pytest.mark.parametrize("row", [(0, None), (None, 3)])
def test_a_row_without_a_place_fails_with_its_file(tmp_path: Path, row: tuple[Any, Any]) -> None:
    """Also if the file has as many rows as offsets between its bounds."""
    lake = lakes.make(tmp_path)
    said = lakes.summary("batch", 1, {0: 5}, ranges={0: (0, 5)})
    lakes.append(lake, [(0, 0), (0, 1), (0, 2), row, (0, 4)], said)
    with raising(Refused, "1 rows have no _kafka_") as found:
        check_offsets(LoadFiles.at(lake, SPEC, OffsetRanges.of({0: [(0, 5)]})))
    assert found.value.code is ErrorCode.ROWS_UNPLACED
    assert ".parquet" in str(found.value)
