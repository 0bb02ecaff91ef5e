"""A batch's rows by Spark's source and expressions, written by Iceberg's writer in the JVM."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from sluice.core.offsets.deduplication import LoadedRows
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.summary import LEADER_EPOCHS
from spark_jobs.common.consumer.batch_rows import Decode, decoded_rows, is_good, table_rows, without_withheld
from spark_jobs.common.consumer.rows import RowsOf
from spark_jobs.common.lake import deduplicate
from spark_jobs.common.lake.quarantine import malformed_in
from spark_jobs.common.lake.written.written_batch import WrittenBatch

if TYPE_CHECKING:
    from spark_jobs.common.consumer.writer import StreamWriter


def spark_rows(decode: Decode) -> RowsOf:
    """For the writer."""
    return lambda _, records: SparkRows(records, decode)


class SparkRows:
    """Implements :class:`rows.Rows`.

    ``epochs``: none, since Spark's source does not tell a record's leader epoch.
    """

    epochs: Mapping[int, int] = MappingProxyType({})

    def __init__(self, records: DataFrame, decode: Decode) -> None:
        self._rows = without_withheld(decoded_rows(records, decode))

    def flag_duplicates(self, loaded: LoadedRows, sources: set[str]) -> None:
        self._rows = deduplicate.flag_duplicates(self._rows, loaded, sources)

    def write(
        self, writer: StreamWriter, ranges: OffsetRanges, summary: Mapping[str, str], *, is_small: bool
    ) -> WrittenBatch:
        loaded = self._rows.where(is_good())
        if is_small and not writer.spec.partition_by:
            loaded = loaded.coalesce(1)
        said = {key: value for key, value in summary.items() if key != LEADER_EPOCHS}
        writer.write_branch(table_rows(loaded), said)
        files = writer.table.added_files(writer.head)
        count = max(ranges.count - sum(file.stats.records for file in files), 0)
        if not count:
            return WrittenBatch(files, [], writer.offset_reader)
        # Decoded once for both the count, which its commit has, and the write; on disk, for it may be all.
        bad = self._rows.where(~is_good()).persist(StorageLevel.DISK_ONLY)
        try:
            malformed = malformed_in(bad)
            before, after = writer.rejections(count, summary, malformed.count)
            staged = writer.quarantine.stage(bad, writer.branch, before, after, malformed.newest)
        finally:
            bad.unpersist()
        return WrittenBatch(files, staged, writer.offset_reader, malformed.count)
