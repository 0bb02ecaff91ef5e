"""Faults, injected for real into processes that the tests' own stack started."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import psutil

from local.processes import of_stack
from local.stack import wait_until
from sluice.clients.keys import run_key
from tests.integration.rig import SPEC, Rig


def family(pid: int) -> list[psutil.Process]:
    """A process and all below it: the Python parent and its JVM."""
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


def signal_all(processes: list[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            continue  # it ended with its parent, which the signal was for too


def catch_between_append_and_publish(rig: Rig, tries: int = 8) -> list[psutil.Process]:
    """Send records, and suspend the consumer when its batch is appended and not yet published.

    Returns the suspended processes. The moment lasts some tenths of a second, so it may be missed: then the
    consumer goes on, and it is tried again with more records.
    """
    rig.wait_for_everything()
    for _ in range(tries):
        before = rig.metadata_location()
        rig.send({partition: rig.trips(20) for partition in range(SPEC.topic.partitions)})
        processes = family(rig.stream_info()["pid"])
        rig.wait_for_commit(before)
        signal_all(processes, signal.SIGSTOP)
        if rig.unpublished():
            return processes
        signal_all(processes, signal.SIGCONT)
        rig.wait_for_everything()
    raise AssertionError(f"missed the moment {tries} times")


def producer_jvm(rig: Rig, run_id: str) -> psutil.Process | None:
    """The spark-submit JVM of a run's produce task."""
    plan = run_key(run_id, "plan")
    for process in of_stack(rig.stack.home.id):
        try:
            command = process.cmdline()
        except psutil.NoSuchProcess:
            continue
        # Not spark-submit's short-lived launcher, which is given the same words.
        if "org.apache.spark.deploy.SparkSubmit" in command and any(word.endswith(plan) for word in command):
            return process
    return None


def wait_half_way(rig: Rig, run_id: str, rows: int, then: Callable[[psutil.Process], None]) -> int:
    """Do ``then`` to a run's producer as soon as some of its rows are on the topic; returns how many were."""
    before = sum(after for _, after in rig.bounds().values())
    found: list[psutil.Process] = []

    def started() -> bool:
        process = producer_jvm(rig, run_id)
        if process:
            found.append(process)
        return bool(found)

    wait_until("the producer to start", started, 180, 0.1)
    wait_until("its first rows", lambda: sum(a for _, a in rig.bounds().values()) > before, 180, 0.01)
    then(found[-1])
    sent = sum(after for _, after in rig.bounds().values()) - before
    assert 0 < sent < rows, f"not half-way: {sent} of {rows}"
    return sent
