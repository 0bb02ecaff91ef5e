"""`python -m local.setup [setup [ARTIFACT ...]|lock]`, in the tools environment: makes missing and damaged
artifacts; all that every stack has, or those named (`python`, `minio`, `registry`,
`rest-catalog`)."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from local import shell
from local.base import UsageError, cache, exit_code
from local.progress import ProgressDisplay, Step
from local.setup import bootstrap, build, lock
from local.setup.cache import (
    Artifact,
    cleanup,
    discard,
    environment,
    jars,
    locked,
    minio,
    registry,
    spark_classes,
)


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with ProgressDisplay() as board:
        home = bootstrap.java_home(install=True)
        if arguments[:1] == ["lock"]:
            with locked(cache(), board.say):
                lock.recompile(_work(), board)
                _ensure_environment(board)
                lock.rehash_jars(home, _work(), board)
                shutil.rmtree(_work())
            return 0
        parts = _parts(arguments[1:])
        # First without the lock: if all is complete there is nothing to wait for.
        if all(artifact.damage() is None for part in parts for artifact in _artifacts(part, home)):
            if arguments:
                board.say(f"everything is set up in {cache()}")
            return 0
        with locked(cache(), board.say):
            cleanup(cache())
            _ensure_all(home, board, parts)
            # 2 GB of downloads and compilers' caches.
            shutil.rmtree(_work())
        board.say(f"everything is set up in {cache()}")
    return 0


PYTHON, MINIO, REGISTRY, REST_CATALOG = "python", "minio", "registry", "rest-catalog"
NAMES = (PYTHON, MINIO, REGISTRY, REST_CATALOG)


def _parts(names: list[str]) -> list[str]:
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise UsageError(
            f"unknown artifacts {', '.join(unknown)}. Fix: give {', '.join(NAMES)}, or none for what every "
            "stack has"
        )
    return names or [MINIO, PYTHON]


def _artifacts(part: str, java_home: Path) -> list[Artifact]:
    if part == MINIO:
        return [minio()]
    if part == REGISTRY:
        return [registry()]
    if part == REST_CATALOG:
        return [jars(REST_CATALOG)]
    return [environment(), jars("spark"), jars("kafka"), spark_classes(java_home)]


def _work() -> Path:
    work = cache() / "work"
    work.mkdir(exist_ok=True)
    return work


def _ensure_all(java_home: Path, board: ProgressDisplay, parts: list[str]) -> None:
    def python_then_jars() -> None:
        if any(one.damage() for one in (environment(), jars("spark"))):
            # A JVM takes no archive of the same jars with other times. First: a set-up that is ended goes on.
            discard(spark_classes(java_home).path)
        # In this order: PySpark contains Ivy, which fetches the jars; the archive is made of both.
        _ensure_environment(board)
        for name in ("spark", "kafka"):
            _ensure(jars(name), f"{name} jars", partial(build.make_jar_set, name, java_home), board)
        make_archive = partial(build.make_class_archive, java_home)
        _ensure(spark_classes(java_home), "archive of Spark's classes", make_archive, board)

    def compiled() -> None:
        _ensure(minio(), "MinIO, compiled once", build.make_minio, board)

    def fetched() -> None:
        if PYTHON in parts:
            python_then_jars()
        # For PySpark's Ivy; an image's environment has fewer packages than it was made with.
        if {REGISTRY, REST_CATALOG} & set(parts) and not environment().exists():
            _ensure_environment(board)
        if REST_CATALOG in parts:
            make = partial(build.make_jar_set, REST_CATALOG, java_home)
            _ensure(jars(REST_CATALOG), "REST catalog, for stacks that choose it", make, board)
        if REGISTRY in parts:
            title = "schema registry, for streams that need one"
            _ensure(registry(), title, partial(build.make_registry, java_home), board)

    # MinIO compiles while the rest downloads.
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(compiled)] if MINIO in parts else []
        jobs.append(pool.submit(fetched))
        try:
            for job in jobs:
                job.result()
        except BaseException:
            shell.stop_all()
            raise


def _ensure_environment(board: ProgressDisplay) -> None:
    title = "Python environment (Airflow, Spark, PyIceberg …)"
    _ensure(environment(), title, build.make_python_environment, board, in_place=True)


def _ensure(
    artifact: Artifact,
    title: str,
    make: Callable[[Path, Path, Step], None],
    board: ProgressDisplay,
    in_place: bool = False,
) -> None:
    if artifact.damage() is None:
        return
    with board.step(title) as step:
        artifact.ensure(lambda folder: make(folder, _work(), step), board.say, in_place)


def _interrupted() -> str:
    shell.stop_all()
    return "interrupted; the next run continues from here"


if __name__ == "__main__":
    sys.exit(exit_code(main, _interrupted))
