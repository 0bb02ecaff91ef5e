"""Faults of the stream's services: database, broker, bucket, disk, Airflow."""

from __future__ import annotations

import os
import re
import signal
from functools import partial
from pathlib import Path

import psutil

from local.drills.consumer_faults import process_tree, signal_all, suspend_in_a_batch
from local.drills.drill import (
    Drill,
    DrillContext,
    detected_by_failed_run,
    detected_by_health,
    detected_by_runtime,
    detected_by_supervisord,
)
from local.drills.proxy import FaultProxy, FaultRule
from local.runtime import roles
from local.services import minio
from sluice.clients.s3.requests import split

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
    """Suspended between append and publish, the consumer finds no database when it resumes."""
    caught = suspend_in_a_batch(context)
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
    caught = suspend_in_a_batch(context)
    supervisors = [_target(context, program)[0] for program in AIRFLOW_KILLED]
    context.record_injection()
    signal_all([*supervisors, *caught], signal.SIGKILL)


FILLER = "drill-filler"
# MinIO refuses a write that leaves less than 1 % of the disk.
_CHUNK = b"\0" * (4 * 1024 * 1024)


def behind_a_proxy(context: DrillContext) -> None:
    """Only the consumer uses the proxy, which then refuses the table's data."""
    stream = context.stream
    proxy = FaultProxy(minio.url(stream.stack.context))
    proxy.__enter__()
    context.state["proxy"] = proxy
    documents = stream.stack.platform_documents()
    documents["consumer"]["s3"]["endpoint"] = proxy.url
    roles.write(stream.stack.home.platform, documents)
    _restart(context)
    data = f"^/{re.escape('/'.join(split(stream.table().metadata.location)))}/data/"
    earlier = len(proxy.requests)
    context.wait_for("a batch through the proxy", lambda: _put(proxy, data, earlier), 120.0)
    context.record_injection()
    proxy.add(FaultRule(data, 500, times=20))
    proxy.add(FaultRule(data, 503))
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


def remove_the_proxy(context: DrillContext) -> None:
    context.stream.stack.write_platform_files()
    _restart(context)
    context.state.pop("proxy").__exit__()


def minio_data(context: DrillContext) -> Path:
    return context.stream.stack.home.data / "minio"


def fill_the_disk(context: DrillContext) -> None:
    context.record_injection()
    filler = minio_data(context) / FILLER
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(_CHUNK)
        except OSError as error:
            left = os.statvfs(minio_data(context))
            context.say(
                f"{filler}: {error.strerror} after {file.tell():,} bytes; {left.f_bavail} blocks left"
            )


def empty_the_disk(context: DrillContext) -> None:
    (minio_data(context) / FILLER).unlink(missing_ok=True)


def shares_a_disk(context: DrillContext) -> str:
    if minio_data(context).is_mount():
        return ""
    return (
        f"{minio_data(context)} is no file system of its own: filling it would fill the machine's disk. "
        "Fix: run `make drill DRILL=disk_full` as root"
    )


DRILLS = [
    Drill(
        "catalog_killed",
        "kill -9 of PostgreSQL (catalog and Airflow's database) during a publish",
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
        f"Kafka's broker stopped for {OUTAGE_SECONDS:.0f} s",
        stop_the_broker,
        [detected_by_runtime, detected_by_health, detected_by_failed_run],
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
        "MinIO answers 500 and 503 for the prefix of the table's data only",
        behind_a_proxy,
        [detected_by_runtime, detected_by_health],
        repair=stop_refusing,
        afterwards=remove_the_proxy,
        detect_seconds=180.0,
    ),
    Drill(
        "disk_full",
        "MinIO's disk is full",
        fill_the_disk,
        [detected_by_runtime, detected_by_health, detected_by_failed_run],
        repair=empty_the_disk,
        unavailable=shares_a_disk,
        detect_seconds=240.0,
    ),
]
