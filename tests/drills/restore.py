"""Restores a stack after a drill, whatever the fault and wherever it was interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psutil

from local.runtime.processes import describe, stack_processes
from local.stack import health
from sluice.clients.polling import wait_for
from tests.support.processes import process_tree, resume_all
from tests.support.stream import GOING, StreamUnderTest

_ORPHANS = ("airflow worker", "sluice.airflow.database scheduler", "airflow triggerer")
SERVICES_SECONDS = 180.0


def filler(stream: StreamUnderTest) -> Path:
    """The file with which a drill fills MinIO's disk."""
    return stream.stack.home.data / "minio" / "drill-filler"


def restore(stream: StreamUnderTest, say: Callable[[str], None]) -> None:
    """Idempotent; says each repair.

    Ends unmanaged consumers, resumes suspended processes, removes the disk's filler, writes the platform
    files (and stops a consumer that had others: supervision restarts it), and starts the services.
    """
    done: list[str] = []
    for consumer in unmanaged_processes(stream):
        # In this order: a suspended one must not publish again before it ends.
        for process in [*consumer.children(recursive=True), consumer]:
            process.kill()
        done.append(f"ended {describe(consumer)}, an unmanaged consumer")
    resumed = resume_all(stream)
    if resumed:
        done.append(f"resumed {', '.join(map(describe, resumed))}")
    if filler(stream).exists():
        filler(stream).unlink()
        done.append(f"removed {filler(stream)}")
    if stream.stack.write_platform_files():
        stream.stop_stream()
        done.append("wrote the platform files, and stopped the consumer that had others")
    done += _end_orphans(stream)
    for name, info in stream.stack.daemon.states().items():
        if not name.startswith("stream-") and info["statename"] not in GOING:
            stream.stack.daemon.ensure_started(name)
            done.append(f"started {name}")
    for line in done:
        say(f"repaired: {line}")
    wait_for_services(stream)


def unmanaged_processes(stream: StreamUnderTest) -> list[psutil.Process]:
    """Consumers of the stream that run outside supervisord, without their descendants."""
    managed = {process.pid for process in process_tree(int(stream.process()["pid"]))}
    found: list[psutil.Process] = []
    for process in stack_processes(stream.stack.home.id):
        try:
            words = process.cmdline()
        except psutil.NoSuchProcess:
            continue
        if process.pid not in managed and words[1:] == [*stream.spec.component("consumer").arguments]:
            found.append(process)
    return found


def wait_for_services(stream: StreamUnderTest) -> None:
    """Wait until every service is healthy. Raises TimeoutError naming those that are not."""

    def unhealthy() -> list[str]:
        rows = health.rows(stream.stack.context, stream.stack.daemon.states())
        return [f"{row.name}: {row.health}" for row in rows if row.is_ok is False]

    found = wait_for(unhealthy, SERVICES_SECONDS, 1, lambda found: not found)
    if found:
        raise TimeoutError(f"not healthy {SERVICES_SECONDS:.0f} s after the drill: {'; '.join(found)}")


def _end_orphans(stream: StreamUnderTest) -> list[str]:
    # Workers of a killed scheduler wait for ever with 200 MB each; one with a child still runs a task.
    ended = []
    for process in stack_processes(stream.stack.home.id):
        try:
            is_airflow = any(word in " ".join(process.cmdline()) for word in _ORPHANS)
            if process.ppid() == 1 and is_airflow and not process.children():
                process.kill()
                ended.append(f"ended {describe(process)}, whose parent was killed")
        except psutil.NoSuchProcess:
            continue
    return ended
