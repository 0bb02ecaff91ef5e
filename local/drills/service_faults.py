"""Faults of what the stream needs: database, broker, bucket, disk, Airflow."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from local.drills.consumer_faults import own, service_family, signal_all, suspend_between_append_and_publish
from local.drills.drill import Drill, DrillContext, by_red_run, by_runtime, by_supervisord, by_verdict
from local.drills.proxy import FaultProxy, Rule
from local.runtime import roles
from local.services import minio

AWAY_SECONDS = 180.0
AIRFLOW_KILLED = ("airflow-scheduler", "airflow-triggerer")


def _aim(scene: DrillContext, program: str) -> list[psutil.Process]:
    """The processes of a program, whose id is remembered so that the next one can be told from it."""
    found = service_family(scene.site, program)
    scene.kept.setdefault("pids", {})[program] = found[0].pid
    return found


def _kill(scene: DrillContext, program: str) -> None:
    processes = _aim(scene, program)
    scene.mark()
    signal_all(processes, signal.SIGKILL)


def kill_the_catalog_in_a_publish(scene: DrillContext) -> None:
    """Suspended between append and publish, the consumer finds no database when it goes on."""
    caught = suspend_between_append_and_publish(scene.site, lambda: own(scene), scene.feed)
    database = _aim(scene, "postgres")
    scene.mark()
    signal_all(database, signal.SIGKILL)
    signal_all(caught, signal.SIGCONT)


def kill_the_broker(scene: DrillContext) -> None:
    _kill(scene, "kafka")


def kill_minio(scene: DrillContext) -> None:
    _kill(scene, "minio")


def stop_the_broker(scene: DrillContext) -> None:
    scene.mark()
    scene.site.stack.supervisor().stopProcess("kafka")


def start_the_broker(scene: DrillContext) -> None:
    scene.site.stack.supervisor().startProcess("kafka")


def kill_airflow_and_the_consumer(scene: DrillContext) -> None:
    """Only the two processes themselves, as the kernel would when memory is short: their children stay."""
    caught = suspend_between_append_and_publish(scene.site, lambda: own(scene), scene.feed)
    supervisors = [_aim(scene, program)[0] for program in AIRFLOW_KILLED]
    scene.mark()
    signal_all([*supervisors, *caught], signal.SIGKILL)


FILLER = "drill-filler"
# MinIO refuses a write that leaves less than 1 % of the disk.
_CHUNK = b"\0" * (4 * 1024 * 1024)


def behind_a_proxy(scene: DrillContext) -> None:
    """The consumer, and nobody else, goes through the proxy; then the proxy refuses the table's data."""
    site = scene.site
    proxy = FaultProxy(minio.url(site.stack.context))
    proxy.__enter__()
    scene.kept["proxy"] = proxy
    documents = site.stack.platform_documents()
    documents["consumer"]["s3"]["endpoint"] = proxy.url
    roles.write(site.stack.home.platform, documents)
    _restart(scene)
    place = urlsplit(site.table().metadata.location)
    data = f"^/{re.escape(place.netloc + place.path)}/data/"
    passed = len(proxy.seen)
    scene.await_("a batch through the proxy", lambda: _put(proxy, data, passed), 120.0)
    scene.mark()
    proxy.add(Rule(pattern=data, status=500, times=20))
    proxy.add(Rule(pattern=data, status=503))
    scene.feed()


def _put(proxy: FaultProxy, pattern: str, after: int) -> bool:
    return any(one.method == "PUT" and re.search(pattern, one.target) for one in proxy.seen[after:])


def _restart(scene: DrillContext) -> None:
    """Past Airflow, and faster than supervision calls it dead."""
    scene.site.stop_stream()
    scene.site.start_stream()


def answer_again(scene: DrillContext) -> None:
    proxy: FaultProxy = scene.kept["proxy"]
    scene.say(f"the proxy refused {proxy.hits()} requests; no more from now on")
    proxy.clear()


def without_the_proxy(scene: DrillContext) -> None:
    scene.site.stack.write_platform_files()
    _restart(scene)
    scene.kept.pop("proxy").__exit__()


def disk(scene: DrillContext) -> Path:
    """MinIO's data folder."""
    return scene.site.stack.home.data / "minio"


def fill_the_disk(scene: DrillContext) -> None:
    scene.mark()
    filler = disk(scene) / FILLER
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(_CHUNK)
        except OSError as error:
            left = os.statvfs(disk(scene))
            scene.say(f"{filler}: {error.strerror} after {file.tell():,} bytes; {left.f_bavail} blocks left")


def empty_the_disk(scene: DrillContext) -> None:
    (disk(scene) / FILLER).unlink(missing_ok=True)


def a_disk_of_its_own(scene: DrillContext) -> str:
    if disk(scene).is_mount():
        return ""
    return (
        f"{disk(scene)} is no file system of its own, and filling it up would fill the machine's disk; "
        "`make drill DRILL=disk_full` as root has one"
    )


DRILLS = [
    Drill(
        "catalog_killed",
        "kill -9 of PostgreSQL (catalog and Airflow's database) in the middle of a publish",
        kill_the_catalog_in_a_publish,
        [by_supervisord("postgres"), by_verdict],
    ),
    Drill(
        "broker_killed",
        "kill -9 of Kafka's broker",
        kill_the_broker,
        [by_supervisord("kafka"), by_verdict],
    ),
    Drill(
        "broker_away",
        f"Kafka's broker stopped for {AWAY_SECONDS:.0f} s",
        stop_the_broker,
        [by_runtime, by_verdict, by_red_run],
        mend=start_the_broker,
        mend_after=AWAY_SECONDS,
        recover_seconds=300.0,
    ),
    Drill(
        "minio_killed",
        "kill -9 of MinIO",
        kill_minio,
        [by_supervisord("minio"), by_verdict],
    ),
    Drill(
        "airflow_killed",
        "kill -9 of Airflow's scheduler and triggerer, and of the consumer in a batch",
        kill_airflow_and_the_consumer,
        [by_runtime, by_verdict],
        notice_seconds=240.0,
    ),
    Drill(
        "bucket_errors",
        "MinIO answers 500 and 503 for the prefix of the table's data only",
        behind_a_proxy,
        [by_runtime, by_verdict],
        mend=answer_again,
        afterwards=without_the_proxy,
        notice_seconds=180.0,
    ),
    Drill(
        "disk_full",
        "MinIO's disk is full",
        fill_the_disk,
        [by_runtime, by_verdict, by_red_run],
        mend=empty_the_disk,
        needs=a_disk_of_its_own,
        notice_seconds=240.0,
    ),
]
