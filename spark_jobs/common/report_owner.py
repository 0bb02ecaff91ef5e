"""The owner of a report: counts what the stream published, and publishes it window by window.

The state is the table: what is counted, and up to where, is one commit, and ``main`` moves only over whole
ones. So a process that dies at any moment leaves nothing behind, and a zombie publishes nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.model.platform import CATALOG
from sluice.model.stream import Report, StreamSpec
from spark_jobs.common import report_counts, report_source, report_state, report_table
from spark_jobs.common.iceberg import MAIN, IcebergTable
from spark_jobs.common.ownership import TableOwner
from spark_jobs.common.report_lateness import Judged, judge
from spark_jobs.common.report_source import News
from spark_jobs.common.report_state import State

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Counting:
    """What is counted of a stream. ``keys``: column -> type in Spark's DDL, for whom is counted.

    ``read`` takes rows of the stream's table and gives them with the keys, the event's moment ``at``, whether
    it ``counts``, and the coordinates as they were.
    """

    keys: Mapping[str, str]
    read: Callable[[DataFrame], DataFrame]


class ReportOwner(TableOwner):
    """Owns the report of one stream from :meth:`take_over` on. Not for several threads at once."""

    def __init__(self, spark: SparkSession, spec: StreamSpec, report: Report, counting: Counting) -> None:
        report_table.ensure(spark, report.table, counting.keys)
        super().__init__(spark, report.table, f"the report of {spec.name}")
        self.spark, self.spec, self.report, self.counting = spark, spec, report, counting
        self.state = State(report_state.rule(report))

    def take_over(self) -> State:
        """Become the owner, also once more after Moved. Returns what is counted."""

        def read() -> None:
            summaries = (summary for _, summary in self.table.lineage(MAIN))
            self.state = report_state.read(summaries, report_state.rule(self.report))

        self._claim(read, lambda kind: self._summary(kind, self.state))
        return self.state

    def look(self, source: IcebergTable) -> News | None:
        """What is new in the stream's table; asks the catalog once, and S3 only where something is."""
        source.refresh()
        return report_source.news(source.snapshots(MAIN), self.state.source)

    def count(self, news: News) -> None:
        """Count it, and publish. Raises Superseded when a later owner has taken over, Moved when maintenance
        moved ``main``; then nothing of it is visible."""
        try:
            self._count(news)
        except (Py4JJavaError, PySparkException) as failure:
            # A later owner removes its predecessor's branch.
            self.excuse(failure)
            raise

    def _count(self, news: News) -> None:
        began = time.time()
        if news.rebuild:
            level = logging.INFO if self.state.source is None else logging.WARNING
            log.log(level, "counting all of %s anew: %s", self.spec.table, news.rebuild)
        counts = report_counts.per_window(
            self._rows(news), self.report.window_minutes, list(self.counting.keys)
        ).persist()
        try:
            judged = judge(
                report_counts.found(counts),
                len(news.batches),
                None if news.rebuild else self.state.newest,
                self.report.watermark_minutes,
            )
            state = self._after(news, judged)
            self._write(counts, judged, self._summary("report", state), anew=news.rebuild is not None)
        finally:
            counts.unpersist()
        self._publish()
        log.info(
            "counted %d batches up to snapshot %s: %d windows, %d late, in %.1f s",
            len(news.batches),
            news.head.id,
            len(judged.windows),
            judged.late_rows,
            time.time() - began,
        )
        self.state = state
        self._tidy(self.report.keep_snapshots)

    def _rows(self, news: News) -> DataFrame:
        reader = self.spark.read
        if news.after is None:
            reader = reader.option("snapshot-id", news.head.id)
        else:
            reader = reader.option("start-snapshot-id", news.after).option("end-snapshot-id", news.head.id)
        rows = self.counting.read(reader.table(f"{CATALOG}.{self.spec.table}"))
        if not news.rebuild and len(news.batches) == 1:
            return rows.withColumn("batch", F.lit(0))
        return report_counts.numbered(self.spark, rows, *report_source.edges(news.batches))

    def _after(self, news: News, judged: Judged) -> State:
        """The state when ``news`` is counted."""
        said = news.head.summary
        return State(
            rule=self.state.rule,
            source=news.head.id,
            source_at=news.head.at_ms,
            records=int(said.get("total-records", "0")),
            newest=judged.newest,
            late=judged.late_rows + (0 if news.rebuild else self.state.late),
            ends=news.ends or self.state.ends,
        )

    def _write(self, counts: DataFrame, judged: Judged, summary: Mapping[str, str], *, anew: bool) -> None:
        if not judged.windows and not anew:
            self.table.commit_empty(self.branch, summary)
        else:
            keys = list(self.counting.keys)
            frames = [report_counts.told_apart(self.spark, counts, judged.late, keys)]
            if not anew:
                frames.append(
                    report_table.windows(self.spark, self.report.table, self.branch, judged.windows)
                )
            rows = report_counts.summed(frames, keys)
            report_table.write(rows, self.report.table, self.branch, summary, everything=anew)
            self.table.refresh()
        self.head = self._branch_head()

    def _summary(self, kind: str, state: State) -> dict[str, str]:
        return report_state.summary(kind, self.spec.name, self.token, state, self.report.watermark_minutes)
