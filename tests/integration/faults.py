"""Faults, injected for real into processes that the tests' own stack started."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from local.runtime.processes import stack_processes
from local.stack.stack import wait_until
from sluice.config.stream import ENTRY_POINT
from sluice.core.processes import exits
from sluice.ledger.keys import run_key
from tests.integration.rig import SPEC, Rig
from tests.support.processes import process_tree, signal_all, suspend_between_stage_and_publish

PRODUCER_SECONDS = 400
LAUNCHER = "org.apache.spark.launcher.Main"
CONSUMER_SECONDS = 200


def catch_between_stage_and_publish(rig: Rig) -> list[psutil.Process]:
    """Send records, and suspend the consumer when its batch is staged and not yet published."""
    rig.wait_for_everything()
    bodies = {partition: rig.trips(20) for partition in range(SPEC.topic.partitions)}
    return suspend_between_stage_and_publish(rig, lambda: rig.send(bodies))


@contextmanager
def second_consumer(rig: Rig) -> Iterator[subprocess.Popen[bytes]]:
    """A consumer of the stream that supervisord does not know; ends well when it is told to."""
    process = subprocess.Popen(
        [sys.executable, *SPEC.component("consumer").arguments], env=rig.stack.context.job_environment()
    )
    try:
        yield process
    finally:
        process.terminate()
        code = process.wait(CONSUMER_SECONDS)
    assert code == exits.STOPPED


class Producers:
    """The producers of one load's plan: the spark-submit JVM of its produce task, and others by hand."""

    def __init__(self, rig: Rig, run_id: str, rows: int) -> None:
        self.rig = rig
        self.plan = run_key(run_id, "plan")
        self.rows = rows
        self.before = self.total()
        self.known: list[psutil.Process] = []

    def total(self) -> int:
        """How many records there are on the topic."""
        return sum(after for _, after in self.rig.bounds().values())

    def suspend_half_way(self) -> list[psutil.Process]:
        """Wait for a producer that is not known yet, and suspend all of its processes as soon as some of its
        rows are sent: those that send are Python's, children of its JVM."""
        wait_until("the producer to start", self._find, PRODUCER_SECONDS, 0.1)
        found, before = self.known[-1], self.total()
        wait_until("its first rows", lambda: self.total() > before, PRODUCER_SECONDS, 0.01)
        processes = process_tree(found.pid)
        signal_all(processes, signal.SIGSTOP)
        # Those that were forked meanwhile.
        signal_all(process_tree(found.pid), signal.SIGSTOP)
        sent = self.total() - self.before
        assert 0 < sent < self.rows, f"not half-way: {sent} of {self.rows}"
        return process_tree(found.pid)

    def _find(self) -> bool:
        for process in stack_processes(self.rig.stack.home.id):
            try:
                command = process.cmdline()
            except psutil.NoSuchProcess:
                continue
            # Not spark-submit's short-lived launcher, which is given the same words.
            is_jvm = "org.apache.spark.deploy.SparkSubmit" in command and LAUNCHER not in command
            if is_jvm and process not in self.known and any(w.endswith(self.plan) for w in command):
                self.known.append(process)
                return True
        return False

    @contextmanager
    def another(self) -> Iterator[subprocess.Popen[bytes]]:
        """The same job again, as a person would start it."""
        words = self.known[-1].cmdline()
        command = [
            str(Path(sys.executable).parent / "spark-submit"),
            *("--master", "local[2]", str(ENTRY_POINT), "producer", SPEC.name),
            *("--plan", words[words.index("--plan") + 1]),
        ]
        process = subprocess.Popen(command, env=self.rig.stack.context.job_environment())
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def wait_for_produce(rig: Rig, run_id: str, dag: str) -> None:
    """Until a load's produce task has ended well."""

    def produced() -> bool:
        states = {task["task_id"]: task["state"] for task in rig.airflow.tasks(dag, run_id)}
        assert states["produce"] not in ("failed", "upstream_failed"), states
        return bool(states["produce"] == "success")

    wait_until("the rows to be produced", produced, PRODUCER_SECONDS)
