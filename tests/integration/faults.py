"""Faults, injected for real into processes that the tests' own stack started."""

from __future__ import annotations

from collections.abc import Callable

import psutil

from local.drills.faults import service_family, suspend_between_append_and_publish
from local.processes import of_stack
from local.stack import wait_until
from sluice.clients.keys import run_key
from tests.integration.rig import SPEC, Rig


def catch_between_append_and_publish(rig: Rig) -> list[psutil.Process]:
    """Send records, and suspend the consumer when its batch is appended and not yet published."""
    rig.wait_for_everything()
    return suspend_between_append_and_publish(
        rig,
        lambda: service_family(rig, SPEC.program),
        lambda: rig.send({partition: rig.trips(20) for partition in range(SPEC.topic.partitions)}),
    )


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
