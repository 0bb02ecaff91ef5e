"""A listed file says what PyIceberg's does, and takes a fraction of its memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
)
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.reading import files
from sluice.clients.lake.snapshots import table_diff
from sluice.clients.lake.snapshots.digest import digest_of
from sluice.clients.lake.snapshots.listed_file import ListedFiles, entries
from tests.support import lake as lakes

ASKED = (
    "content", "file_path", "file_format", "partition", "spec_id", "record_count", "file_size_in_bytes",
    "column_sizes",
)  # fmt: skip
COLUMNS = range(1, 25)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = lakes.make(tmp_path)
    lakes.append(made, [(0, 0), (0, 1)])
    lakes.append(made, [(1, 5), (0, 7)])
    row: dict[str, Any] = dict.fromkeys(lakes.BAD_ROWS.names)
    # A producer's row has no offset.
    lakes.quarantine(made, [{**row, "stage": "producer", "reason": "r"}])
    return made


@pytest.mark.parametrize("name", [lakes.TABLE, lakes.QUARANTINE])
def test_it_says_what_pyiceberg_s_says(lake: Lake, name: str) -> None:
    table = lake.table(name)
    diff = table_diff.diff(table, None)
    assert diff is not None
    snapshot = table.current_snapshot()
    assert snapshot is not None
    theirs = {
        entry.data_file.file_path: entry
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io)
    }
    assert {one.file.file_path for one in diff.added} == set(theirs)
    for one in diff.added:
        entry = theirs[one.file.file_path]
        assert [getattr(one.file, name) for name in ASKED] == [getattr(entry.data_file, n) for n in ASKED]
        assert (one.snapshot_id, one.sequence_number) == (entry.snapshot_id, entry.file_sequence_number)
    plain = [theirs[one.file.file_path].data_file for one in diff.added]
    listed = [one.file for one in diff.added]
    assert table_diff.stats_of(table, listed) == table_diff.stats_of(table, plain)
    columns = table.schema().column_names[:3]
    assert digest_of(table, listed, columns) == digest_of(table, plain, columns)


def test_rows_are_read_from_it(lake: Lake) -> None:
    table = lake.table(lakes.TABLE)
    diff = table_diff.diff(table, None)
    assert diff is not None
    batches = table_diff.read(
        table, [one.file for one in diff.added], EqualTo(files.PARTITION, 0), (files.OFFSET,)
    )
    assert sorted(value for batch in batches for value in batch[0].to_pylist()) == [0, 1, 7]


def many(table: Table, folder: Path, number: int) -> Any:
    """A manifest of so many files of 24 columns."""
    bounds = {key: (key * 1_000_003).to_bytes(8, "little") for key in COLUMNS}
    output = table.io.new_output(f"file://{folder}/many.avro")
    with write_manifest(2, table.spec(), table.schema(), output, 1, "deflate") as writer:
        for n in range(number):
            file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=f"s3://warehouse/lake/raw/nyc_taxi/data/{n:064d}.parquet",
                file_format=FileFormat.PARQUET,
                partition=Record(),
                record_count=1_000 + n,
                file_size_in_bytes=100_000 + n,
                column_sizes={key: 1_000 * n + key for key in COLUMNS},
                value_counts=dict.fromkeys(COLUMNS, 1_000 + n),
                null_value_counts=dict.fromkeys(COLUMNS, 0),
                nan_value_counts=dict.fromkeys(COLUMNS, 0),
                lower_bounds=bounds,
                upper_bounds=bounds,
                key_metadata=None,
                split_offsets=[4],
                equality_ids=None,
                sort_order_id=0,
            )
            file.spec_id = 0
            entry = ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=1, sequence_number=1, data_file=file
            )
            writer.add_entry(entry)
    return writer.to_manifest_file()


def test_thousands_of_files_take_a_kilobyte_each(lake: Lake, tmp_path: Path) -> None:
    """PyIceberg's took seven, and it makes a list of a manifest's."""
    table, number = lake.table(lakes.TABLE), 2_000
    manifest = many(table, tmp_path, number)
    tracemalloc.start()
    try:
        listed = ListedFiles(table)
        found = [listed.of(entry.data_file) for entry in entries(table.io, manifest)]
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found[-1].column_sizes == {key: 1_000 * (number - 1) + key for key in COLUMNS}
    assert kept < 1_000 * number
    # A block of entries beside them.
    assert peak < kept + 2_000_000
