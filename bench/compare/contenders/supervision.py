"""What supervision costs: idle streams whose consumers hold the writer lease, on a stack with Airflow.

Each stream has a topic, a table with one snapshot, and a consumer without Spark
(``bench/compare/contenders/idle_consumer.py``), so every run of its DAG finds it healthy.
"""

from __future__ import annotations

import time
from datetime import datetime

from bench.compare.contenders.jobs import check
from bench.compare.figures import Figures
from bench.compare.meter import Meter, S3Calls
from bench.compare.stack import BenchStack
from local.stack.stack import wait_until
from tests.support.stream import StreamUnderTest

INTERVAL_SECONDS = 120.0
# Until the DAGs are parsed, and until the first runs are through.
PARSE_SECONDS, SETTLE_SECONDS = 240.0, 180.0
LEASE_SECONDS = 120.0


class IdleStreams:
    """The streams of a stack, paused at first."""

    def __init__(self, bench: BenchStack, names: list[str]) -> None:
        self.bench, self.api = bench, bench.stack.airflow()
        self.streams = [StreamUnderTest(bench.stack, bench.spec(name)) for name in names]
        for stream in self.streams:
            bench.stack.daemon.proxy().startProcess(stream.spec.program, False)
        wait_until("all leases", lambda: all(stream.epoch() for stream in self.streams), LEASE_SECONDS)
        for stream in self.streams:
            self.api.wait_for_dag(stream.supervision, PARSE_SECONDS)

    def measure(self, supervised: bool, intervals: int) -> Figures:
        """Figures per interval. Raises RuntimeError if a run of the DAGs failed meanwhile."""
        for stream in self.streams:
            (self.api.unpause if supervised else self.api.pause)(stream.supervision)
        time.sleep(SETTLE_SECONDS if supervised else SETTLE_SECONDS / 3)
        since, calls, meter = time.time(), S3Calls(self.bench.stack), Meter(self._programs())
        meter.step()
        time.sleep(intervals * INTERVAL_SECONDS)
        meter.step()
        states = [state for stream in self.streams for state in runs(stream, since)]
        check("failed runs of supervision", states.count("failed"), 0)
        cpu = {name: meter.spent(name) for name in meter.samples}
        spent = {"cpu_seconds": sum(cpu.values()), "runs": float(len(states)), **calls.figures()}
        spent |= {f"cpu_seconds.{name}": value for name, value in cpu.items() if "idle" not in name}
        return {name: round(value / intervals, 3) for name, value in spent.items()}

    def _programs(self) -> dict[str, int]:
        listed = self.bench.stack.daemon.proxy().getAllProcessInfo()
        return {info["name"]: info["pid"] for info in listed if info["pid"]}


def runs(stream: StreamUnderTest, since: float) -> list[str]:
    """The states of the supervision's runs that started after ``since``."""
    started = [(run["start_date"], run["state"]) for run in stream.runs(stream.supervision)]
    return [state for date, state in started if date and datetime.fromisoformat(date).timestamp() >= since]
