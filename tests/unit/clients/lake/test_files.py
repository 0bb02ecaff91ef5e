"""What files hold, from metadata alone and by column."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.expressions import And, EqualTo
from pyiceberg.table import FileScanTask

from sluice.clients.lake import files
from sluice.clients.lake.catalog import Lake
from sluice.model.verification.ranges import OffsetRanges
from tests.support import lake as lakes


def three_files(folder: Path) -> Lake:
    lake = lakes.make(folder)
    lakes.append(lake, [(0, offset) for offset in range(10)])
    lakes.append(lake, [(1, offset) for offset in range(5, 8)], source="b" * 16)
    lakes.append(lake, [(0, 10), (1, 8)], source=None)
    return lake


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Read, and never written to: one for all."""
    return three_files(tmp_path_factory.mktemp("lake"))


def test_stats_are_the_manifests_bounds(lake: Lake) -> None:
    table = lake.table(lakes.TABLE)
    found = files.file_stats(table, files.plan(table, files.overlapping(OffsetRanges.of({0: [(0, 5)]}))))
    assert [
        (f.partition_lower, f.partition_upper, f.offset_lower, f.offset_upper, f.records) for f in found
    ] == [(0, 0, 0, 9, 10)]


def test_a_file_with_deletes_is_not_settled_by_its_metadata(lake: Lake) -> None:
    table = lake.table(lakes.TABLE)
    (task,) = files.plan(table, files.overlapping(OffsetRanges.of({0: [(0, 5)]})))
    (stats,) = files.file_stats(table, [FileScanTask(task.file, delete_files={task.file})])
    assert (stats.partition_lower, stats.offset_lower, stats.records) == (None, None, 10)
    assert not stats.is_conclusive(OffsetRanges())


def test_nothing_expected_means_no_file(lake: Lake) -> None:
    assert files.plan(lake.table(lakes.TABLE), files.overlapping(OffsetRanges())) == []


def test_many_ranges_find_every_file(lake: Lake) -> None:
    table = lake.table(lakes.TABLE)
    wanted = OffsetRanges.of({0: [(0, 1), (10, 11)], 1: [(6, 7)]})
    assert len(files.plan(table, files.overlapping(wanted))) == 3


def test_columns_are_read_of_the_named_files_only(lake: Lake) -> None:
    table = lake.table(lakes.TABLE)
    tasks = files.plan(table, files.overlapping(OffsetRanges.of({0: [(0, 99)], 1: [(0, 99)]})))
    mixed = [
        file.path for file in files.file_stats(table, tasks) if file.partition_lower != file.partition_upper
    ]
    assert len(mixed) == 1
    found = files.read_offsets(table, tasks, mixed)
    assert {partition: list(offsets) for partition, offsets in found.items()} == {0: [10], 1: [8]}


@pytest.mark.parametrize("files_at_once", [1, 2, 3])
def test_many_files_are_read_a_few_at_a_time(
    lake: Lake, files_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "FILES_AT_ONCE", files_at_once)
    table = lake.table(lakes.TABLE)
    tasks = files.plan(table, files.overlapping(OffsetRanges.of({0: [(0, 99)], 1: [(0, 99)]})))
    rows = files.offsets(table, tasks).read_all().to_pylist()
    found = [(row[files.PARTITION], row[files.OFFSET]) for row in rows]
    assert sorted(found) == [(0, offset) for offset in range(11)] + [(1, offset) for offset in range(5, 9)]


def test_rows_of_one_source(lake: Lake) -> None:
    assert sorted(files.source_rows(lake.table(lakes.TABLE), "b" * 16)) == [5, 6, 7]


def test_an_empty_table_has_no_files_and_no_rows(tmp_path: Path) -> None:
    table = lakes.make(tmp_path).table(lakes.TABLE)
    assert files.plan(table, files.overlapping(OffsetRanges.of({0: [(0, 1)]}))) == []
    assert list(files.source_rows(table, "b" * 16)) == []
    assert files.known_files(table) == set()


def test_known_files_are_those_of_every_snapshot(tmp_path: Path) -> None:
    lake = three_files(tmp_path)
    before = files.known_files(lake.table(lakes.TABLE))
    assert len(before) == 3
    lake.catalog.load_table(lakes.TABLE).delete("_kafka_partition = 1 and _kafka_offset < 8")
    after = lake.table(lakes.TABLE)
    assert before <= files.known_files(after)
    assert list(files.source_rows(after, "b" * 16)) == []


def test_versions_written_are_files_manifests_and_the_list(lake: Lake) -> None:
    table = lake.table(lakes.TABLE)
    head = table.current_snapshot()
    assert head is not None
    assert files.versions_written(table, head.snapshot_id) == 3
    with pytest.raises(KeyError):
        files.versions_written(table, 1)


def test_quarantined_rows_come_without_their_bytes(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    row = {"stage": "consumer", "reason": "r", "_kafka_partition": 0, "_kafka_offset": 3}
    lakes.quarantine(lake, [row, {**row, "_kafka_partition": 1}])
    table = lake.table(lakes.QUARANTINE)
    rows = And(EqualTo("stage", "consumer"), files.overlapping(OffsetRanges.of({0: [(0, 9)]})))
    (found,) = files.quarantined(table, rows)
    assert (found["_kafka_offset"], found["reason"]) == (3, "r")
