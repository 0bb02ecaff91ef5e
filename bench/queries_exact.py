"""Measures a load of hits through the windowed counts into a database and topics, with every process killed.

::

    python -m bench.queries_exact --hits 3000000 --rate 12000 --out build/bench-queries-exact.json

On a stack of its own. During one load the consumer, the queries, the database and the broker are killed (-9),
each after the recovery of the one before. The load succeeds only if every offset is in the lake once and
every sink has the lake's counts. Figures: wall time, CPU seconds by process, maximum heap of the queries.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.background import Background
from bench.recovery import java_processes
from bench.supervision import cpu_seconds, cpu_seconds_since
from local.setup.bootstrap import java_home
from local.stack.airflow_api import DONE
from local.stack.stack import Stack, wait_until
from sluice.clients.lake.results import recount as query_results
from sluice.config import stream
from sluice.core.errors import ClientError
from tests.support.processes import process_tree, signal_all
from tests.support.stream import StreamUnderTest

LOAD, STREAM = "isp_hits_load", "isp_hits_stream"
# In rounds: the next one begins when the counts have grown; those of one round at the same time.
KILLED = (("consumer",), ("queries",), ("postgres",), ("kafka",))
BACK_SECONDS = 240.0


class Course(StreamUnderTest):
    """The ISP stream on a stack; ``spec`` is its declaration as the stack runs it."""

    def begin(self) -> None:
        api = self.stack.airflow()
        for dag in (LOAD, STREAM):
            api.wait_for_dag(dag)
        api.unpause(LOAD)

    def program(self, name: str) -> str:
        """The program of a component or of a service."""
        return self.spec.components[name].program if name in self.spec.components else name

    def kill(self, name: str) -> bool:
        """Kill (-9) the process and its descendants, which the runtime restarts; whether it was running."""
        pid = self.pid(name)
        if pid:
            signal_all(process_tree(pid), signal.SIGKILL)
        wait_until(f"the start of {name}", lambda: self.pid(name) not in (None, pid), 90, 0.2)
        return bool(pid)

    def pid(self, name: str) -> int | None:
        """A component's own process, or a service's; a service has no parent process that reports."""
        if name in self.spec.components:
            return self.status(self.program(name)).pid
        return int(self.process(name)["pid"]) or None

    def counted(self) -> int:
        """The number of offsets that every query has counted; 0 if it is unknown."""
        try:
            table = self.lake.table(self.spec.queries_table)
            positions = query_results.read_positions(table, self.spec.queries)
        except ClientError:
            return 0
        return 0 if positions is None else sum(positions.ends.values())

    def break_all(self, rounds: Sequence[Sequence[str]], until: threading.Event) -> list[str]:
        """Kill round by round, each after the counts have grown; give the killed ones."""
        killed: list[str] = []
        for names in rounds:
            before, deadline = self.counted(), time.monotonic() + BACK_SECONDS
            while (
                (reached := self.counted()) <= before and time.monotonic() < deadline and not until.is_set()
            ):
                time.sleep(0.5)
            if until.is_set():
                break
            for name in names:
                if self.kill(name):
                    killed.append(name)
                    print(f"killed {name} at {reached:,} offsets", flush=True)
        return killed

    def load(
        self, seconds: float, rounds: Sequence[Sequence[str]] = KILLED, **params: Any
    ) -> tuple[str, str, list[str]]:
        """Run one load with the kills; give its id, its state and the killed ones."""
        api = self.stack.airflow()
        run = api.trigger(LOAD, params)
        over = threading.Event()
        killed: list[str] = []
        breaking = threading.Thread(target=lambda: killed.extend(self.break_all(rounds, over)))
        breaking.start()
        try:
            state = end_of_run(self.stack, LOAD, run, seconds)
        finally:
            over.set()
            breaking.join()
        return run, state, killed


def end_of_run(stack: Stack, dag: str, run: str, seconds: float) -> str:
    """The state of a run when it is done, or after ``seconds``, whether Airflow answers meanwhile or not."""
    deadline = time.monotonic() + seconds
    state = "unknown"
    while time.monotonic() < deadline:
        try:
            # With a new login: a killed database is Airflow's too.
            state = str(stack.airflow().run(dag, run)["state"])
        except Exception as error:  # any error of a server whose database is down, or that has no time
            print(f"Airflow does not answer: {type(error).__name__}", flush=True)
        if state in DONE:
            return state
        time.sleep(1)
    return state


class Heap(Background):
    """The maximum megabytes of a program's Java heap, sampled every 5 seconds with jstat."""

    def __init__(self, course: Course, component: str) -> None:
        super().__init__(5)
        self._course, self._component = course, component
        self.max = 0.0

    def step(self) -> None:
        for pid in java_processes(self._course, self._course.program(self._component)):
            self.max = max(self.max, _heap_megabytes(pid))


def _heap_megabytes(pid: int) -> float:
    jstat = Path(java_home()) / "bin" / "jstat"
    found = subprocess.run([jstat, "-gc", str(pid)], capture_output=True, text=True, check=False)
    lines = found.stdout.split("\n")
    if found.returncode != 0 or len(lines) < 2:
        return 0.0  # it ended just now
    values = dict(zip(lines[0].split(), lines[1].split(), strict=False))
    used = (values.get(name, "0") for name in ("S0U", "S1U", "EU", "OU"))
    return sum(0.0 if value == "-" else float(value) for value in used) / 1024


def _reconciliation(stack: Stack, run: str) -> Any:
    """The return value of the run's task reconcile_sinks."""
    path = f"/dags/{LOAD}/dagRuns/{run}/taskInstances/reconcile_sinks/xcomEntries/return_value"
    params = {"deserialize": "false", "stringify": "false"}
    return stack.airflow().request("GET", path, params=params)["value"]


def measure(hits: int, rate: int, hours: int, seconds: float) -> dict[str, Any]:
    """Measure one load with faults, on a new stack that is removed."""
    home = Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    stack = Stack(home / "stack", free_ports=True)
    try:
        stack.up()
        course = Course(stack, stream.load("isp_hits"))
        course.begin()
        began, before = time.monotonic(), cpu_seconds(stack)
        with Heap(course, "queries") as heap:
            run, state, killed = course.load(seconds, rows=hits, rows_per_second=rate, duration_hours=hours)
        spent = cpu_seconds_since(before, stack)
        tasks = {task["task_id"]: task["state"] for task in stack.airflow().tasks(LOAD, run)}
        print(tasks)
        checked = _reconciliation(stack, run) if state == "success" else None
        took = time.monotonic() - began
        return {
            "state": state,
            "hits": hits,
            "killed": killed,
            "seconds": round(took),
            "hits_per_second": round(hits / took),
            "max_heap_megabytes": round(heap.max),
            "checked": checked,
            "cpu_seconds": {name: round(value, 1) for name, value in spent.items() if value >= 1},
            "cores_busy": round(sum(spent.values()) / took, 2),
        }
    finally:
        stack.destroy()
        shutil.rmtree(home, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hits", type=int, default=3_000_000)
    parser.add_argument("--rate", type=int, default=12_000)
    parser.add_argument("--hours", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=3_600)
    parser.add_argument("--out", type=Path, default=Path("build/bench-queries-exact.json"))
    options = parser.parse_args()
    result = measure(options.hits, options.rate, options.hours, options.seconds)
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    return 0 if result["state"] == "success" and len(result["killed"]) == sum(map(len, KILLED)) else 1


if __name__ == "__main__":
    sys.exit(main())
