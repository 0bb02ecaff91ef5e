"""A stream whose table is written directly, with queries over it, and a sink that keeps what it was given."""

from __future__ import annotations

import json
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.results.positions import late_rows, read_positions
from sluice.config import streams
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.query_definition import read
from sluice.config.sections.query import Query
from sluice.config.sections.sink import SinkKind
from sluice.core.queries.progress import QueryState
from sluice.queries.recount import recount
from spark_jobs.common.kafka.heartbeat import CountingEvent
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from spark_jobs.common.queries import preview, recovery
from spark_jobs.common.queries.preview import MemorySink
from spark_jobs.common.queries.state_table import QueryStateWriter
from spark_jobs.common.queries.streaming_query import StreamingQueryRun
from spark_jobs.common.sinks import base
from spark_jobs.common.sinks.iceberg import IcebergSink
from spark_jobs.common.spark.failures import Fenced
from tests.support.lakehouse import commit
from tests.support.services import Services

COLUMNS = (
    "zipcode STRING, hittime TIMESTAMP, user_id STRING, isp STRING, day DATE, "
    "_kafka_partition INT, _kafka_offset BIGINT, _kafka_timestamp TIMESTAMP, "
    "_source_id STRING, _source_base_offset BIGINT"
)
# zipcode, hittime (seconds since 1970), user_id, isp
Hit = tuple[str, int, str, str]
Make = Callable[..., "Queried"]


class KeptSink:
    """A sink on disk: fenced, each batch once, the newest result of each key. ``fail`` is called before and
    after a batch is kept, and may raise."""

    def __init__(self, path: Path, query: Query, name: str = "kept") -> None:
        self.name, self._path, self._query = name, path, query
        self.fail: Callable[[str, int], None] = lambda moment, batch: None
        self._epoch = 0

    def open(self, epoch: int) -> int | None:
        kept = self._kept()
        if kept["epoch"] >= epoch:
            raise Fenced(f"{self.name}: epoch {epoch} is not above {kept['epoch']}", kept["epoch"])
        self._epoch = epoch
        self._put(kept | {"epoch": epoch})
        return kept["batch"]

    def write(self, batch: int, rows: DataFrame, *, is_whole: bool = False) -> bool:
        self.fail("before", batch)
        kept = self._kept()
        if kept["epoch"] > self._epoch:
            raise Fenced(f"{self.name}: writer {self._epoch} may not write")
        if kept["batch"] is not None and kept["batch"] >= batch:
            return False
        if is_whole:
            kept["results"] = {}
        for row in rows.collect():
            key = "|".join(str(row[column]) for column in self._query.keys)
            kept["results"][key] = [batch, *(row[measure] for measure in self._query.aggregates)]
        self._put(kept | {"batch": batch, "batches": [*kept["batches"], batch]})
        self.fail("after", batch)
        return True

    def close(self) -> None:
        pass

    def forget(self) -> None:
        """As a database that was restored from before."""
        self._path.unlink()

    @property
    def results(self) -> dict[str, list[int]]:
        """Key -> its measures."""
        return {key: values[1:] for key, values in self._kept()["results"].items()}

    @property
    def versions(self) -> dict[str, int]:
        return {key: values[0] for key, values in self._kept()["results"].items()}

    @property
    def batches(self) -> list[int]:
        return list(self._kept()["batches"])

    def _kept(self) -> dict[str, Any]:
        empty: dict[str, Any] = {"epoch": 0, "batch": None, "batches": [], "results": {}}
        return json.loads(self._path.read_text()) if self._path.exists() else empty

    def _put(self, kept: dict[str, Any]) -> None:
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(kept))
        new.rename(self._path)


class Queried:
    """The stream ``name`` with ``queries``; for each sink that they declare, one on disk below ``folder``;
    an Iceberg sink is a real one.

    The session is configured as a process of queries is (``queries.settings``)."""

    def __init__(
        self, spark: SparkSession, services: Services, name: str, queries: dict[str, Query], folder: Path
    ) -> None:
        self.spark, self.folder = spark, folder
        self.platform = services.stack.platform("consumer")
        declared = streams.load("isp_hits")
        self.spec = replace(declared, name=name, table=f"raw.{name}", queries=queries)
        self.table = f"{CATALOG}.raw.{name}"
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.raw")
        spark.sql(f"CREATE TABLE {self.table} ({COLUMNS}) USING iceberg")
        # As a consumer does that acquires the lease.
        commit(IcebergTable(spark, self.spec.table), {"sluice.kind": "epoch-start"})
        self.sinks = {
            n: [
                KeptSink(folder / f"{n}-{s.kind}.json", query, f"{n} {s.kind}")
                for s in query.sinks
                if s.kind != SinkKind.ICEBERG
            ]
            for n, query in queries.items()
        }
        self._types = {n: replace(declared, queries=queries).result_types(n) for n in queries}
        self.running: list[StreamingQueryRun] = []
        self.writers: list[QueryStateWriter] = []
        self._offset = 0

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def states(self) -> dict[str, QueryState]:
        """What the queries' table says."""
        table = IcebergTable(self.spark, self.spec.queries_table)
        summaries = (snapshot.summary for snapshot in table.snapshots(MAIN))
        return read(summaries, self.spec.queries, self.spec.queries_table)

    def put(self, hits: Iterable[Hit], arrived: int | None = None) -> None:
        """Into the table, as one snapshot. ``arrived``: on the topic, in seconds since 1970; by default each
        at its own time."""
        rows = [
            (*hit, 0, self._offset + number, hit[1] if arrived is None else arrived)
            for number, hit in enumerate(hits)
        ]
        self._offset += len(rows)
        frame = self.spark.createDataFrame(
            rows,
            "zipcode STRING, at BIGINT, user_id STRING, isp STRING, "
            "_kafka_partition INT, _kafka_offset BIGINT, arrived BIGINT",
        )
        timed = frame.withColumn("hittime", F.timestamp_seconds("at")).withColumn("day", F.to_date("hittime"))
        arrival = timed.withColumns(
            {
                "_kafka_timestamp": F.timestamp_seconds("arrived"),
                "_source_id": F.lit(None).cast("string"),
                "_source_base_offset": F.lit(None).cast("bigint"),
            }
        )
        arrival.drop("at", "arrived").writeTo(self.table).append()

    def expire(self, keep: int = 1) -> None:
        """All snapshots of the stream's table but the newest ``keep``."""
        table = IcebergTable(self.spark, self.spec.table)
        table.change_refs({}, {}, table.expirable(keep, 2**62))

    def own(self) -> list[StreamingQueryRun]:
        """A new writer's queries, started."""
        writer = QueryStateWriter(self.spark, self.spec)
        writer.acquire()
        self.writers.append(writer)
        started: list[StreamingQueryRun] = []
        for name, kept in self.sinks.items():
            sinks: list[base.Sink] = [*kept, *self._iceberg_sinks(name)]
            checkpoint = recovery.checkpoint(self.spark, str(self.checkpoints), writer, name, sinks)
            made = StreamingQueryRun(
                self.spark, self.spec, name, writer, checkpoint, sinks, CountingEvent(threading.Event())
            )
            made.label = f"{self.spec.name}.{name} {len(self.running)} {len(started)}"
            made.start()
            started.append(made)
        self.running += started
        return started

    def _iceberg_sinks(self, name: str) -> list[IcebergSink]:
        query, types = self.spec.queries[name], self._types[name]
        return [
            IcebergSink(self.spark, base.Target(self.spec.name, name, query, sink, threading.Event()), types)
            for sink in query.sinks
            if sink.kind == SinkKind.ICEBERG
        ]

    @staticmethod
    def catch_up(running: Sequence[StreamingQueryRun]) -> None:
        for query in running:
            assert query.streaming is not None
            query.streaming.processAllAvailable()

    def stop(self) -> None:
        for query in self.running:
            query.stop()

    def lose_checkpoints(self) -> None:
        """Stop, and remove all checkpoints."""
        self.stop()
        for folder in self.checkpoints.iterdir():
            shutil.rmtree(folder)

    def previewed(self, name: str) -> list[tuple[str, int]]:
        """(zipcode, hits) as a preview of the query shows them, by zipcode."""
        sink = MemorySink(self.spec.name, name, self.spec.queries[name])
        streaming = preview.start(self.spark, self.spec, name, sink.write, self.folder / "preview")
        try:
            streaming.processAllAvailable()
            found = self.spark.table(sink.view).select("zipcode", "hits").collect()
        finally:
            streaming.stop()
        return sorted((row[0], row[1]) for row in found)

    def late(self, name: str, base: int = 0) -> Counter[tuple[int, int]]:
        """(offset, window's beginning in seconds) of the rows that a query left out."""
        found = self.spark.table(f"{CATALOG}.{self.spec.queries_table}").where(
            (F.col("query") == name) & (F.col("batch") >= base)
        )
        rows = found.select("_kafka_offset", F.unix_seconds("window_start")).collect()
        return Counter((row[0], row[1]) for row in rows)

    def counted(self, name: str, base: int = 0) -> dict[str, list[int]]:
        """What the sinks of a query must hold, in Python: the table's rows but those that came too late, and
        in windows but those dated ahead."""
        query, late = self.spec.queries[name], self.late(name, base)
        groups: dict[tuple[Any, ...], list[Any]] = {}
        rows = self.spark.table(self.table).withColumn("at", F.unix_seconds("hittime"))
        for row in rows.withColumn("arrived", F.unix_seconds("_kafka_timestamp")).collect():
            if query.window and row["at"] > row["arrived"] + 60 * query.watermark_minutes:
                continue
            starts = query.window.starts(row["at"]) if query.window else [None]
            for start in starts:
                if start is not None and late[row["_kafka_offset"], start]:
                    continue
                begun = [datetime.utcfromtimestamp(start)] if start is not None else []  # noqa: DTZ004
                key = (*(row[column] for column in query.group_by), *begun)
                groups.setdefault(key, []).append(row)
        return {
            "|".join(map(str, key)): [
                len({row[query.distinct[m]] for row in rows}) if m in query.distinct else len(rows)
                for m in query.aggregates
            ]
            for key, rows in groups.items()
        }

    def recounted(self, name: str) -> dict[str, list[int]]:
        """What a validation counts, in the way of this class' keys."""
        lake = Lake.open(self.platform)
        try:
            standing = read_positions(lake.table(self.spec.queries_table), self.spec.queries)
            assert standing is not None
            late = late_rows(lake.table(self.spec.queries_table), standing, name)
            table, source = lake.table(self.spec.table), standing.states[name].source_snapshot_id
            assert source is not None
            found = recount(table, source, self.spec.queries[name], late, None)
        finally:
            lake.close()
        return {key.replace("T", " ").replace("Z", ""): list(aggregates) for key, aggregates in found.items()}


def wait(running: Sequence[StreamingQueryRun], seconds: float = 60) -> Exception:
    """Until one of them has ended by an error; that error."""
    pause = threading.Event()
    for _ in range(int(seconds / 0.1)):
        for query in running:
            if not query.is_active and (error := query.error()) is not None:
                return error
        pause.wait(0.1)
    raise AssertionError("none of them has ended")
