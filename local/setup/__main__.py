"""`python -m local.setup [setup|lock]`, inside the tools environment: makes what is missing or damaged."""

from __future__ import annotations

import shutil
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from local import shell
from local.base import cache, exit_code
from local.progress import ProgressDisplay
from local.setup import bootstrap, build, lock
from local.setup.cache import Artifact, cleanup, environment, jars, locked, minio


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
        # Looked at without the lock first: when all is whole there is nothing to wait for.
        if all(artifact.damage() is None for artifact in _all()):
            if arguments:
                board.say(f"everything is set up in {cache()}")
            return 0
        with locked(cache(), board.say):
            cleanup(cache())
            _ensure_all(home, board)
            # Downloads and compilers' caches have done their duty: 2 GB that nobody needs again.
            shutil.rmtree(_work())
        board.say(f"everything is set up in {cache()}")
    return 0


def _all() -> list[Artifact]:
    return [environment(), jars("spark"), jars("kafka"), minio()]


def _work() -> Path:
    work = cache() / "work"
    work.mkdir(exist_ok=True)
    return work


def _ensure_all(java_home: Path, board: ProgressDisplay) -> None:
    """MinIO compiles while the rest downloads; the jars come after PySpark, since Ivy lies inside it."""

    def python_then_jars() -> None:
        _ensure_environment(board)
        for name in ("spark", "kafka"):
            _ensure_jars(name, java_home, board)

    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(_ensure_minio, board), pool.submit(python_then_jars)]
        try:
            for job in jobs:
                job.result()
        except BaseException:
            shell.stop_all()
            raise


def _ensure_environment(board: ProgressDisplay) -> None:
    artifact = environment()
    if artifact.damage() is None:
        return
    with board.step("Python environment (Airflow, Spark, PyIceberg …)") as step:
        artifact.ensure(
            lambda folder: build.make_python_environment(folder, _work(), step), board.say, in_place=True
        )


def _ensure_jars(name: str, java_home: Path, board: ProgressDisplay) -> None:
    artifact = jars(name)
    if artifact.damage() is None:
        return
    with board.step(f"{name} jars") as step:
        artifact.ensure(lambda folder: build.make_jar_set(folder, name, java_home, _work(), step), board.say)


def _ensure_minio(board: ProgressDisplay) -> None:
    artifact = minio()
    if artifact.damage() is None:
        return
    with board.step("MinIO, compiled once") as step:
        artifact.ensure(lambda folder: build.make_minio(folder, _work(), step), board.say)


def _interrupted() -> str:
    shell.stop_all()
    return "interrupted; the next run goes on from here"


if __name__ == "__main__":
    exit_code(main, _interrupted)
