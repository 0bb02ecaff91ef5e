"""What the stream needs dies, or is away: the database, the broker, the bucket's server, Airflow itself."""

from __future__ import annotations

import signal

import psutil

from local.drills.consumer import own
from local.drills.drill import Drill, Scene
from local.drills.faults import service_family, signal_all, suspend_between_append_and_publish
from local.drills.notices import by_red_run, by_supervisord, by_verdict

AWAY_SECONDS = 180.0
AIRFLOW_KILLED = ("airflow-scheduler", "airflow-triggerer")


def _aim(scene: Scene, program: str) -> list[psutil.Process]:
    """The processes of a program, whose id is remembered so that the next one can be told from it."""
    found = service_family(scene.site, program)
    scene.kept.setdefault("pids", {})[program] = found[0].pid
    return found


def _kill(scene: Scene, program: str) -> None:
    processes = _aim(scene, program)
    scene.mark()
    signal_all(processes, signal.SIGKILL)


def kill_the_catalog_in_a_publish(scene: Scene) -> None:
    """Suspended between append and publish, the consumer finds no database when it goes on."""
    caught = suspend_between_append_and_publish(scene.site, lambda: own(scene), scene.feed)
    database = _aim(scene, "postgres")
    scene.mark()
    signal_all(database, signal.SIGKILL)
    signal_all(caught, signal.SIGCONT)


def kill_the_broker(scene: Scene) -> None:
    _kill(scene, "kafka")


def kill_minio(scene: Scene) -> None:
    _kill(scene, "minio")


def stop_the_broker(scene: Scene) -> None:
    scene.mark()
    scene.site.stack.supervisor().stopProcess("kafka")


def start_the_broker(scene: Scene) -> None:
    scene.site.stack.supervisor().startProcess("kafka")


def kill_airflow_and_the_consumer(scene: Scene) -> None:
    """Only the two processes themselves, as the kernel would when memory is short: their children stay."""
    caught = suspend_between_append_and_publish(scene.site, lambda: own(scene), scene.feed)
    supervisors = [_aim(scene, program)[0] for program in AIRFLOW_KILLED]
    scene.mark()
    signal_all([*supervisors, *caught], signal.SIGKILL)


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
        [by_verdict, by_red_run],
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
        [by_verdict],
        notice_seconds=240.0,
    ),
]
