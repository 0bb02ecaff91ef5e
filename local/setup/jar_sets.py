"""Jar sets that no stack needs: of the bench and of tests, which have the environment with PySpark."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from local.progress import ProgressDisplay
from local.setup import build, cache
from local.setup.bootstrap import java_home


def ensure_jars(jar_set: str) -> Path:
    """The folder of a set's jars; fetched if they are missing. Raises SetupError if that fails."""
    jars = cache.jars(jar_set)
    if jars.damage() is not None:
        with (
            ProgressDisplay() as board,
            cache.locked(cache.cache(), board.say),
            board.step(f"{jar_set} jars") as step,
        ):
            work = cache.cache() / "work"
            work.mkdir(exist_ok=True)
            make = partial(build.make_jar_set, jar_set, java_home())
            jars.ensure(lambda folder: make(folder, work, step), board.say)
    return jars.path
