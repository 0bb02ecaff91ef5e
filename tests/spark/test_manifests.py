"""The manifests of a stream's table: what a batch writes of them does not follow the number of batches."""

from __future__ import annotations

import os
from typing import Any, cast

from pyspark.sql import SparkSession

from sluice.config.platform_sections.lake import CATALOG
from tests.support.lakehouse import Stream

# Instead of 100 commits.
MERGED_AT = 5
# Random names, since manifests are compressed: 2 MB.
LONG_NAMES, LONG_NAME_BYTES = 300, 8_000
MEGABYTE = 1024 * 1024


def test_a_manifest_of_a_megabyte_is_not_written_again(spark: SparkSession, stream: Stream) -> None:
    spark.sql(
        f"ALTER TABLE {CATALOG}.{stream.spec.table} "
        f"SET TBLPROPERTIES ('commit.manifest.min-count-to-merge' = '{MERGED_AT}')"
    )
    iceberg = cast("Any", spark._jvm).org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"{CATALOG}.{stream.spec.table}")

    def append(*names: str) -> dict[str, int]:
        """Commit files that are never read; path -> bytes of all manifests."""
        commit = table.newAppend()
        for name in names:
            file = iceberg.DataFiles.builder(table.spec()).withPath(f"{table.location()}/data/{name}.parquet")
            commit.appendFile(file.withFileSizeInBytes(1).withRecordCount(1).build())
        commit.commit()
        manifests = table.currentSnapshot().allManifests(table.io())
        return {str(manifest.path()): int(manifest.length()) for manifest in manifests}

    first = append(*(os.urandom(LONG_NAME_BYTES // 2).hex() for _ in range(LONG_NAMES)))
    large = {path for path, size in first.items() if size >= MEGABYTE}
    assert large
    counts = []
    for number in range(2 * MERGED_AT):
        found = append(str(number))
        assert large <= found.keys(), f"written again by commit {number}"
        counts.append(len(found))
    assert min(counts[1:]) < max(counts), "the small ones are merged"
