"""A table of changes as the stream's owner publishes them, and what a report over it must say."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sluice.model import stream as streams
from sluice.model.platform import CATALOG
from spark_jobs.common.iceberg import MAIN, IcebergTable
from spark_jobs.common.report_owner import Counting, ReportOwner
from spark_jobs.common.session import catalog_options
from spark_jobs.wiki_changes.report import edits
from tests.support.services import Services

COLUMNS = (
    "change_timestamp TIMESTAMP, change_timestamp_date DATE, server_name STRING, user STRING, bot BOOLEAN, "
    "type STRING, title STRING, _kafka_partition INT, _kafka_offset BIGINT, _kafka_timestamp TIMESTAMP"
)
KEYS = {"user": "STRING", "bot": "BOOLEAN"}
PARTITIONS = 3
# 2026-03-01 23:00:00 UTC: an hour before midnight.
BEGIN = 1_772_406_000
Row = tuple[datetime, datetime, str, bool, int, int]


@dataclass(frozen=True)
class Change:
    """``at`` and ``arrived`` (on the topic; by default at the same time) in seconds after BEGIN."""

    at: float
    user: str | None = "Ann"
    bot: bool | None = False
    type: str = "edit"
    arrived: float | None = None
    server: str = "en.wikipedia.org"


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(BEGIN + seconds, UTC)


class Changes:
    """The table of a stream ``name``, and reports over it; of ``wiki_changes`` as they are declared."""

    def __init__(self, spark: SparkSession, services: Services, name: str) -> None:
        declared = streams.load("wiki_changes")
        assert declared.report is not None
        self.spark = spark
        is_real = name == declared.name
        self.report = declared.report if is_real else replace(declared.report, table=f"reports.{name}")
        self.spec = replace(declared, name=name, table=f"raw.{name}", report=self.report)
        self.platform = services.stack.platform("consumer")
        for key, value in catalog_options(self.platform).items():
            spark.conf.set(key, value)
        self.table = f"{CATALOG}.{self.spec.table}"
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.raw")
        spark.sql(
            f"CREATE TABLE {self.table} ({COLUMNS}) USING iceberg PARTITIONED BY (change_timestamp_date, "
            "server_name) TBLPROPERTIES ('format-version' = '2', 'write.distribution-mode' = 'hash')"
        )
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self.batches = 0

    def drop(self) -> None:
        """For tables of the declared names, which other tests want for themselves."""
        for table in (self.table, f"{CATALOG}.{self.report.table}"):
            self.spark.sql(f"DROP TABLE IF EXISTS {table}")

    def publish(self, changes: Iterable[Change], quarantined: int = 0) -> None:
        """One batch, spread over the topic's partitions; its number is the rows' title. ``quarantined``: so
        many records more, of which there are no rows."""
        begins, rows = dict(self.ends), []
        for number, change in enumerate(changes):
            partition = number % PARTITIONS
            arrived = moment(change.at if change.arrived is None else change.arrived)
            at, title = moment(change.at), str(self.batches)
            place = (partition, self.ends[partition], arrived)
            rows.append((at, at.date(), change.server, change.user, change.bot, change.type, title, *place))
            self.ends[partition] += 1
        self.ends[0] += quarantined
        ranges = {str(p): [begins[p], end] for p, end in self.ends.items() if end > begins[p]}
        said = {
            "sluice.kind": "batch",
            "sluice.ranges": json.dumps(ranges),
            "sluice.ends": json.dumps({str(p): end for p, end in self.ends.items()}),
        }
        frame = self.spark.createDataFrame(rows, COLUMNS).coalesce(1)
        self.append(frame, said)
        self.batches += 1

    def append(self, frame: DataFrame, said: dict[str, str] | None = None) -> None:
        """Rows, and what their snapshot says."""
        writer = frame.writeTo(self.table)
        for key, value in (said or {}).items():
            writer = writer.option(f"snapshot-property.{key}", value)
        writer.append()

    def say(self, kind: str) -> None:
        """A snapshot without rows, as the stream's owner makes them when it takes over."""
        IcebergTable(self.spark, self.spec.table).commit_empty(MAIN, {"sluice.kind": kind})

    def compact(self, where: str = "true") -> None:
        done = self.spark.sql(
            f"CALL {CATALOG}.system.rewrite_data_files(table => '{self.spec.table}', "
            f"options => map('rewrite-all', 'true'), where => '{where}')"
        ).collect()
        assert done[0]["rewritten_data_files_count"] > 0

    def delete(self, where: str) -> None:
        self.spark.sql(f"DELETE FROM {self.table} WHERE {where}")

    def owner(self, **declared: Any) -> ReportOwner:
        """One who counts; ``declared``: in place of what the stream declares of its report."""
        report = replace(self.report, **declared)
        return ReportOwner(self.spark, self.spec, report, Counting(KEYS, edits))

    def source(self) -> IcebergTable:
        return IcebergTable(self.spark, self.spec.table)

    def count(self, owner: ReportOwner) -> bool:
        """One look, and what follows from it; returns whether something was new."""
        news = owner.look(self.source())
        if news is not None:
            owner.count(news)
        return news is not None

    def counted(self, **declared: Any) -> ReportOwner:
        """A report that somebody takes over and brings up to date."""
        owner = self.owner(**declared)
        owner.take_over()
        self.count(owner)
        return owner

    def is_reported(self) -> bool:
        """Whether anything was counted yet."""
        name = f"{CATALOG}.{self.report.table}"
        return self.spark.catalog.tableExists(name) and not self.spark.table(name).isEmpty()

    def rows(self, table: str = "") -> list[Row]:
        """What the report says: (start, end, user, bot, edits, late), sorted."""
        found = self.spark.table(f"{CATALOG}.{table or self.report.table}")
        return _rows(found)

    def expected(self, minutes: int = 10, watermark: int = 10) -> list[Row]:
        """The same by SQL over the table; batches by the rows' titles."""
        return _rows(
            self.spark.sql(f"""
            WITH batches AS (
                SELECT int(title) AS batch, least(max(change_timestamp), max(_kafka_timestamp)) AS newest
                FROM {self.table} GROUP BY 1
            ), marks AS (
                SELECT batch, max(newest) OVER (ORDER BY batch ROWS BETWEEN UNBOUNDED PRECEDING
                    AND 1 PRECEDING) - INTERVAL {watermark} MINUTES AS mark
                FROM batches
            ), edits AS (
                SELECT window(change_timestamp, '{minutes} minutes') AS w, coalesce(user, '') AS user,
                    coalesce(bot, false) AS bot, mark
                FROM {self.table} JOIN marks ON int(title) = batch WHERE type IN ('edit', 'new')
            )
            SELECT w.start AS window_start, w.end AS window_end, user, bot,
                sum(if(w.end <= mark, 0, 1)) AS edits, sum(if(w.end <= mark, 1, 0)) AS late
            FROM edits GROUP BY ALL
            """)
        )

    def said(self, table: str = "") -> dict[str, str]:
        """The report's newest summary, without the prefix."""
        lineage = IcebergTable(self.spark, table or self.report.table).lineage(MAIN)
        summary = next(summary for _, summary in lineage)
        return {
            key.removeprefix("sluice."): value for key, value in summary.items() if key.startswith("sluice.")
        }


def _rows(frame: DataFrame) -> list[Row]:
    columns = ("unix_seconds(window_start)", "unix_seconds(window_end)", "user", "bot", "edits", "late")
    found = frame.selectExpr(*columns).collect()
    return sorted((moment(a - BEGIN), moment(b - BEGIN), *rest) for a, b, *rest in found)
