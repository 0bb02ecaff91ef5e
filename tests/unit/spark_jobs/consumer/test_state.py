"""The state of a stream, from the newest snapshots alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.offsets.deduplication import LoadedRows
from sluice.core.offsets.quarantine import Rejections
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.verify import FileStats
from sluice.core.tables.batches import Snapshot
from sluice.core.tables.summary import CHANGE_DOCUMENT, LEADER_EPOCHS
from spark_jobs.common.consumer import state
from spark_jobs.common.consumer.state import StreamState
from spark_jobs.common.lake import state_property
from spark_jobs.common.lake.loaded_rows import BatchRows
from spark_jobs.common.lake.written.added_file import AddedFile
from spark_jobs.common.spark.failures import Unrecoverable
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising

A = "a" * 16


def test_rows_of_a_change_whose_document_is_gone() -> None:
    """The bucket was restored to before it: the consumer said that a source's object is missing, and was
    restarted for ever."""
    address = "s3://lake/raw/t/changes/c1-7.json"
    table: Any = SimpleNamespace(summary=lambda snapshot: {CHANGE_DOCUMENT: address})
    reader: Any = None
    with raising(Refused, address, "it is gone", "Fix: ") as caught:
        state.rows_of(table, reader, MemoryS3().as_client(), 1)
    assert caught.value.code is ErrorCode.LAKE_FILE_MISSING


def rows(start: int, until: int) -> LoadedRows:
    return LoadedRows({A: OffsetRanges.of({0: [(start, until)]})})


def history(batches: int, recorded: int = 0) -> list[Snapshot]:
    """An epoch-start and batches of 10 records each, one of them rejected, newest first."""
    now, found = StreamState(epoch=3, topic_id="T", starts={0: 0}, ends={0: 0}), list[Snapshot]()

    def add(number: int, kind: str, more: dict[str, str]) -> None:
        summary = {
            "sluice.kind": kind,
            "sluice.epoch": "3",
            "sluice.writer": "w3_x",
            "sluice.end-offsets": json.dumps(now.ends),
            **now.summary(),
            **more,
        }
        found.append(Snapshot(number, number, summary))

    add(1, "epoch-start", {})
    for number in range(batches):
        begin, end = number * 10, number * 10 + 10
        more = {"sluice.batch-id": str(number), "sluice.offset-ranges": json.dumps({0: [begin, end]})}
        now.ends = {0: end}
        add(number + 2, "batch", more | {"added-records": "9"})
        now.rejected = now.rejected.more(1, f"w3_x/{number}")
        now.unrecorded.append(BatchRows(OffsetRanges.of({0: [(begin, end)]}), rows(begin, end)))
        if number + 1 == recorded:
            now.recorded, now.unrecorded = recorded, []
    return found[::-1]


def read(snapshots: Sequence[Snapshot]) -> StreamState:
    def of_files(snapshot_id: int) -> LoadedRows:
        assert snapshot_id == snapshots[0].id, "the others are in a summary"
        return rows(snapshot_id * 10 - 20, snapshot_id * 10 - 10)

    return state.read(snapshots, of_files, "raw.trips")


def test_a_table_without_snapshots_is_a_new_stream() -> None:
    assert read([]) == StreamState()


def test_all_is_in_the_newest_snapshots_and_the_newest_batch() -> None:
    found = read(history(3))
    assert (found.epoch, found.topic_id, found.starts, found.ends) == (3, "T", {0: 0}, {0: 30})
    assert (found.rejected, found.recorded) == (Rejections(3, "w3_x/2"), 0)
    assert [batch.offsets.count for batch in found.unrecorded] == [10, 10, 10]
    assert found.unrecorded_rows(A) == OffsetRanges.of({0: [(0, 30)]})
    assert not found.unrecorded_rows("b" * 16)


def test_an_epoch_start_carries_the_state_on_and_so_do_many() -> None:
    newest = read(history(3))
    starts = [
        Snapshot(
            100 + number,
            100,
            {"sluice.kind": "epoch-start", "sluice.epoch": str(4 + number), "sluice.end-offsets": '{"0": 30}'}
            | newest.summary(),
        )
        for number in range(3)
    ]
    found = state.read([*starts[::-1], *history(3)], lambda _: LoadedRows(), "raw.trips")
    newest.epoch = 6
    assert found == newest


def test_maintenance_on_top_changes_nothing() -> None:
    found = state.read(
        [Snapshot(100, 100, {"operation": "replace"}), *history(1)], lambda _: rows(0, 10), "raw.trips"
    )
    assert found.ends == {0: 10}


def test_what_a_change_brought_says_of_which_one() -> None:
    """So that it does not count if a restored catalog does not have the change."""
    newest = read(history(1))
    newest.changes = newest.changes.more("r1", "")
    summary = {
        "sluice.kind": "change",
        "sluice.epoch": "3",
        "sluice.end-offsets": '{"0": 10}',
        "sluice.change-offsets": '{"0": [[0, 10]]}',
    }
    changed = Snapshot(100, 100, {**newest.summary(), **summary})
    found = state.read([changed, *history(1)], lambda _: rows(0, 5), "raw.trips")
    assert [batch.changes for batch in found.unrecorded] == [None, newest.changes]


def test_what_is_recorded_needs_no_snapshot() -> None:
    kept = history(12, recorded=10)
    found = read(kept[:3])
    assert (found.recorded, len(found.unrecorded), found.rejected.count) == (10, 2, 12)
    assert found.unrecorded_rows(A) == OffsetRanges.of({0: [(100, 120)]})
    assert read(kept[:2]) == found, "the newest from its files, the one before from the newest summary"


def test_snapshots_that_were_expired_too_early_are_named() -> None:
    with raising(Unrecoverable, "raw.trips", "12 batches"):
        read(history(12)[:5])


@pytest.mark.parametrize("summary", [{}, {"operation": "replace"}])
def test_snapshots_without_any_state_are_no_new_stream(summary: dict[str, str]) -> None:
    with raising(Unrecoverable, "raw.trips"):
        read([Snapshot(1, 1, summary)])


def said_of(snapshot: Snapshot) -> Snapshot:
    """A snapshot, as a table's properties say it."""
    described = {"snapshot-id": snapshot.id, "timestamp-ms": snapshot.at_ms, "summary": snapshot.summary}
    found = state_property.snapshot_in(state_property.properties_of(described))
    assert found is not None
    return Snapshot(found["snapshot-id"], found["timestamp-ms"], found["summary"])


REWRITE = Snapshot(100, 100, {"operation": "replace"})


def test_the_newest_snapshot_is_enough_where_each_batch_is_recorded() -> None:
    """A managed catalog has left its own rewrite, and the table's property says what was before it."""
    newest = history(3, recorded=2)[0]
    of_rewrite = state.read([REWRITE, said_of(newest)], lambda _: rows(20, 30), "raw.trips")
    assert of_rewrite == state.read([newest], lambda _: rows(20, 30), "raw.trips")
    assert (of_rewrite.recorded, of_rewrite.rejected.count, of_rewrite.ends) == (2, 3, {0: 30})
    assert [batch.offsets.count for batch in of_rewrite.unrecorded] == [10]


def test_the_rows_of_a_batch_that_has_expired_are_those_that_the_table_has_at_its_offsets() -> None:
    """In a file of another program, with rows of other batches, partitions and programs."""
    places = [
        (0, 19, A, 19),
        (0, 20, A, 10),
        (0, 21, A, 10),
        (0, 30, A, 30),
        (1, 20, A, 20),
        (0, 22, None, None),
    ]
    names = ["_kafka_partition", "_kafka_offset", "_source_id", "_source_base_offset"]
    columns = dict(zip(names, map(list, zip(*places, strict=True)), strict=True))
    file = AddedFile(FileStats("s3://w/f", 0, 1, 19, 30, 6), A, A, 10, 30, 1)
    later = AddedFile(FileStats("s3://w/later", 0, 0, 40, 41, 2), A, A, 40, 40, 0)
    table: Any = SimpleNamespace(
        summary=lambda snapshot: {"sluice.offset-ranges": '{"0": [20, 30]}'},
        is_kept=lambda snapshot: False,
        files_from=lambda offset: iter([file, later]) if offset == 20 else pytest.fail(f"{offset}"),
    )

    def tables(paths: list[str], columns_: object) -> list[pa.Table]:
        assert paths == ["s3://w/f"]
        return [pa.table(columns)]

    reader: Any = SimpleNamespace(tables=tables)
    found = state.rows_of(table, reader, MemoryS3().as_client(), 1)
    assert found == LoadedRows({A: OffsetRanges.of({0: [(10, 12)]})})


@pytest.mark.parametrize("offset", [29, 30])
def test_rows_behind_a_state_that_only_the_property_says_are_no_state_to_go_on_from(offset: int) -> None:
    """A version of Sluice that knows no such property published them, and did not move it."""
    newest = said_of(history(3, recorded=2)[0])
    mixed = AddedFile(FileStats("s3://w/f", 0, 1, 0, 40, 3), None, None, None, None, 3)
    every = pa.table(
        {
            "_kafka_partition": [0, 0],
            "_kafka_offset": [0, offset],
            "_source_id": pa.nulls(2, pa.string()),
            "_source_base_offset": pa.nulls(2, pa.int64()),
        }
    )

    def tables(paths: list[str], columns: list[str]) -> list[pa.Table]:
        return [every.select(columns) for _ in paths]

    table: Any = SimpleNamespace(
        name="raw.trips",
        line=lambda: iter([REWRITE, newest]),
        snapshots=lambda ref: iter([REWRITE]),
        summary=lambda snapshot: newest.summary,
        is_kept=lambda snapshot: False,
        files_from=lambda offset: iter([mixed]),
    )
    reader: Any = SimpleNamespace(tables=tables)
    if offset < 30:
        assert state.of_main(table, reader, MemoryS3().as_client()).ends == {0: 30}
        return
    with raising(Unrecoverable, "raw.trips", "sluice.state", "0=[30,31)", "s3://w/f", "Fix: "):
        state.of_main(table, reader, MemoryS3().as_client())


def test_what_the_next_writer_reads_does_not_expire() -> None:
    """A compaction and a failover with every batch: more snapshots than are kept otherwise."""
    kept = list[Snapshot]()
    for snapshot in history(3):
        later = [Snapshot(snapshot.id, snapshot.at_ms, {"operation": "replace"})] * 2
        kept += [*later, snapshot]
    # The epoch-start is 1, the batches are 2 to 4.
    assert state.needed_from(kept, 3, now=9) == 2
    assert state.needed_from(kept, 1, now=9) == 4
    assert state.needed_from(kept, 0, now=9) == 9
    set_back = [Snapshot(9, 1, {"operation": "replace"}), *kept]
    assert state.needed_from(set_back, 1, now=9) == 1


@pytest.mark.parametrize(
    ("kept", "oldest", "since"),
    [(5_000, 7, 7), (5_001, 3, 3), (6_000, 7, 1_001), (6_000, 2_000, 2_000), (0, 7, 7)],
)
def test_snapshots_are_kept_for_queries_up_to_a_number(kept: int, oldest: int, since: int) -> None:
    """Snapshot n was committed at n; the newest is ``kept``."""
    main = [Snapshot(number, number, {}) for number in range(kept, 0, -1)]
    assert state.reader_horizon(main, oldest, now=kept) == since


def test_snapshots_are_kept_for_queries_up_to_a_week() -> None:
    week = 7 * 24 * 3_600_000
    assert state.reader_horizon([Snapshot(1, 5, {})], oldest=5, now=week + 9) == 9


def test_leader_epochs_are_those_of_the_newest_summary() -> None:
    older, newest = {0: 3, 1: 4}, {0: 5, 11: 0}
    kept = history(2)
    for snapshot, epochs in zip(kept, (newest, older), strict=False):
        summary: Any = snapshot.summary
        summary[LEADER_EPOCHS] = json.dumps(epochs)
    found = read(kept)
    assert found.leader_epochs == newest
    assert json.loads(found.summary()[LEADER_EPOCHS]) == {"0": 5, "11": 0}
    start = {"sluice.kind": "epoch-start", "sluice.epoch": "4", "sluice.end-offsets": '{"0": 20}'}
    after = state.read([Snapshot(9, 9, found.summary() | start), *kept], lambda _: LoadedRows(), "raw.trips")
    assert after.leader_epochs == newest, "carried on by the next writer"


def test_without_leader_epochs_no_summary_has_any() -> None:
    """As before they were recorded."""
    found = read(history(1))
    assert found.leader_epochs == {}
    assert LEADER_EPOCHS not in found.summary()
