"""The quarantine's part of a change: records that it rejects come, and records that it publishes go.

As with a batch, it is staged on a branch, and published after the table: a published record outranks its row
here until then. The branch has the epoch of the stream's writer, so if the change ends between both, the
writer publishes it when it acquires its lease again, which the change makes it do.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from sluice.config.stream import StreamSpec
from sluice.core.offsets.quarantine import CONSUMER_STAGE, Rejections
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.summary import KIND, WRITER
from sluice.core.tables.writers import writer_name
from spark_jobs.common.lake.iceberg import MAIN, CommitRefused
from spark_jobs.common.lake.quarantine import REJECTED_COLUMNS, BatchQuarantine, of_stage
from spark_jobs.common.lake.writer_lease import MAX_ATTEMPTS, ConcurrentCommit
from spark_jobs.common.lake.written.read_offsets import COLUMNS, OffsetReader
from spark_jobs.common.maintenance.staged_change import StagedChange, TableFile, Touched
from spark_jobs.common.spark.columns import is_at, offset_masks

log = logging.getLogger(__name__)

FINISH_SECONDS = 30


class ChangeQuarantine(BatchQuarantine):
    """The quarantine of a stream, for a change of its table."""

    def __init__(self, spark: SparkSession, spec: StreamSpec, reader: OffsetReader) -> None:
        super().__init__(spark, spec)
        self._reader = reader
        self._staged_for: tuple[Rejections, int] | None = None
        self._after, self._left = Rejections(), Touched()
        self._own = ""
        # For which files, offsets and rows that come.
        self._written: tuple[tuple[list[str], OffsetRanges], DataFrame, list[TableFile]] | None = None

    def stage_change(
        self,
        change_id: str,
        epoch: int,
        before: Rejections,
        leaving: OffsetRanges,
        rejected: OffsetRanges,
        bad: DataFrame,
    ) -> tuple[Rejections, Touched]:
        """Stage what the change does here; return the stream's rejections after it, and what leaves.

        ``before``: those of the stream, whose writer has ``epoch``. ``leaving``: offsets of records that go;
        ``bad``: the decoded rows of ``rejected``. Raises ConcurrentCommit while the quarantine does not hold
        ``before``.
        """
        self.table.refresh()
        # Its tables may have been restored since.
        if self._staged_for == (before, epoch) and self._staged(self._own, self._after) is not None:
            return self._after, self._left
        self.drop()
        with StagedChange(self.spark, self.name, self._reader) as staged:
            # Also a record that is there comes again, with the reason that it has now.
            left, coming = staged.touched(leaving.union(rejected)), rejected
            if not left.rows and not coming:
                # Another attempt may have published the change, and what left: as of the files, or later.
                self.table.refresh()
                self.check_holds(before)
                return before, left
            branch = writer_name(epoch)
            start = self._branch(branch, before)
            if start != staged.base and staged.base is not None:
                raise self._moved("another commit came while the change was staged")
            after = replace(
                self.with_malformed(before),
                count=before.count + coming.count - left.rows,
                batch=f"change/{change_id}-{branch}",
            )
            files = self._files(staged, left, coming, bad)
            properties = {WRITER: branch, **after.properties()}
            staged.commit_to(branch, start, left.files, files, properties)
        self._own, self._after, self._left, self._staged_for = branch, after, left, (before, epoch)
        log.info("change staged in the quarantine: %d come, %d go", coming.count, left.rows)
        return after, left

    def _branch(self, writer: str, rejected: Rejections) -> int:
        """Begin the writer's branch at ``main``, which holds ``rejected``, and whose first snapshot may have
        to be made."""
        for _ in range(MAX_ATTEMPTS):
            # In every attempt: the writer may have been suspended, and its stream restored to its state.
            self.check_holds(rejected)
            main = self.table.head(MAIN)
            start = self.table.stage({KIND: "init"}) if main is None else main
            try:
                self.table.change_refs({MAIN: main}, {MAIN: start, writer: start})
                return start if isinstance(start, int) else start.id
            except CommitRefused:
                self.table.refresh()
        raise self._moved("its main moves too often")

    def _files(
        self, staged: StagedChange, left: Touched, coming: OffsetRanges, bad: DataFrame
    ) -> list[TableFile]:
        """The rows that stay of the files that are exchanged, and those that come. Written once, though the
        stream rejects records with every batch: these are in other files."""
        paths = [one.stats.path for one in left.files], left.offsets
        if self._written is not None and self._written[0] == paths and self._written[1] is bad:
            return self._written[2]
        kept = []
        if left.partial:
            kept = staged.written(staged.rows_without(left.partial, left.offsets).repartition(1))
        added = []
        if coming:
            rows = bad.join(offset_masks(self.spark, coming), is_at(*COLUMNS), "left_semi")
            chosen = rows.select(*REJECTED_COLUMNS)
            added = staged.written(of_stage(self.spark, self.name, chosen, CONSUMER_STAGE))
        found = sum(one.stats.records for one in kept), sum(one.stats.records for one in added)
        if found != (left.kept_rows, coming.count):
            raise ConcurrentCommit(
                f"{self.name}: {found} rows were staged, expected {(left.kept_rows, coming.count)}"
            )
        self._written = paths, bad, [*kept, *added]
        return self._written[2]

    def drop(self) -> None:
        """Remove the branch of what was staged and will not be published."""
        if self._own:
            self.table.refresh()
            head = self.table.head(self._own)
            try:
                if head is not None:
                    self.table.change_refs({self._own: head}, {self._own: None})
            except CommitRefused as refusal:
                # The stream's writer removes it when it acquires its lease the next time.
                log.info("branch %s not removed: %s", self._own, refusal)
        self._own, self._staged_for = "", None

    def finish(self, rejected: Rejections) -> None:
        """Publish what is staged of a published change, unless the stream's writer has. ``rejected``: of the
        stream, after the change. Raises ConcurrentCommit if neither does it in FINISH_SECONDS."""
        for _ in range(FINISH_SECONDS):
            self.table.refresh()
            if self.table.head(MAIN) is None or self._held() == rejected:
                return
            pending = next((n for n in self.table.branches() if self._staged(n, rejected) is not None), None)
            if pending is None:
                # The stream's writer has published it, and more since.
                return
            try:
                self.publish(pending, rejected)
            except ConcurrentCommit as moved:
                log.info("the stream's writer may have done it: %s", moved)
                time.sleep(1)
        raise self._moved(f"does not take what is staged for {rejected.batch}; start the stream's consumer")
