"""Batches are listed once and found by their offsets, from snapshots and from what writers recorded."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.batches import Batch, time_of
from sluice.core.tables.without_record import WithoutRecord
from sluice.ledger.batch_log import FOLDER, document_of, published_key
from sluice.ledger.batches import BatchLog
from sluice.ledger.documents import Ledger
from tests.support import foreign
from tests.support import lake as lakes
from tests.support.batches import NOON, History, batch, readers_log, with_marker, writers_log
from tests.support.memory_s3 import MemoryS3

if TYPE_CHECKING:
    from sluice.clients.lake.catalog import Lake


def numbers(
    log: BatchLog, limit: int = 1000, since: int | None = None, until: int | None = None
) -> list[int]:
    """List the batches that are listed and not lost; times in seconds after noon."""
    begin, end = (None if at is None else time_of(NOON + at * 1000) for at in (since, until))
    return [one.batch.snapshot_id for one in log.newest(limit, begin, end) if not one.is_lost]


def recorded(s3: MemoryS3, count: int) -> list[Batch]:
    """So many batches of ten offsets and one second each, in documents of ten."""
    batches = [batch(n, n * 10, n * 10 + 10) for n in range(count)]
    for start in range(0, count, 10):
        writers_log(s3).record(batches[start : start + 10])
    s3.requests.clear()
    return batches


def test_those_of_snapshots_and_recorded_ones_are_listed_once_newest_first() -> None:
    s3 = MemoryS3()
    batches = recorded(s3, 20)
    newest = [batch(n, n * 10, n * 10 + 10) for n in range(20, 25)]
    log = readers_log(s3, [*batches[-3:], *newest])
    assert numbers(log) == list(reversed(range(25)))
    assert numbers(log, limit=8) == list(reversed(range(17, 25)))


def test_the_newest_cost_the_same_after_a_long_history() -> None:
    s3 = MemoryS3(page=1000)
    batches = recorded(s3, 5000)
    log = readers_log(s3, batches[-5:])
    assert numbers(log, limit=5) == list(reversed(range(4995, 5000)))
    assert not s3.requests, "of snapshots alone"
    assert numbers(log, limit=20) == list(reversed(range(4980, 5000)))
    assert (s3.requests["LIST"], s3.requests["GET"]) == (1 + 1, 2), "one page, and one of restored catalogs"


def test_a_time_range_reads_the_documents_of_that_time_only() -> None:
    s3 = MemoryS3(page=1000)
    log = readers_log(s3, recorded(s3, 5000)[-1:])
    assert numbers(log, since=1005, until=1023) == list(reversed(range(1005, 1024)))
    assert s3.requests["GET"] == 3
    assert s3.requests["LIST"] <= 2
    assert numbers(log, since=4999) == [4999]
    assert numbers(log, until=3) == [3, 2, 1, 0]
    assert numbers(log, since=6000) == numbers(log, until=-1) == []


def test_a_batch_that_main_lost_is_listed_as_lost() -> None:
    s3 = MemoryS3()
    batches = recorded(s3, 20)
    assert numbers(readers_log(s3, batches[:12])) == list(reversed(range(12))), "no writer has found it yet"
    # A writer begins from there and reads the lost records again, in other batches.
    writers_log(s3).note_restore(batches[:12], NOON + 30_000, "w2_b")
    again = [batch(n, (n - 88) * 10, (n - 88) * 10 + 10, writer="w2_b") for n in range(100, 120)]
    writers_log(s3).record(again)
    log = readers_log(s3, again[-1:])
    assert numbers(log) == [*reversed(range(100, 120)), *reversed(range(12))]
    assert {one.batch.snapshot_id for one in log.newest(99) if one.is_lost} == set(range(12, 20))
    assert [log.holding(0, offset).snapshot_id for offset in (119, 120, 319)] == [11, 100, 119]  # type: ignore[union-attr]


def test_what_main_has_is_not_lost_though_its_writers_clock_is_behind() -> None:
    s3 = MemoryS3()
    batches = recorded(s3, 10)
    writers_log(s3).note_restore(batches[:3], NOON + 4_000, "w2_b")
    again = [batch(n, n, n + 1, writer="w2_b", at=NOON + at) for n, at in ((105, 5_500), (106, 12_000))]
    writers_log(s3).record(again)
    assert numbers(readers_log(s3, [*batches[:3], *again])) == [106, 105, 2, 1, 0]


def test_a_newer_backup_brings_back_what_an_older_one_lost() -> None:
    s3 = MemoryS3()
    batches = recorded(s3, 20)
    writers_log(s3).note_restore(batches[:5], NOON + 30_000, "w2_b")
    lost, new = (batch(n, 200, 210, writer=w, at=NOON + n * 1000) for n, w in ((35, "w2_b"), (45, "w3_c")))
    assert numbers(readers_log(s3, [lost])) == [35, 4, 3, 2, 1, 0]
    writers_log(s3).note_restore(batches[-12:], NOON + 40_000, "w3_c")
    assert numbers(readers_log(s3, [new])) == [45, *reversed(range(20))]
    writers_log(s3).note_restore([*batches[-12:], new], NOON + 50_000, "w4_d")
    assert sum("/restored/" in key for _, key in s3.objects) == 2


def test_an_offset_is_found_in_few_requests() -> None:
    s3 = MemoryS3(page=1000)
    batches = recorded(s3, 5000)
    log = readers_log(s3, batches[-1:])
    for near, most in ((True, 6), (False, 40)):
        for number in (0, 7, 10, 2501, 4989):
            s3.requests.clear()
            at = time_of(batches[number].published_at - 700) if near else None
            found = log.holding(0, number * 10 + 5, at)
            assert found == batches[number]
            assert s3.requests["GET"] <= most
    assert log.holding(0, 50_000) is None
    assert log.holding(1, 5) is None
    # As of records that are dated ahead, or of a stream that was behind for days.
    assert log.holding(0, 25_015, time_of(NOON * 2)) == batches[2501]
    assert log.holding(0, 25_015, time_of(0)) == batches[2501]


@pytest.mark.parametrize("seed", range(12))
def test_every_batch_is_listed_once_whatever_crashes_and_is_restored(seed: int) -> None:
    history = History(seed)
    for number in range(150):
        history.step()
        if number % 5:
            continue
        line, log = history.main.line, history.reader()
        if not line:
            continue
        expected = [one.snapshot_id for one in reversed(line)]
        assert numbers(log) == expected
        every = [one.batch.snapshot_id for one in log.newest(1000)]
        assert len(every) == len(set(every))
        times = sorted(history.random.sample(range(NOON, history.now + 1), 2))
        begin, end = map(time_of, times)
        assert [one.batch.snapshot_id for one in log.newest(1000, begin, end) if not one.is_lost] == [
            one.snapshot_id for one in reversed(line) if times[0] <= one.published_at <= times[1]
        ]
        limit = history.random.randint(1, 30)
        assert log.newest(limit) == log.newest(1000)[:limit] or any(one.is_lost for one in log.newest(1000))
        sought = history.random.choice(line)
        (pair,) = sought.ranges[0]
        for near in (None, sought.published - timedelta(seconds=history.random.randint(0, 400))):
            assert log.holding(0, history.random.randrange(*pair), near) == sought


def test_a_snapshot_says_what_it_read_and_main_when_it_was_published(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    more = {"writer": "w3_a", "batch-id": "7", "started-at": "1"}
    lakes.append(lake, [(0, 0)], lakes.summary("epoch-start", 3, {0: 0}))
    summary = lakes.summary("batch", 3, {0: 3, 1: 2}, ranges={0: (0, 3), 1: (0, 2)}, more=more)
    lakes.append(lake, [(0, 0), (0, 2), (1, 0), (1, 1)], summary)
    table = lake.table(lakes.TABLE)
    log = BatchLog(table, Ledger(MemoryS3().as_client(), "s3://lake/raw/nyc_taxi", "batches"))
    ((number, found),) = log.on_main.items()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert (number, str(found.ranges)) == (snapshot.snapshot_id, "0=[0,3) 1=[0,2)")
    assert (found.batch_id, found.writer, found.epoch) == (7, "w3_a", 3)
    assert (found.rows, found.rejected, found.files) == (4, 1, 1)
    assert found.published_at == table.metadata.snapshot_log[-1].timestamp_ms
    assert found.seconds == (found.published_at - 1) / 1000
    assert [one.batch for one in log.newest(5)] == [found]
    assert Batch.from_json(found.to_json()) == found


@pytest.mark.parametrize("kept", [5, 400], ids=["in the log", "on main"])
def test_offsets_without_a_record_are_found_by_their_batches(kept: int) -> None:
    s3 = MemoryS3(page=1000)
    batches = [with_marker(batch(n, n * 10, n * 10 + 10)) for n in range(500)]
    for start in range(0, 500, 10):
        writers_log(s3).record(batches[start : start + 10])
    s3.requests.clear()
    log = readers_log(s3, batches[-kept:])
    asked = OffsetRanges.of({0: [(1002, 1025), (1090, 1120)], 1: [(0, 5)]})
    found = log.without_record(asked)
    assert found.offsets == OffsetRanges.of({0: [(n, n + 1) for n in (1009, 1019, 1099, 1109, 1119)]})
    # Mostly the search for its newest batch, which costs the logarithm of the history.
    assert s3.requests["GET"] <= (60 if kept == 5 else 25)


def test_a_lost_batch_says_nothing_of_the_offsets_that_were_read_again() -> None:
    """The catalog was restored to batch 9, and its successors have other offsets without a record."""
    s3 = MemoryS3()
    lost = [with_marker(batch(n, n * 10, n * 10 + 10)) for n in range(20)]
    writers_log(s3).record(lost[:10])
    writers_log(s3).record(lost[10:])
    again = [batch(n + 20, n * 10, n * 10 + 10, writer="w2_b") for n in range(10, 15)]
    writers_log(s3).note_restore(lost[:10], NOON + 19_500, "w2_b")
    writers_log(s3).record(again)
    log = readers_log(s3, [batch(40, 150, 160, writer="w2_b")])
    found = log.without_record(OffsetRanges.of({0: [(0, 200)]}))
    assert found.offsets == OffsetRanges.of({0: [(n, n + 1) for n in range(9, 100, 10)]})


def epoch_start(lake: Lake) -> None:
    lakes.append(lake, [], lakes.summary("epoch-start", 2, {0: 20}))


def another_programs(lake: Lake) -> None:
    foreign.rewrite(lake.catalog.load_table(lakes.TABLE))


@pytest.mark.parametrize("go_on", [epoch_start, another_programs])
def test_offsets_without_a_record_are_found_where_main_keeps_no_batch(
    tmp_path: Path, go_on: Callable[[Lake], None]
) -> None:
    """As after failovers of a stream that has no new records, or in a managed catalog."""
    lake, s3 = lakes.make(tmp_path), MemoryS3()
    documents = Ledger(s3.as_client(), "s3://lake/nyc_taxi", FOLDER)
    for start in (0, 10):
        said = lakes.summary("batch", 1, {0: start + 10}, ranges={0: (start, start + 10)})
        marker = WithoutRecord(OffsetRanges.of({0: [(start + 9, start + 10)]})).properties()
        lakes.append(lake, [(0, start + number) for number in range(9)], said | marker)
    found = list(BatchLog(lake.table(lakes.TABLE), documents).on_main.values())[::-1]
    documents.put(published_key(found), document_of(found))
    go_on(lake)
    table = lake.catalog.load_table(lakes.TABLE)
    table.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in found]).commit()
    log = BatchLog(lake.table(lakes.TABLE), documents)
    assert not log.on_main
    without = log.without_record(OffsetRanges.of({0: [(0, 30)]}))
    assert without.offsets == OffsetRanges.of({0: [(9, 10), (19, 20)]})


def test_batches_of_a_table_that_keeps_another_programs_snapshot_only_are_listed(tmp_path: Path) -> None:
    """As a managed catalog leaves it, which compacts and expires."""
    lake, s3 = lakes.make(tmp_path), MemoryS3()
    documents = Ledger(s3.as_client(), "s3://lake/nyc_taxi", FOLDER)
    for number in range(2):
        said = lakes.summary("batch", 1, {0: number + 1}, ranges={0: (number, number + 1)})
        lakes.append(lake, [(0, number)], said)
    found = list(BatchLog(lake.table(lakes.TABLE), documents).on_main.values())[::-1]
    documents.put(published_key(found), document_of(found))
    table = lake.catalog.load_table(lakes.TABLE)
    foreign.rewrite(table)
    older = [batch.snapshot_id for batch in found]
    table.maintenance.expire_snapshots().by_ids(older).commit()
    log = BatchLog(lake.table(lakes.TABLE), documents)
    assert not log.on_main
    assert numbers(log) == older[::-1]
    holding = log.holding(0, 1)
    assert holding is not None
    assert holding.snapshot_id == older[-1]
