"""Faults of the stream's services: database, broker, bucket, disk, Airflow."""

from __future__ import annotations

import os
import re
import signal
from functools import partial

import psutil

from local.runtime import roles
from local.services import minio
from sluice.clients.s3.requests import split
from tests.drills.detectors import (
    detected_by_failed_run,
    detected_by_health,
    detected_by_runtime,
    detected_by_supervisord,
)
from tests.drills.drill import Drill, DrillContext
from tests.drills.restore import filler
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.processes import process_tree, signal_all, suspend_between_stage_and_publish

OUTAGE_SECONDS = 180.0
AIRFLOW_KILLED = ("airflow-scheduler", "airflow-triggerer")


def _target(context: DrillContext, program: str) -> list[psutil.Process]:
    found = process_tree(int(context.stream.process(program)["pid"]))
    # The id distinguishes the restarted process.
    context.state.setdefault("pids", {})[program] = found[0].pid
    return found


def kill(context: DrillContext, program: str) -> None:
    processes = _target(context, program)
    context.record_injection()
    signal_all(processes, signal.SIGKILL)


def kill_the_catalog_in_a_publish(context: DrillContext) -> None:
    """Suspended between stage and publish, the consumer finds no database when it resumes."""
    caught = suspend_between_stage_and_publish(context.stream, context.send_batch)
    database = _target(context, "postgres")
    context.record_injection()
    signal_all(database, signal.SIGKILL)
    signal_all(caught, signal.SIGCONT)


def stop_the_broker(context: DrillContext) -> None:
    context.record_injection()
    context.stream.stack.daemon.proxy().stopProcess("kafka")


def start_the_broker(context: DrillContext) -> None:
    context.stream.stack.daemon.proxy().startProcess("kafka")


def kill_airflow_and_the_consumer(context: DrillContext) -> None:
    """Only the two processes themselves, as the kernel's OOM killer would: their children stay."""
    caught = suspend_between_stage_and_publish(context.stream, context.send_batch)
    supervisors = [_target(context, program)[0] for program in AIRFLOW_KILLED]
    context.record_injection()
    signal_all([*supervisors, *caught], signal.SIGKILL)


# MinIO refuses a write that leaves less than 1 % of the disk.
_CHUNK = b"\0" * (4 * 1024 * 1024)


def behind_a_proxy(context: DrillContext) -> None:
    """Only the consumer uses the proxy, which then refuses the table's data."""
    stream = context.stream
    proxy = context.cleanup.enter_context(FaultProxy(minio.url(stream.stack.context)))
    context.state["proxy"] = proxy
    documents = stream.stack.platform_documents()
    documents["consumer"]["s3"]["endpoint"] = proxy.url
    roles.write(stream.stack.home.platform, documents)
    _restart(context)
    data = f"^/{re.escape('/'.join(split(stream.table().metadata.location)))}/data/"
    earlier = len(proxy.requests)
    context.wait_for("a batch through the proxy", lambda: _put(proxy, data, earlier), 120.0)
    context.record_injection()
    proxy.add(Fault(data, status=500, times=20))
    proxy.add(Fault(data, status=503))
    context.send_batch()


def _put(proxy: FaultProxy, pattern: str, after: int) -> bool:
    return any(one.method == "PUT" and re.search(pattern, one.target) for one in proxy.requests[after:])


def _restart(context: DrillContext) -> None:
    # Before supervision finds it down.
    context.stream.stop_stream()
    context.stream.start_stream()


def stop_refusing(context: DrillContext) -> None:
    proxy: FaultProxy = context.state["proxy"]
    context.say(f"the proxy refused {proxy.matches()} requests, none from now on")
    proxy.clear()


def bypass_the_proxy(context: DrillContext) -> None:
    context.stream.stack.write_platform_files()
    _restart(context)


def fill_the_disk(context: DrillContext) -> None:
    context.record_injection()
    path = filler(context.stream)
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(_CHUNK)
        except OSError as error:
            left = os.statvfs(path.parent).f_bavail
            context.say(f"{path}: {error.strerror} after {file.tell():,} bytes; {left} blocks left")


def empty_the_disk(context: DrillContext) -> None:
    filler(context.stream).unlink(missing_ok=True)


def shares_a_disk(context: DrillContext) -> str:
    disk = filler(context.stream).parent
    if disk.is_mount():
        return ""
    return (
        f"{disk} is no file system of its own: filling it would fill the machine's disk. "
        "Fix: run the drill as root, on a stack of its own"
    )


DRILLS = [
    Drill(
        "catalog_killed",
        "kill -9 of PostgreSQL during a publish",
        kill_the_catalog_in_a_publish,
        [detected_by_supervisord("postgres"), detected_by_health],
    ),
    Drill(
        "broker_killed",
        "kill -9 of Kafka's broker",
        partial(kill, program="kafka"),
        [detected_by_supervisord("kafka"), detected_by_health],
    ),
    Drill(
        "broker_away",
        "Kafka's broker is unreachable for three minutes",
        stop_the_broker,
        [detected_by_runtime, detected_by_health, detected_by_failed_run("stream")],
        repair=start_the_broker,
        repair_after=OUTAGE_SECONDS,
        recover_seconds=300.0,
    ),
    Drill(
        "minio_killed",
        "kill -9 of MinIO",
        partial(kill, program="minio"),
        [detected_by_supervisord("minio"), detected_by_health],
    ),
    Drill(
        "airflow_killed",
        "kill -9 of Airflow's scheduler and triggerer, and of the consumer in a batch",
        kill_airflow_and_the_consumer,
        [detected_by_runtime, detected_by_health],
        detect_seconds=240.0,
    ),
    Drill(
        "bucket_errors",
        "MinIO answers 500 and 503 for the table's data only",
        behind_a_proxy,
        [detected_by_runtime, detected_by_health],
        repair=stop_refusing,
        afterwards=bypass_the_proxy,
        detect_seconds=180.0,
    ),
    Drill(
        "disk_full",
        "MinIO's disk is full",
        fill_the_disk,
        [detected_by_runtime, detected_by_health, detected_by_failed_run("stream")],
        repair=empty_the_disk,
        unavailable=shares_a_disk,
        detect_seconds=240.0,
    ),
]
