"""A query's results in an Iceberg table of the lake, exactly once: one partition and file per window.

A batch rewrites the windows that it changed on the writer's branch; one commit carries the rows and the
batch's number, and ``main`` moves over whole batches only. The epoch is that of the stream's queries.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from sluice.config.platform_sections.lake import CATALOG
from sluice.config.sections import sink
from sluice.core.queries.result import VERSION, WINDOW
from sluice.core.tables.summary import BATCH_ID, EPOCH, KIND, QUERY, STREAM
from spark_jobs.common.lake import tables
from spark_jobs.common.lake.iceberg import MAIN
from spark_jobs.common.lake.write import Write, on_branch
from spark_jobs.common.lake.writer_lease import WriterLease
from spark_jobs.common.sinks.base import SinkWriteFailed, Target

PROPERTIES = {
    # One task writes a window, so a window is one file.
    "write.distribution-mode": "hash",
    # Readers choose by partition: bounds would only make manifests larger.
    "write.metadata.metrics.default": "none",
}
KEEP_SNAPSHOTS = 60


class IcebergSink(WriterLease):
    """The table of one sink. For one thread at a time.

    ``types``: result column -> Spark's DDL type, as declared. A column becomes wider with the results'.
    Raises SinkWriteFailed if the table has other columns.
    """

    def __init__(self, spark: SparkSession, target: Target, types: Mapping[str, str]) -> None:
        _ensure(spark, target.sink, types)
        super().__init__(spark, target.sink.table, target.sink.name)
        self.spark = spark
        self._stream, self._query_name, self._query = target.stream, target.query_name, target.query
        self._batch: int | None = None

    def open(self, epoch: int) -> int | None:
        """Put this epoch on ``main``. Returns the batch that the table holds, None before the first.

        Raises Fenced if this epoch or a higher one is there, SinkWriteFailed if the table holds another
        query's results.
        """
        self._acquire(self._read, lambda: self._summary("epoch-start", self._batch), epoch)
        return self._batch

    def write(self, batch: int, rows: DataFrame, *, is_whole: bool = False) -> bool:
        """Merge the results of a batch, all of them or nothing; False if the table holds it already.

        Those of a whole result replace all files. Raises Fenced if a later writer opened the table,
        ConcurrentCommit if maintenance moved ``main``.
        """
        self.check_lease()
        if self._batch is not None and batch <= self._batch:
            return False
        self._widen(rows)
        summary = self._summary("batch", batch)
        results = rows.withColumn(VERSION, F.lit(batch).cast("bigint"))
        if is_whole:
            self.write_branch(results, summary, Write.ALL)
        elif windows := [row[0] for row in rows.select(F.unix_millis(WINDOW)).distinct().collect()]:
            self._merge(results, windows, summary)
        else:
            self.stage_summary(summary)
        self._publish(KEEP_SNAPSHOTS)
        self._batch = batch
        return True

    def close(self) -> None:
        """No open resources."""

    def _read(self) -> None:
        found = next((s.summary for s in self.table.snapshots(MAIN) if KIND in s.summary), {})
        query = (found.get(STREAM), found.get(QUERY))
        if found and query != (self._stream, self._query_name):
            raise SinkWriteFailed(
                f"{self.name}: holds results of query {query[1]} of {query[0]}. Fix: give query "
                f"{self._query_name} of {self._stream} a table of its own"
            )
        self._batch = int(found[BATCH_ID]) if found.get(BATCH_ID) else None

    def _widen(self, rows: DataFrame) -> None:
        narrow = {field["name"] for field in self.table.schema()["fields"] if field["type"] == "int"}
        for field in rows.schema:
            if field.name in narrow and isinstance(field.dataType, LongType):
                tables.widen(self.spark, self.table.name, field.name)
                self.table.refresh()

    def _merge(self, results: DataFrame, windows: list[int], summary: Mapping[str, str]) -> None:
        branch = on_branch(self.table.name, self.branch)
        starts = [F.timestamp_millis(F.lit(start)) for start in sorted(windows)]
        existing = self.spark.table(branch).where(F.col(WINDOW).isin(starts))
        keys, values = self._query.keys, [*self._query.aggregates, VERSION]
        newest = F.max_by(F.struct(*values), F.col(VERSION)).alias("_newest")
        merged = existing.unionByName(results).groupBy(*keys).agg(newest).select(*keys, "_newest.*")
        self.write_branch(merged, summary, Write.PARTITIONS)

    def _summary(self, kind: str, batch: int | None) -> dict[str, str]:
        return {
            KIND: kind,
            STREAM: self._stream,
            QUERY: self._query_name,
            EPOCH: str(self.epoch),
            BATCH_ID: "" if batch is None else str(batch),
        }


def _ensure(spark: SparkSession, sink: sink.Sink, types: Mapping[str, str]) -> None:
    table = f"{CATALOG}.{sink.table}"
    columns = [f"`{name}` {kind.upper()}" for name, kind in types.items()]
    tables.create(spark, sink.table, columns, PROPERTIES, [WINDOW])
    existing = {field.name: field.dataType.simpleString() for field in spark.table(table).schema}
    if {**existing, **_whole(existing)} != {**types, **_whole(types)}:
        raise SinkWriteFailed(
            f"{sink.name}: has columns {existing}, expected {dict(types)}. Fix: name a new table"
        )


def _whole(types: Mapping[str, str]) -> dict[str, str]:
    """The columns of whole numbers, as one type: the stream's may be wider than it is declared."""
    return {name: "bigint" for name, kind in types.items() if kind == "int"}
