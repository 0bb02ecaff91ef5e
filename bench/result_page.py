"""Measures the cost of a page of results: of reading it, and of updating its table.

The query ``editors`` counts a day of windows with several hundred users each into MinIO and PostgreSQL in a
folder of their own; then batch by batch, each with files of many servers.

::

    python -m bench.result_page --windows 144 --users 500 --batches 60 --servers 60

``read``: ``ResultsReader.read`` of all windows, the first time (``cold``), when nothing is new (``same``),
and after one more batch (``refreshed``). ``batch``: the cost of one batch of the query, in S3 calls and in
CPU seconds of its JVM. CPU seconds of MinIO and PostgreSQL are not included.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

REPO = Path(__file__).resolve().parents[1]
MINUTES = 10


def measure(windows: int, users: int, batches: int, servers: int) -> dict[str, Any]:
    from local.services import streams
    from local.setup.bootstrap import java_home
    from tests.support.services import Services

    os.environ["JAVA_HOME"] = str(java_home())
    services = Services(Path(tempfile.mkdtemp(prefix="sluice-bench-")))
    try:
        services.minio, services.postgres  # noqa: B018
        streams.prepare(services.stack.context)
        os.environ["SPARK_CONF_DIR"] = str(services.stack.home.conf / "spark")
        return _measure(services, windows, users, batches, servers)
    finally:
        services.stop()


def _measure(services: Any, windows: int, users: int, batches: int, servers: int) -> dict[str, Any]:
    from local.services import minio
    from sluice.clients.lake.catalog import Lake
    from sluice.clients.lake.results.table import ResultsReader
    from spark_jobs.common.spark import session
    from spark_jobs.common.spark.session import PARTITIONS, SETTINGS
    from tests.support.changes import Changes

    spark = session.start("bench", services.stack.platform("consumer"), PARTITIONS, SETTINGS)
    jvm = next(
        child
        for child in psutil.Process().children(recursive=True)
        if "org.apache.spark.deploy.SparkSubmit" in child.cmdline()
    )
    changes, chance = Changes(spark, services, "bench"), random.Random(1)  # noqa: S311
    changes.publish(_day(chance, windows, users, servers))
    query = changes.counting(Path(tempfile.mkdtemp(prefix="sluice-bench-")))

    def catch_up() -> None:
        if query.streaming is None:
            raise RuntimeError("the query has not started")
        query.streaming.processAllAvailable()

    def calls() -> dict[str, int]:
        return minio.requests(services.stack.context)

    catch_up()
    reader = ResultsReader(Lake.open(services.stack.platform("airflow")), changes.spec, "editors")
    counted, reads = [], []
    for number in range(batches):
        changes.publish(_batch(chance, windows, number, users, servers))
        before, cpu, began = calls(), _cpu(jvm), time.perf_counter()
        catch_up()
        counted.append((time.perf_counter() - began, _cpu(jvm) - cpu, _grown(before, calls())))
        if number >= batches // 2:
            reads.append(_timed(lambda: reader.read(0), calls))
    same = _timed(lambda: reader.read(0), calls)
    results = reader.read(0)
    query.stop()
    cold, *refreshes = reads
    late = counted[len(counted) // 2 :]
    return {
        "windows": len(results.windows),
        "users_per_window": round(sum(len(w.editors) for w in results.windows) / windows),
        "read": {
            "cold": cold,
            "same": same,
            "refreshed": {
                name: round(statistics.median(read[name] for read in refreshes), 1) for name in refreshes[0]
            },
        },
        "batch": {
            "source_files": servers,
            "seconds": round(statistics.median(seconds for seconds, _, _ in late), 2),
            "jvm_cpu_seconds": round(statistics.median(cpu for _, cpu, _ in late), 2),
            "s3_calls": round(statistics.median(sum(grown.values()) for _, _, grown in late)),
            "s3_calls_by_kind": late[-1][2],
        },
        "jvm_megabytes": round(jvm.memory_info().rss / 1e6),
    }


def _day(chance: random.Random, windows: int, users: int, servers: int) -> list[Any]:
    from tests.support.changes import Change

    return [
        Change(
            (window + chance.random()) * MINUTES * 60,
            f"User {chance.randrange(20 * users)}",
            chance.random() < 0.1,
            server=_server(chance, servers),
        )
        for window in range(windows)
        for _ in range(users)
    ]


def _batch(chance: random.Random, windows: int, number: int, users: int, servers: int) -> list[Any]:
    """Twenty seconds of the last window, a file for each server."""
    from tests.support.changes import Change

    begin = (windows - 1) * MINUTES * 60 + number % (3 * MINUTES) * 20
    return [
        Change(
            begin + 20 * chance.random(),
            f"User {chance.randrange(20 * users)}",
            server=f"{index % servers}.wikipedia.org",
        )
        for index in range(max(servers, 400))
    ]


def _server(chance: random.Random, servers: int) -> str:
    return f"{chance.randrange(servers)}.wikipedia.org"


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _grown(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: count - before.get(name, 0) for name, count in after.items() if count > before.get(name, 0)}


def _timed(read: Callable[[], object], calls: Callable[[], dict[str, int]]) -> dict[str, float]:
    before, cpu, began = calls(), time.process_time(), time.perf_counter()
    read()
    took, spent = time.perf_counter() - began, time.process_time() - cpu
    return {
        "milliseconds": round(1000 * took, 1),
        "cpu_milliseconds": round(1000 * spent, 1),
        "s3_calls": sum(_grown(before, calls()).values()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--windows", type=int, default=144)
    parser.add_argument("--users", type=int, default=500)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--servers", type=int, default=60)
    parser.add_argument("--out", type=Path, default=REPO / "build" / "bench-results.json")
    options = parser.parse_args()
    result = measure(options.windows, options.users, options.batches, options.servers)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
