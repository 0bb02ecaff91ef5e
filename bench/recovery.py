"""How long until a consumer that was killed with -9 publishes again?

Starts a stack of its own, with a constant load on the taxi stream. Kills the consumer (Python, JVM), not
its parent process, which restarts it; and measures until a snapshot of a later writer with rows is on main.
Airflow does not run.

    python -m bench.recovery [--kills 20] [--out build/recovery.json]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from bench.compare.figures import percentile
from local.stack.stack import Stack, wait_until
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.processes.parent import WORKED_SECONDS
from sluice.config import stream as streams
from tests.support.processes import component_processes, signal_all
from tests.support.stream import StreamUnderTest
from tests.support.traffic import PER_SECOND, TrafficGenerator

LIMIT_SECONDS = 300.0
POLL_SECONDS = 0.05


def cpu_seconds(stream: StreamUnderTest) -> float:
    """Processor time of the component since its start: what a start costs does not depend on other load."""
    total = 0.0
    for process in component_processes(stream, stream.spec.program):
        # A short-lived child, as a fork of PySpark's, may have ended meanwhile.
        with contextlib.suppress(psutil.NoSuchProcess):
            spent = process.cpu_times()
            total += spent.user + spent.system
    return round(total, 1)


def java_processes(stream: StreamUnderTest, program: str) -> list[int]:
    """The process ids of a component's JVMs."""
    found = []
    for process in component_processes(stream, program):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name() == "java":
                found.append(process.pid)
    return found


def memory_megabytes(stream: StreamUnderTest) -> dict[str, float]:
    """Resident memory of the parent process, and of the component below it."""
    parent = psutil.Process(int(stream.process()["pid"]))
    component = component_processes(stream, stream.spec.program)
    resident = 0
    for process in component:
        with contextlib.suppress(psutil.NoSuchProcess):
            resident += process.memory_info().rss
    return {
        "parent": round(parent.memory_info().rss / 2**20, 1),
        "component": round(resident / 2**20, 1),
    }


class Recovery:
    """The taxi stream of a stack, published and killed."""

    def __init__(self, stack: Stack) -> None:
        self.stream = StreamUnderTest(stack, streams.load("nyc_taxi"))
        self.load = TrafficGenerator(self.stream)

    def begin(self) -> float:
        """Start the stream and its load; returns the seconds until the first snapshot with rows."""
        KafkaAdmin(self.stream.stack.platform("airflow").kafka).provision(self.stream.spec.topic)
        self.load.start()
        started = time.time()
        self.stream.stack.daemon.proxy().startProcess(self.stream.spec.program)
        wait_until("the first writer", lambda: self.stream.epoch() > 0, LIMIT_SECONDS)
        wait_until("the first rows", lambda: self._rows_of(1) is not None, LIMIT_SECONDS)
        return time.time() - started

    def kill(self) -> float:
        """Seconds from the kill until a later writer's rows are on main."""
        self._wait_until_it_worked()
        epoch = self.stream.epoch()
        processes = component_processes(self.stream, self.stream.spec.program)
        killed = time.time()
        signal_all(processes, signal.SIGKILL)
        location: str | None = ""
        while time.time() < killed + LIMIT_SECONDS:
            now = self.stream.metadata_location()
            # The pointer costs no S3 call, so this does not compete with the consumer.
            if now != location:
                location, at = now, time.time()
                if self._rows_of(epoch + 1) is not None:
                    return at - killed
            time.sleep(POLL_SECONDS)
        raise TimeoutError(
            f"no rows on main {LIMIT_SECONDS:.0f} s after the kill: {self.stream.status().message()}"
        )

    def _wait_until_it_worked(self) -> None:
        # Otherwise the runtime would delay the next restart.
        since = self.stream.status().since or 0.0
        time.sleep(max(since + WORKED_SECONDS + 1 - time.time(), 0.0))

    def _rows_of(self, epoch: int) -> float | None:
        # The time of the first batch of a writer from ``epoch`` on.
        batches = (c for c in self.stream.commits() if c.kind == "batch" and c.epoch >= epoch)
        return next((batch.at for batch in batches), None)


def measure(kills: int) -> dict[str, Any]:
    """The figures. Starts and removes a stack."""
    home = Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    stack = Stack(home / "stack", free_ports=True, with_airflow=False)
    try:
        stack.up()
        recovery = Recovery(stack)
        first = recovery.begin()
        print(f"first start: {first:.1f} s", flush=True)
        seconds, loads, cpu = [], [], []
        for number in range(kills):
            seconds.append(round(recovery.kill(), 2))
            cpu.append(cpu_seconds(recovery.stream))
            loads.append(round(os.getloadavg()[0], 2))
            print(f"kill {number + 1}: {seconds[-1]} s, {cpu[-1]} CPU s, load {loads[-1]}", flush=True)
        memory = memory_megabytes(recovery.stream)
        recovery.load.stop()
        return {
            "p50": percentile(seconds, 50),
            "p95": percentile(seconds, 95),
            "seconds": seconds,
            "first_start_seconds": round(first, 1),
            "cpu_seconds": cpu,
            "machine_load": loads,
            "cores": os.cpu_count(),
            "records_per_second": PER_SECOND,
            "rss_megabytes": memory,
        }
    finally:
        log = stack.home.logs / "stream-nyc_taxi.log"
        if log.exists():
            print(log.read_text(errors="replace")[-4000:], file=sys.stderr)
        stack.destroy()
        shutil.rmtree(home, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("build/recovery.json"))
    options = parser.parse_args()
    result = measure(options.kills)
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
