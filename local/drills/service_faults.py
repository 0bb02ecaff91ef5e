"""Faults of what the stream needs: database, broker, bucket, disk, Airflow."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from local.drills.consumer_faults import own, service_family, signal_all, suspend_between_append_and_publish
from local.drills.drill import (
    Drill,
    DrillContext,
    by_supervisord,
    detected_by_failed_run,
    detected_by_health,
    detected_by_runtime,
)
from local.drills.proxy import FaultProxy, Rule
from local.runtime import roles
from local.services import minio

AWAY_SECONDS = 180.0
AIRFLOW_KILLED = ("airflow-scheduler", "airflow-triggerer")


def _aim(context: DrillContext, program: str) -> list[psutil.Process]:
    """The processes of a program, whose id is remembered so that the next one can be told from it."""
    found = service_family(context.site, program)
    context.kept.setdefault("pids", {})[program] = found[0].pid
    return found


def _kill(context: DrillContext, program: str) -> None:
    processes = _aim(context, program)
    context.mark()
    signal_all(processes, signal.SIGKILL)


def kill_the_catalog_in_a_publish(context: DrillContext) -> None:
    """Suspended between append and publish, the consumer finds no database when it goes on."""
    caught = suspend_between_append_and_publish(context.site, lambda: own(context), context.feed)
    database = _aim(context, "postgres")
    context.mark()
    signal_all(database, signal.SIGKILL)
    signal_all(caught, signal.SIGCONT)


def kill_the_broker(context: DrillContext) -> None:
    _kill(context, "kafka")


def kill_minio(context: DrillContext) -> None:
    _kill(context, "minio")


def stop_the_broker(context: DrillContext) -> None:
    context.mark()
    context.site.stack.supervisor().stopProcess("kafka")


def start_the_broker(context: DrillContext) -> None:
    context.site.stack.supervisor().startProcess("kafka")


def kill_airflow_and_the_consumer(context: DrillContext) -> None:
    """Only the two processes themselves, as the kernel would when memory is short: their children stay."""
    caught = suspend_between_append_and_publish(context.site, lambda: own(context), context.feed)
    supervisors = [_aim(context, program)[0] for program in AIRFLOW_KILLED]
    context.mark()
    signal_all([*supervisors, *caught], signal.SIGKILL)


FILLER = "drill-filler"
# MinIO refuses a write that leaves less than 1 % of the disk.
_CHUNK = b"\0" * (4 * 1024 * 1024)


def behind_a_proxy(context: DrillContext) -> None:
    """The consumer, and nobody else, goes through the proxy; then the proxy refuses the table's data."""
    site = context.site
    proxy = FaultProxy(minio.url(site.stack.context))
    proxy.__enter__()
    context.kept["proxy"] = proxy
    documents = site.stack.platform_documents()
    documents["consumer"]["s3"]["endpoint"] = proxy.url
    roles.write(site.stack.home.platform, documents)
    _restart(context)
    place = urlsplit(site.table().metadata.location)
    data = f"^/{re.escape(place.netloc + place.path)}/data/"
    passed = len(proxy.seen)
    context.await_("a batch through the proxy", lambda: _put(proxy, data, passed), 120.0)
    context.mark()
    proxy.add(Rule(pattern=data, status=500, times=20))
    proxy.add(Rule(pattern=data, status=503))
    context.feed()


def _put(proxy: FaultProxy, pattern: str, after: int) -> bool:
    return any(one.method == "PUT" and re.search(pattern, one.target) for one in proxy.seen[after:])


def _restart(context: DrillContext) -> None:
    """Past Airflow, and faster than supervision calls it dead."""
    context.site.stop_stream()
    context.site.start_stream()


def answer_again(context: DrillContext) -> None:
    proxy: FaultProxy = context.kept["proxy"]
    context.say(f"the proxy refused {proxy.hits()} requests; no more from now on")
    proxy.clear()


def without_the_proxy(context: DrillContext) -> None:
    context.site.stack.write_platform_files()
    _restart(context)
    context.kept.pop("proxy").__exit__()


def disk(context: DrillContext) -> Path:
    """MinIO's data folder."""
    return context.site.stack.home.data / "minio"


def fill_the_disk(context: DrillContext) -> None:
    context.mark()
    filler = disk(context) / FILLER
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(_CHUNK)
        except OSError as error:
            left = os.statvfs(disk(context))
            context.say(
                f"{filler}: {error.strerror} after {file.tell():,} bytes; {left.f_bavail} blocks left"
            )


def empty_the_disk(context: DrillContext) -> None:
    (disk(context) / FILLER).unlink(missing_ok=True)


def a_disk_of_its_own(context: DrillContext) -> str:
    if disk(context).is_mount():
        return ""
    return (
        f"{disk(context)} is no file system of its own, and filling it up would fill the machine's disk; "
        "`make drill DRILL=disk_full` as root has one"
    )


DRILLS = [
    Drill(
        "catalog_killed",
        "kill -9 of PostgreSQL (catalog and Airflow's database) in the middle of a publish",
        kill_the_catalog_in_a_publish,
        [by_supervisord("postgres"), detected_by_health],
    ),
    Drill(
        "broker_killed",
        "kill -9 of Kafka's broker",
        kill_the_broker,
        [by_supervisord("kafka"), detected_by_health],
    ),
    Drill(
        "broker_away",
        f"Kafka's broker stopped for {AWAY_SECONDS:.0f} s",
        stop_the_broker,
        [detected_by_runtime, detected_by_health, detected_by_failed_run],
        repair=start_the_broker,
        repair_after=AWAY_SECONDS,
        recover_seconds=300.0,
    ),
    Drill(
        "minio_killed",
        "kill -9 of MinIO",
        kill_minio,
        [by_supervisord("minio"), detected_by_health],
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
        repair=answer_again,
        afterwards=without_the_proxy,
        detect_seconds=180.0,
    ),
    Drill(
        "disk_full",
        "MinIO's disk is full",
        fill_the_disk,
        [detected_by_runtime, detected_by_health, detected_by_failed_run],
        repair=empty_the_disk,
        needs=a_disk_of_its_own,
        detect_seconds=240.0,
    ),
]
