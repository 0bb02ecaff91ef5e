"""Measures the cost of supervision: CPU seconds per interval, and the scheduler's load with 20 streams.

The streams are idle: each has a topic of one partition, a table with one snapshot, and a consumer that
acquires the lease and sleeps. So every run of their DAGs finds them healthy. They replace the streams in a
copy of the repository.

::

    python -m bench.supervision --streams 20 --intervals 3 --out build/bench-supervision.json

The same stack is measured with all supervision paused, and with it on. The difference is the cost. CPU
seconds are those of the processes and of the children that they have waited for, so a task that has ended is
counted with the worker that forked it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[1]
INTERVAL_SECONDS = 120
# Until the DAGs are parsed, the streams are started and the first runs are through.
SETTLE_SECONDS = 180

_STREAM = """\
name = "{name}"
schema = "schema.avsc"
table = "bench.{name}"

[topic]
name = "bench-{name}"
partitions = 1

[consumer]

[budget]
s3_calls_per_batch = 25
versions_per_batch = 20
"""
_CONSUMER = '''\
"""Idle consumers that hold the writer lease."""

import signal
import sys

from bench.idle_consumer import acquire

acquire(sys.argv[2])
signal.sigwait({signal.SIGTERM})
sys.exit(0)
'''


def generate(copy: Path, count: int) -> list[str]:
    """Copy the repository to ``copy``, with ``count`` idle streams in place of its own."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        if (REPO / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPO / name, copy / name)
    schema = (copy / "spark_jobs" / "nyc_taxi" / "schema.avsc").read_text()
    names = [f"idle_{number:02}" for number in range(count)]
    for name in names:
        folder = copy / "spark_jobs" / name
        folder.mkdir()
        (folder / "schema.avsc").write_text(schema)
        (folder / "stream.toml").write_text(_STREAM.format(name=name))
    (copy / "spark_jobs" / "__main__.py").write_text(_CONSUMER)
    shutil.rmtree(copy / "spark_jobs" / "nyc_taxi")
    (copy / "dags" / "drills.py").unlink()
    return names


def measure(names: list[str], intervals: int) -> dict[str, Any]:
    """Run in the copy: measure a stack with these streams, paused and supervised."""
    from local.stack.stack import Stack

    stack = Stack(Path(tempfile.mkdtemp(prefix="sluice-bench-")) / "stack", free_ports=True)
    try:
        stack.up()
        _provision(stack, names)
        for name in names:
            stack.daemon.proxy().startProcess(f"stream-{name}", False)
        api = stack.airflow()
        for name in names:
            api.wait_for_dag(f"{name}_stream", 240)
        time.sleep(60)
        paused = _spend(stack, intervals)
        for name in names:
            api.unpause(f"{name}_stream")
        time.sleep(SETTLE_SECONDS)
        since = time.time()
        supervised = _spend(stack, intervals)
        runs = _runs(api, names, since)
    finally:
        stack.destroy()
    return _report(len(names), intervals, paused, supervised, runs)


def _provision(stack: Any, names: list[str]) -> None:
    from sluice.clients.kafka.admin import KafkaAdmin
    from sluice.config import stream

    kafka = KafkaAdmin(stack.platform("airflow").kafka)
    for name in names:
        kafka.provision(stream.load(name).topic)


def _spend(stack: Any, intervals: int) -> dict[str, float]:
    before = cpu_seconds(stack)
    time.sleep(intervals * INTERVAL_SECONDS)
    return dict(sorted(cpu_seconds_since(before, stack).items()))


def cpu_seconds_since(before: dict[str, float], stack: Any) -> dict[str, float]:
    """CPU seconds since ``before`` by program, the largest first."""
    after = cpu_seconds(stack)
    spent = {name: after[name] - before.get(name, 0.0) for name in after}
    return dict(sorted(spent.items(), key=lambda item: -item[1]))


def cpu_seconds(stack: Any) -> dict[str, float]:
    """CPU seconds by program: of the process, its descendants, and the children that it has waited for."""
    import psutil

    found: dict[str, float] = defaultdict(float)
    for info in stack.daemon.proxy().getAllProcessInfo():
        if not info["pid"]:
            continue
        parent = psutil.Process(info["pid"])
        name = info["name"]
        if name == "airflow-scheduler":
            # The loop alone: if it is busy, every DAG is late.
            times = parent.cpu_times()
            found["scheduler's loop"] = times.user + times.system
        for process in [parent, *parent.children(recursive=True)]:
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue  # a task that has just ended: its parent has its seconds
            found[name] += times.user + times.system + times.children_user + times.children_system
    return found


def _runs(api: Any, names: list[str], since: float) -> Counter[str]:
    states: Counter[str] = Counter()
    for name in names:
        listed = api.request(
            "GET", f"/dags/{name}_stream/dagRuns", params={"order_by": "-run_after", "limit": 20}
        )
        for run in listed["dag_runs"]:
            if run["start_date"] and datetime.fromisoformat(run["start_date"]).timestamp() >= since:
                states[run["state"]] += 1
    return states


def _report(
    streams: int, intervals: int, paused: dict[str, float], supervised: dict[str, float], runs: Counter[str]
) -> dict[str, Any]:
    seconds = intervals * INTERVAL_SECONDS
    extra = {
        name: supervised[name] - paused.get(name, 0.0) for name in supervised if name != "scheduler's loop"
    }
    return {
        "streams": streams,
        "measured_seconds": seconds,
        "runs": dict(runs),
        "cpu_seconds_paused": {k: round(v, 1) for k, v in paused.items()},
        "cpu_seconds_supervised": {k: round(v, 1) for k, v in supervised.items()},
        "cpu_seconds_per_stream_and_interval": round(sum(extra.values()) / (intervals * streams), 2),
        "scheduler_loop_percent_of_a_core": round(100 * supervised["scheduler's loop"] / seconds, 1),
        "scheduler_with_its_tasks_percent_of_a_core": round(
            100 * supervised["airflow-scheduler"] / seconds, 1
        ),
        "all_of_airflow_percent_of_a_core": round(
            100 * sum(v for k, v in supervised.items() if k.startswith("airflow")) / seconds, 1
        ),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--intervals", type=int, default=3)
    parser.add_argument("--out", type=Path, default=REPO / "build" / "bench-supervision.json")
    parser.add_argument("--inside", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        result = measure(options.inside, options.intervals)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=2) + "\n")
        print(json.dumps(result, indent=2))
        return 0
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        copy = Path(folder)
        names = generate(copy, options.streams)
        return subprocess.run(
            [
                *(sys.executable, "-m", "bench.supervision", "--intervals", str(options.intervals)),
                *("--out", str(options.out.resolve()), "--inside", *names),
            ],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": f"{copy / 'plugins'}:{copy}"},
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
