"""The ISP stream on a stack: a load of hits with every process killed on the way."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from typing import Any

from local.stack.stack import Stack, wait_until
from sluice.cli.airflow_api import DONE
from sluice.clients.lake.results.positions import read_positions
from sluice.core.errors import ClientError
from tests.support.processes import process_tree, signal_all
from tests.support.stream import StreamUnderTest

LOAD, STREAM = "isp_hits_load", "isp_hits_stream"
BACK_SECONDS = 240.0


class Course(StreamUnderTest):
    """The ISP stream on a stack; ``spec`` is its declaration as the stack runs it."""

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
            positions = read_positions(table, self.spec.queries)
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
        self, seconds: float, rounds: Sequence[Sequence[str]], **params: Any
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
