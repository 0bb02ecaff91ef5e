"""A staged snapshot is compared with what the tasks wrote."""

from __future__ import annotations

import pytest

from spark_jobs.common.lake.data_files.parquet_file import DataFile
from spark_jobs.common.lake.iceberg import SnapshotDiffers, check_added

FILES = [
    DataFile("s3://lake/a.parquet", 1_000, 30, b"", ()),
    DataFile("s3://lake/b.parquet", 500, 12, b"", ()),
]
SUMMARY = {"added-data-files": "2", "added-records": "42", "added-files-size": "1500", "sluice.kind": "batch"}


def test_a_snapshot_with_all_files_and_records_is_accepted() -> None:
    check_added("raw.trips", SUMMARY, FILES)


@pytest.mark.parametrize("name", ["added-data-files", "added-records", "added-files-size"])
@pytest.mark.parametrize("value", [None, "41"])
def test_a_count_that_differs_or_is_missing_is_named(name: str, value: str | None) -> None:
    summary = {key: found for key, found in SUMMARY.items() if key != name}
    summary |= {name: value} if value else {}
    with pytest.raises(
        SnapshotDiffers, match=rf"raw.trips: .*'{name}': {value or 0}\b.*nothing was committed"
    ):
        check_added("raw.trips", summary, FILES)
