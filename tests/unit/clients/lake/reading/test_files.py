"""What files hold, from metadata alone and by column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyiceberg.expressions import AlwaysTrue, And, EqualTo, GreaterThan
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import FileScanTask

from sluice.clients.lake import counting
from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.reading import data_files, files
from sluice.core.offsets.ranges import OffsetRanges
from tests.support import lake as lakes
from tests.support.counted import listed


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
    found = files.file_stats(table, files.committed_since(table, 0))
    assert sorted(
        (f.partition_lower, f.partition_upper, f.offset_lower, f.offset_upper, f.records) for f in found
    ) == [(0, 0, 0, 9, 10), (0, 1, 8, 10, 2), (1, 1, 5, 7, 3)]


def test_a_file_with_deletes_is_not_settled_by_its_metadata(lake: Lake) -> None:
    table = lake.table(lakes.TABLE)
    task = files.committed_since(table, 0)[0]
    (stats,) = files.file_stats(table, [FileScanTask(task.file, delete_files={task.file})])
    assert (stats.partition_lower, stats.offset_lower, stats.records) == (None, None, task.file.record_count)
    assert not stats.is_conclusive


def test_only_manifests_that_are_newer_are_read(lake: Lake) -> None:
    table = lake.table(lakes.TABLE)
    with counted_manifests() as read:
        assert len(files.committed_since(table, 2)) == 1
    assert len(read) == 1
    assert len(files.committed_since(table, 0)) == 3
    assert files.committed_since(table, 3) == []


@contextmanager
def counted_manifests() -> Iterator[list[str]]:
    """The manifests whose entries are read meanwhile."""
    read: list[str] = []
    fetch = ManifestFile.fetch_manifest_entry

    def counting(manifest: ManifestFile, *given: Any, **named: Any) -> Any:
        read.append(manifest.manifest_path)
        return fetch(manifest, *given, **named)

    with patch.object(ManifestFile, "fetch_manifest_entry", counting):
        yield read


def test_columns_are_read_of_the_named_files_only(lake: Lake) -> None:
    table = lake.table(lakes.TABLE)
    tasks = files.committed_since(table, 0)
    stats = files.file_stats(table, tasks)
    mixed = [
        task for task, file in zip(tasks, stats, strict=True) if file.partition_lower != file.partition_upper
    ]
    assert len(mixed) == 1
    assert listed(counting.count_offsets(table, mixed)) == {0: [10], 1: [8]}
    some = counting.count_offsets(table, tasks, GreaterThan(files.OFFSET, 8))
    assert listed(some) == {0: [9, 10]}


@pytest.mark.parametrize("files_at_once", [1, 2, 3])
def test_many_files_are_read_a_few_at_a_time(
    lake: Lake, files_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_files, "FILES_AT_ONCE", files_at_once)
    table = lake.table(lakes.TABLE)
    tasks = files.committed_since(table, 0)
    rows = (
        files.read(table, AlwaysTrue(), (files.PARTITION, files.OFFSET), tasks=tasks).read_all().to_pylist()
    )
    found = [(row[files.PARTITION], row[files.OFFSET]) for row in rows]
    assert sorted(found) == [(0, offset) for offset in range(11)] + [(1, offset) for offset in range(5, 9)]


def test_rows_by_source_come_from_one_read_of_each_file(lake: Lake) -> None:
    table = lake.table(lakes.TABLE)
    tasks = files.committed_since(table, 0)
    with patch.object(files, "read", wraps=files.read) as read:
        found = counting.rows_by_source(table, ["c" * 16, "b" * 16, "a" * 16], tasks)
    assert listed(found) == {"a" * 16: list(range(10)), "b" * 16: [5, 6, 7]}
    assert found["c" * 16].values == 0
    assert read.call_count == 1


def test_files_whose_bounds_exclude_a_source_are_not_read(lake: Lake) -> None:
    table = lake.table(lakes.TABLE)
    with patch.object(files, "read", wraps=files.read) as read:
        found = counting.rows_by_source(table, ["b" * 16])
    assert listed(found) == {"b" * 16: [5, 6, 7]}
    # Its own, and the one that has no source and so no bounds.
    assert len(read.call_args.kwargs["tasks"]) == 2


def test_a_file_of_many_sources_has_the_rows_of_each(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    rows = [(source * 16, row) for row in range(4) for source in "abc"]
    data = [
        {"fare_amount": 1.0, "_kafka_partition": 0, "_kafka_offset": n, "_source_id": s, "_source_row": row}
        for n, (s, row) in enumerate(rows)
    ]
    lake.catalog.load_table(lakes.TABLE).append(pa.Table.from_pylist(data, schema=lakes.ROWS))
    table = lake.table(lakes.TABLE)
    found = counting.rows_by_source(table, ["a" * 16, "c" * 16])
    assert listed(found) == {"a" * 16: [0, 1, 2, 3], "c" * 16: [0, 1, 2, 3]}


def test_an_empty_table_has_no_files_and_no_rows(tmp_path: Path) -> None:
    table = lakes.make(tmp_path).table(lakes.TABLE)
    assert files.committed_since(table, 0) == []
    assert not counting.rows_by_source(table, ["b" * 16], [])


def test_what_was_written_is_a_manifest_list_and_newer_manifests_with_their_files(lake: Lake) -> None:
    table = lake.table(lakes.TABLE)
    head = table.current_snapshot()
    assert head is not None
    listed, manifest, data = files.written_since(table, 2)
    assert (listed.uri, listed.size) == (head.manifest_list, None)
    for one in (manifest, data):
        assert Path(one.uri.removeprefix("file://")).stat().st_size == one.size
    assert len(files.written_since(table, 0)) == 7
    assert files.written_since(table, 3) == []


def test_quarantined_rows_come_without_their_bytes(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    row = {"stage": "consumer", "reason": "r", "_kafka_partition": 0, "_kafka_offset": 3}
    lakes.quarantine(lake, [row, {**row, "_kafka_partition": 1}])
    table = lake.table(lakes.QUARANTINE)
    rows = And(EqualTo("stage", "consumer"), files.overlapping(OffsetRanges.of({0: [(0, 9)]})))
    (found,) = files.quarantined(table, rows)
    assert (found["_kafka_offset"], found["reason"]) == (3, "r")


def test_a_file_with_rows_of_the_producer_is_not_conclusive_by_its_bounds(tmp_path: Path) -> None:
    # Consumer's rows at 5 and 9 and three of the producer: five rows between 5 and 9.
    lake = lakes.make(tmp_path)
    row: dict[str, object] = {"stage": "consumer", "reason": "bad", "_kafka_partition": 0}
    rejected = [{"stage": "producer", "reason": "bad", "_source_row": number} for number in range(3)]
    lakes.quarantine(lake, [{**row, "_kafka_offset": 5}, *rejected, {**row, "_kafka_offset": 9}])
    table = lake.table(lakes.QUARANTINE)
    (stats,) = files.file_stats(table, files.committed_since(table, 0))
    assert not stats.is_conclusive
    assert stats.may_contain(OffsetRanges.of({0: [(9, 10)]}))
