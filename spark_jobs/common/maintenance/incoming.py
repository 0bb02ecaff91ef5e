"""The records that come with a change: read, decoded as by the consumer, written, and each accounted for."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.platform import Platform
from sluice.config.stream import StreamSpec
from sluice.core.changes.plan import ChangePlan
from sluice.core.decoding.decoder import RecordDecoder
from sluice.core.decoding.texts import printable
from sluice.core.offsets.deduplication import LoadedRows, loaded_from, possible_duplicates
from sluice.core.offsets.quarantine import DUPLICATE, WITHHELD
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.verify import needs_read, verify
from spark_jobs.common.consumer.decoded_rows import Decode, decoded_rows, is_good, table_rows
from spark_jobs.common.consumer.writer import SMALL_BATCH
from spark_jobs.common.lake import deduplicate
from spark_jobs.common.lake.written.read_offsets import COLUMNS, OffsetReader, by_partition
from spark_jobs.common.lake.written.written_batch import WrittenBatch
from spark_jobs.common.maintenance.change_records import check_as_quarantined, records_to_load
from spark_jobs.common.maintenance.changed_stream import ChangedStream, ChangeRefused
from spark_jobs.common.maintenance.staged_change import StagedChange, TableFile, Touched

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StagedRecords:
    """What is staged to come. ``files``: data files of the table; ``written``: the same, with the rows of
    sources in them; ``rejected``: offsets of the rejected records; ``bad``: these records with their reasons.
    ``recovered``: offsets of the records that were read from the quarantine."""

    files: list[TableFile]
    written: WrittenBatch
    rejected: OffsetRanges
    bad: DataFrame
    recovered: OffsetRanges = field(default_factory=OffsetRanges)


class IncomingRecords:
    """The records of a plan that come to a stream's table."""

    def __init__(
        self,
        spark: SparkSession,
        platform: Platform,
        spec: StreamSpec,
        decode: Decode | RecordDecoder,
        plan: ChangePlan,
        stream: ChangedStream,
        reader: OffsetReader,
    ) -> None:
        self.spark, self.platform, self.spec, self.decode, self.plan = spark, platform, spec, decode, plan
        self.stream, self.reader = stream, reader

    def load(self, staged: StagedChange, touched: Touched) -> StagedRecords:
        """Read, decode and write the records; verify that each is written or rejected once."""
        self.stream.check_topic(self.stream.now())
        records, recovered = records_to_load(
            self.spark, self.platform.kafka, self.spec, self.plan, self.reader
        )
        before = self.stream.removed_before(self.stream.now())
        removed = before.rows_out_of(self.plan)
        rows = self._decoded(records, removed, None if self.plan.withheld else ())
        coming = self._write(staged, rows)
        if not self.plan.withheld and (published := self._published_of_withheld(staged, coming)):
            rows = self._decoded(records, removed, published)
            coming = self._write(staged, rows)
        # The rows of these sources that stay in the table; and of a reverted one, of which none is to come.
        sources_in = {run.source_id for run in coming.written.runs}
        reverted = sources_in & before.reverted_sources_out_of(self.plan)
        loaded = loaded_from(staged.runs_of(sources_in, touched.offsets)).union(
            LoadedRows.all_of(reverted, self.plan.rows_in.partitions)
        )
        if sources := possible_duplicates(loaded, coming.written.runs):
            log.warning("possible duplicates sources=%s; comparing rows", ",".join(sorted(sources)))
            rows = deduplicate.flag_duplicates(rows, loaded, sources)
            coming = self._write(staged, rows)
        stats = [one.stats for one in coming.files]
        paths = [file.path for file in needs_read(self.plan.rows_in, stats)]
        found = verify(self.plan.rows_in, stats, coming.written.offsets(paths), quarantined=coming.rejected)
        if not found.is_ok:
            raise ChangeRefused(
                f"{self.spec.table}: the records that come: {found.message()}; nothing was changed. Fix: "
                "trigger it again: what a compacted topic lost since it was planned is seen then"
            )
        self._check_not_lost(coming, touched)
        check_as_quarantined(staged, coming.files, rows, recovered.minus(coming.rejected))
        return replace(coming, recovered=recovered)

    def _decoded(
        self, records: DataFrame, removed: Collection[tuple[str, int]], published: Collection[str] | None
    ) -> DataFrame:
        """A row that is withheld says so, whether or not a change removed it."""
        keeps_fields = self.spec.records is not None and bool(self.spec.records.unknown_column)
        rows = decoded_rows(records, self.decode, published, keeps_fields=keeps_fields)
        return deduplicate.flag_removed(rows, removed) if removed else rows

    def _write(self, staged: StagedChange, rows: DataFrame) -> StagedRecords:
        good = table_rows(rows.where(is_good()))
        if self.plan.rows_in.count <= SMALL_BATCH and not self.spec.partition_by:
            good = good.coalesce(1)
        files = staged.written(good) if self.plan.rows_in else []
        written = staged.batch(files)
        bad = rows.where(~is_good())
        if sum(one.stats.records for one in files) == self.plan.rows_in.count:
            return StagedRecords(files, written, OffsetRanges(), bad)
        found = by_partition(bad.select(*COLUMNS).toArrow())
        rejected = OffsetRanges.of_values(found)
        return StagedRecords(files, written, rejected, bad)

    def _published_of_withheld(self, staged: StagedChange, coming: StagedRecords) -> set[str]:
        """Return the sources whose records were rejected as withheld, but which a change has published."""
        if not coming.rejected:
            return set()
        withheld = coming.bad.where(F.col("reason").startswith(WITHHELD)).select("_source_id").distinct()
        sources = {row["_source_id"] for row in withheld.collect()}
        return {run.source_id for run in staged.runs_of(sources, OffsetRanges())} if sources else set()

    def _check_not_lost(self, coming: StagedRecords, touched: Touched) -> None:
        lost = coming.rejected.intersect(touched.offsets)
        if not lost:
            return
        others = coming.bad.where(~F.col("reason").startswith(DUPLICATE))
        for partition, offset, reason in others.select(*COLUMNS, "reason").toLocalIterator():
            if offset in lost[partition]:
                raise ChangeRefused(
                    f"{self.spec.table}: {lost.count} records are published and would be rejected now, the "
                    f"first: {self.plan.topic} partition {partition} offset {offset}: {printable(reason)}; "
                    "nothing was changed. Fix: correct the schema or the decoder, or leave them out"
                )
