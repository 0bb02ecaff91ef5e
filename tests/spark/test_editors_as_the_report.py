"""The query ``editors`` and the report it replaces, over the same batches. Goes with the report."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sluice.model import stream as streams
from sluice.model.platform import CATALOG
from sluice.model.query import Sink
from spark_jobs.common.queries import takeover
from spark_jobs.common.queries.moving import Waiting
from spark_jobs.common.queries.owner import QueriesOwner
from spark_jobs.common.queries.running import Running
from spark_jobs.common.queries.settings import SETTINGS
from spark_jobs.common.sinks.iceberg import IcebergSink
from tests.spark.test_report import MINUTE, some
from tests.support.changes import BEGIN, Change, Changes
from tests.support.services import Services


def test_the_query_and_the_report_agree(
    spark: SparkSession, services: Services, tmp_path: Path, configure: Callable[[dict[str, str]], None]
) -> None:
    services.minio, services.postgres  # noqa: B018
    configure({key: value for key, value in SETTINGS.items() if key.startswith("spark.sql.")})
    changes = Changes(spark, services, "side_by_side")
    declared = streams.load("wiki_changes")
    sink = Sink("iceberg", table="reports.side_by_side_query")
    query = replace(declared.queries["editors"], sinks=[sink], trigger_seconds=0)
    spec = replace(changes.spec, queries={"editors": query})
    chance = random.Random(5)  # noqa: S311
    report = changes.counted()
    owner = QueriesOwner(spark, spec)
    owner.take_over()
    types = replace(declared, queries=spec.queries).result_types("editors")
    made = IcebergSink(spark, spec.name, "editors", query, sink, types)
    checkpoint = takeover.checkpoint(spark, str(tmp_path), owner, "editors", [made])
    running = Running(spark, spec, "editors", owner, checkpoint, [made], Waiting(threading.Event()))
    running.start()
    try:
        for number in range(7):
            # The query's watermark follows edits only, so each batch ends with one.
            end = number * 10 * MINUTE + 10 * MINUTE
            changes.publish([*some(chance, number), Change(at=end - 1, arrived=end)])
            assert changes.count(report)
            assert running.streaming is not None
            running.streaming.processAllAvailable()
    finally:
        running.stop()
    by_report: Counter[tuple[int, str, bool]] = Counter()
    for start, _, user, bot, edits, _ in changes.rows():
        if edits:
            by_report[int(start.timestamp()), user, bot] += edits
    by_query: Counter[tuple[int, str, bool]] = Counter()
    found = spark.table(f"{CATALOG}.{sink.table}").select(
        F.unix_seconds("window_start"), "user", "bot", "edits"
    )
    for begin, user, bot, edits in found.collect():
        by_query[begin, user or "", bool(bot)] += edits
    late = owner.states["editors"].late
    print(
        f"\n{len(by_report)} results, {sum(by_report.values())} edits, {report.state.late} late: the report"
    )
    print(f"{len(by_query)} results, {sum(by_query.values())} edits, {late} late: the query")
    for at in sorted({key[0] for key in by_report}):
        sums = [sum(n for key, n in c.items() if key[0] == at) for c in (by_report, by_query)]
        print(f"window at minute {(at - BEGIN) // 60:4}: report {sums[0]:3}, query {sums[1]:3}")
    assert by_query == by_report
    assert late == report.state.late > 3
