"""A table of changes as the stream's writer publishes them, and the query that counts their editors."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config import streams
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.sections.sink import Sink
from spark_jobs.common.kafka.heartbeat import CountingEvent
from spark_jobs.common.lake.iceberg import IcebergTable
from spark_jobs.common.queries import recovery
from spark_jobs.common.queries.state_table import QueryStateWriter
from spark_jobs.common.queries.streaming_query import StreamingQueryRun
from spark_jobs.common.sinks.base import Target
from spark_jobs.common.sinks.iceberg import IcebergSink
from spark_jobs.common.spark.session import SETTINGS, catalog_options
from tests.support.services import Services

COLUMNS = (
    "change_timestamp TIMESTAMP, change_timestamp_date DATE, server_name STRING, user STRING, bot BOOLEAN, "
    "type STRING, title STRING, _kafka_partition INT, _kafka_offset BIGINT, _kafka_timestamp TIMESTAMP"
)
PARTITIONS = 3
# 2026-03-01 23:00:00 UTC: an hour before midnight.
BEGIN = 1_772_406_000
# Window's start in seconds since 1970, user, bot, edits.
Row = tuple[int, str | None, bool | None, int]


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
    """The table of a stream ``name``, and its query ``editors``; of ``wiki_changes`` as it is declared."""

    def __init__(self, spark: SparkSession, services: Services, name: str) -> None:
        declared = streams.load("wiki_changes")
        self.spark = spark
        self.results_table = f"results.{name}_editors"
        sinks = [Sink("iceberg", table=self.results_table)]
        self.query = replace(declared.queries["editors"], sinks=sinks, trigger_seconds=0)
        self.types = declared.result_types("editors")
        self.spec = replace(declared, name=name, table=f"raw.{name}", queries={"editors": self.query})
        self.platform = services.stack.platform("consumer")
        # The query's source writes beside its checkpoint.
        io = f"spark.sql.catalog.{CATALOG}.io-impl"
        for key, value in (catalog_options(self.platform) | {io: SETTINGS[io]}).items():
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
        """For a table of a declared name, which other tests want for themselves."""
        self.spark.sql(f"DROP TABLE IF EXISTS {self.table}")

    def publish(self, changes: Iterable[Change]) -> None:
        """One batch, spread over the topic's partitions; its number is the rows' title."""
        begins, rows = dict(self.ends), []
        for number, change in enumerate(changes):
            partition = number % PARTITIONS
            arrived = moment(change.at if change.arrived is None else change.arrived)
            at, title = moment(change.at), str(self.batches)
            place = (partition, self.ends[partition], arrived)
            rows.append((at, at.date(), change.server, change.user, change.bot, change.type, title, *place))
            self.ends[partition] += 1
        ranges = {str(p): [begins[p], end] for p, end in self.ends.items() if end > begins[p]}
        said = {
            "sluice.kind": "batch",
            "sluice.offset-ranges": json.dumps(ranges),
            "sluice.end-offsets": json.dumps({str(p): end for p, end in self.ends.items()}),
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

    def source(self) -> IcebergTable:
        return IcebergTable(self.spark, self.spec.table)

    def counting(self, folder: Path) -> StreamingQueryRun:
        """The query, started, with its checkpoint below ``folder``; the caller stops it."""
        writer = QueryStateWriter(self.spark, self.spec)
        writer.acquire()
        target = Target(self.spec.name, "editors", self.query, self.query.sinks[0], threading.Event())
        sink = IcebergSink(self.spark, target, self.types)
        checkpoint = recovery.checkpoint(self.spark, str(folder), writer, "editors", [sink])
        waiting = CountingEvent(threading.Event())
        running = StreamingQueryRun(self.spark, self.spec, "editors", writer, checkpoint, [sink], waiting)
        running.start()
        return running

    def results(self) -> set[Row]:
        """What the query's table holds."""
        found = self.spark.table(f"{CATALOG}.{self.results_table}")
        columns = (F.unix_seconds("window_start"), "user", "bot", "edits")
        return {(row[0], row[1], row[2], row[3]) for row in found.select(*columns).collect()}

    def expected(self) -> set[Row]:
        """The same by SQL over the stream's table, without late rows."""
        found = self.spark.sql(f"""
            SELECT unix_seconds(window(change_timestamp, '10 minutes').start), user, bot, count(*)
            FROM {self.table} WHERE type IN ('edit', 'new') GROUP BY ALL
        """)
        return {(row[0], row[1], row[2], row[3]) for row in found.collect()}
