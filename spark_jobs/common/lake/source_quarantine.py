"""Source rows that the producer rejects, in the quarantine table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config.platform import Platform
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.stream import StreamSpec
from sluice.core.offsets.quarantine import PRODUCER_STAGE
from sluice.core.tables.file_removal import MAX_WRITE_AGE
from sluice.core.tables.summary import KIND
from sluice.core.tables.writers import is_producer, producer_name
from spark_jobs.common.lake import known_tables, tables
from spark_jobs.common.lake.clock import now_ms
from spark_jobs.common.lake.iceberg import MAIN, CommitRefused
from spark_jobs.common.lake.quarantine import Quarantine, of_stage
from spark_jobs.common.lake.write import on_branch, write_rows
from spark_jobs.common.lake.writer_lease import MAX_ATTEMPTS, check_age

_ROW = ["_source_id", "_source_row"]


class SourceQuarantine(Quarantine):
    """Source rows that a producer rejects, each once over all attempts, on a branch of its own.

    A producer that ends before it publishes leaves its branch; one that begins when it may no longer be
    published removes it.
    """

    def __init__(self, spark: SparkSession, spec: StreamSpec, sources: Sequence[str]) -> None:
        super().__init__(spark, spec)
        self.branch, self._sources = producer_name(), sources

    def add(self, rows: DataFrame) -> None:
        """Publish the rows that ``main`` lacks. Raises ConcurrentCommit if it moves too often, if the branch
        was removed, or if the write took so long that its files may be gone."""
        for _ in range(MAX_ATTEMPTS):
            began = now_ms()
            main, start = self._begin()
            rows_of_stage = of_stage(self.spark, self.name, self._missing(rows), PRODUCER_STAGE)
            write_rows(self.table, self.branch, rows_of_stage, {KIND: "producer"})
            if self._publish(main, start, began):
                return
        raise self._moved("other producers quarantine rows of the same sources")

    def _begin(self) -> tuple[int | None, int]:
        """Set the branch to a new empty snapshot on top of ``main``, and remove old ones of other producers;
        return the heads of ``main`` and of the branch."""
        for _ in range(MAX_ATTEMPTS):
            self.table.refresh()
            main = self.table.head(MAIN)
            # A snapshot of its own, whose time is that of the branch.
            start = self.table.stage({KIND: "producer"})
            try:
                refs = dict.fromkeys(self._abandoned()) | {self.branch: start}
                self.table.change_refs({MAIN: main}, refs)
            except CommitRefused:
                continue
            return main, start.id
        raise self._moved("its main moves too often")

    def _abandoned(self) -> list[str]:
        before = now_ms() - MAX_WRITE_AGE // timedelta(milliseconds=1)
        names = [name for name in self.table.branches() if is_producer(name)]
        return [name for name in names if next(self.table.snapshots(name)).at_ms < before]

    def _publish(self, main: int | None, start: int, began: int) -> bool:
        """Move ``main``; False if another producer has published some of the rows since ``main``."""
        self.table.refresh()
        staged = self.table.head(self.branch)
        # Iceberg makes a branch that is missing, from main as it is by now.
        if staged is None or self.table.parent(staged) != start:
            raise self._moved(f"branch {self.branch} was changed")
        for _ in range(MAX_ATTEMPTS):
            check_age(self.name, began)
            if self.table.head(self.branch) != staged:
                raise self._moved(f"branch {self.branch} was removed, or published without an answer")
            head = self.table.head(MAIN)
            if head != main and self._is_repeated(staged):
                return False
            try:
                self._move_main(head, self.branch, staged, staged)
                return True
            except CommitRefused:
                self.table.refresh()
        raise self._moved("its main moves too often")

    def _missing(self, rows: DataFrame) -> DataFrame:
        return rows.join(self._rows(on_branch(self.name, self.branch)).select(_ROW), _ROW, "left_anti")

    def _is_repeated(self, staged: int) -> bool:
        """Whether ``main``, which may have moved further, has one of the rows that are staged."""
        files = F.col("_file").isin(self.table.added_paths(staged))
        added = self._rows(on_branch(self.name, self.branch)).where(files).select(_ROW)
        published = self._rows(f"{CATALOG}.{self.name}").select(_ROW)
        return not added.join(published, _ROW, "left_semi").isEmpty()

    def _rows(self, name: str) -> DataFrame:
        of_sources = (F.col("stage") == PRODUCER_STAGE) & F.col("_source_id").isin(*self._sources)
        return self.spark.table(name).where(of_sources)


def quarantine_rows(
    spark: SparkSession, platform: Platform, spec: StreamSpec, bad: DataFrame, sources: Sequence[str]
) -> None:
    """Quarantine source rows that the producer rejected, each once over all attempts; the first makes the
    table. Raises TableLost or TableReplaced instead, if there was one.

    ``bad`` has ``object``, ``source_id``, ``row``, ``line``, ``text`` and ``reason``; ``sources``: all ids.
    """
    known_tables.check(spark, platform, spec.name, spec.quarantine_table)
    tables.create(spark, spec.quarantine_table, tables.QUARANTINE)
    rows = bad.select(
        F.col("text").cast("binary").alias("value"),
        "object",
        "line",
        F.col("source_id").alias("_source_id"),
        F.col("row").alias("_source_row"),
        "reason",
    )
    SourceQuarantine(spark, spec, sources).add(rows)
