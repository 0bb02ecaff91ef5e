"""An AWS Glue for tests, in an environment of its own (local/ministack.in)."""

from __future__ import annotations

import shutil
from pathlib import Path

from local.progress import ProgressDisplay
from local.setup import build, cache

REQUIREMENTS = cache.HERE / "ministack.txt"
_ENVIRONMENT = "env"


def ensure_ministack() -> Path:
    """The program; fetched if it is missing. Raises SetupError if that fails."""
    key = cache.fingerprint(REQUIREMENTS.read_bytes(), *cache.python_inputs())
    made = cache.Artifact(cache.cache(), "ministack", key, hashed=False)
    if made.damage() is None:
        return _program(made.path)
    with (
        ProgressDisplay() as board,
        cache.locked(cache.cache(), board.say),
        board.step("AWS Glue for tests") as step,
    ):
        work = cache.cache() / "work"
        work.mkdir(exist_ok=True)

        def fill(folder: Path) -> None:
            build.temporary_environment(REQUIREMENTS, folder / _ENVIRONMENT, step, work / "ministack.log")
            shutil.rmtree(folder / f"uv-{_ENVIRONMENT}")

        made.ensure(fill, board.say, in_place=True)
    return _program(made.path)


def _program(folder: Path) -> Path:
    return folder / _ENVIRONMENT / "bin" / "ministack"
