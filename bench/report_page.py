"""What a report costs: to read it for the page, and to keep it up to date.

A day of windows with several hundred users each, written by the report's own job into MinIO and PostgreSQL in
a folder of their own; then it goes on, batch by batch, each over many servers' files.

::

    python -m bench.report_page --windows 144 --users 500 --batches 60 --servers 60

``read``: ``ReportReader.read`` of all windows, the first time (``cold``), when nothing is new (``same``), and
after one more commit of the report (``refreshed``). ``commit``: what one commit of the report costs, in S3
calls and in CPU seconds of its JVM. ``look``: what it costs to see that nothing is new. CPU seconds are those
of the process that does it; MinIO's and PostgreSQL's come on top.
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
    from local.java import java_home
    from local.services import streams
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
    from sluice.clients.report import ReportReader
    from sluice.clients.table import Lake
    from spark_jobs.common import report, session
    from tests.support.changes import Changes

    platform = services.stack.platform("consumer")
    spark = session.start("bench", platform, report.PARTITIONS, report.SMALL)
    jvm = next(
        child
        for child in psutil.Process().children(recursive=True)
        if "org.apache.spark.deploy.SparkSubmit" in child.cmdline()
    )
    changes, chance = Changes(spark, services, "bench"), random.Random(1)  # noqa: S311
    changes.publish(_day(chance, windows, users, servers))
    owner, source = changes.counted(), changes.source()

    def calls() -> dict[str, int]:
        return minio.requests(services.stack.context)

    reader = ReportReader(Lake.open(services.stack.platform("airflow")), changes.report.table)
    memory = psutil.Process().memory_info().rss
    commits, reads = [], []
    for number in range(batches):
        changes.publish(_batch(chance, windows, number, users, servers))
        before, cpu, began = calls(), _cpu(jvm), time.perf_counter()
        if not (news := owner.look(source)):
            raise RuntimeError("the batch is no news")
        owner.count(news)
        commits.append((time.perf_counter() - began, _cpu(jvm) - cpu, _grown(before, calls())))
        if number >= batches // 2:
            reads.append(_timed(lambda: reader.read(0), calls))
    memory = psutil.Process().memory_info().rss - memory
    same = _timed(lambda: reader.read(0), calls)
    cpu, began = _cpu(jvm), time.perf_counter()
    for _ in range(100):
        owner.look(source)
    looked = (time.perf_counter() - began) / 100, (_cpu(jvm) - cpu) / 100
    shown = reader.read(0)
    cold, *refreshes = reads
    late = commits[len(commits) // 2 :]
    return {
        "windows": len(shown.windows),
        "users_per_window": round(sum(len(w.editors) for w in shown.windows) / windows),
        "read": {
            "cold": cold,
            "same": same,
            "refreshed": {
                "milliseconds": round(statistics.median(r["milliseconds"] for r in refreshes), 1),
                "worst_milliseconds": max(r["milliseconds"] for r in refreshes),
                "cpu_milliseconds": round(statistics.median(r["cpu_milliseconds"] for r in refreshes), 1),
                "s3_calls": round(statistics.median(r["s3_calls"] for r in refreshes), 1),
            },
            "memory_megabytes": round(memory / 1e6, 1),
        },
        "commit": {
            "source_files": servers,
            "seconds": round(statistics.median(seconds for seconds, _, _ in late), 2),
            "jvm_cpu_seconds": round(statistics.median(cpu for _, cpu, _ in late), 2),
            "s3_calls": round(statistics.median(sum(grown.values()) for _, _, grown in late)),
            "most_s3_calls": max(sum(grown.values()) for _, _, grown in late),
            "s3_calls_by_kind": late[-1][2],
        },
        "look": {
            "milliseconds": round(1000 * looked[0], 2),
            "jvm_cpu_milliseconds": round(1000 * looked[1], 2),
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
    parser.add_argument("--out", type=Path, default=REPO / "build" / "bench-report.json")
    options = parser.parse_args()
    result = measure(options.windows, options.users, options.batches, options.servers)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
