"""`make check`, `make test`, `make test-all`: the checks in stages, each with its result and seconds.

The first failed stage ends the run: later ones take minutes and would fail for the same reason.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from local.base import REPO, UsageError, cache

REPORTS = REPO / "build" / "tests"
# pytest's exit code if it selected no test.
NO_TEST = 5
UNIT = ("tests/unit", "tests/protocol", "tests/dags")
# Longest first: groups start in the order of the folders and files.
SLOW = ("tests/integration", "tests/drills", "tests/spark", "tests/browser", "tests/services")
COMMANDS = ("lint", "check", "test", "test-all")
LINTERS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("ruff check", ("ruff", "check", ".")),
    ("ruff format", ("ruff", "format", "--check", ".")),
    ("mypy", ("mypy",)),
    ("import contract", ("lint-imports",)),
)


@dataclass(frozen=True)
class Stage:
    """A name, a command of the environment's programs, and the exit codes that count as passed."""

    name: str
    command: tuple[str, ...]
    passed: tuple[int, ...] = (0,)


def stages(command: str, arguments: Sequence[str]) -> list[Stage]:
    """The stages of a command, in order. ``arguments`` go to every pytest; paths among them select tests."""
    found = [Stage(name, command) for name, command in LINTERS]
    chosen = () if command == "test-all" else ("-m", "not exhaustive")
    # Groups keep their order: by default xdist starts with the group of the most tests.
    spread = ("-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder")
    if command != "lint":
        profile = ("--hypothesis-profile=thorough",) if command == "test-all" else ()
        found += _pytest("unit", UNIT, ("-n", "2", *profile), arguments)
    if command in ("test", "test-all"):
        found += _pytest("slow", SLOW, (*spread, *chosen), arguments)
    return found


def _pytest(
    name: str, folders: Sequence[str], options: Sequence[str], arguments: Sequence[str]
) -> list[Stage]:
    paths = [text for text in arguments if text.startswith("tests/")]
    words = [text for text in arguments if text not in paths]
    below = [path for path in paths if path.startswith(tuple(folders))]
    if paths and not below:
        return []
    reports = ("--durations=25", "--durations-min=1", f"--junitxml={REPORTS / name}.xml")
    # Arguments may select tests of one stage only.
    passed = (0, NO_TEST) if arguments else (0,)
    return [Stage(f"{name} tests", ("pytest", *(below or folders), *options, *reports, *words), passed)]


def run(stage: Stage) -> int:
    """Run one; give its exit code."""
    programs = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        # Not in the checkout: a fresh clone need not check the libraries again.
        "MYPY_CACHE_DIR": str(cache() / "mypy"),
    }
    return subprocess.run(
        [str(programs / stage.command[0]), *stage.command[1:]], cwd=REPO, env=environment
    ).returncode


def python(arguments: Sequence[str]) -> int:
    """`make python`: run the environment's Python with ARGS and ``arguments``; give its exit code."""
    return subprocess.run([sys.executable, *arguments_given(), *arguments]).returncode


def bench(arguments: Sequence[str]) -> int:
    """`make bench`: run the comparison with ARGS and ``arguments``; give its exit code."""
    return subprocess.run([sys.executable, "-m", "bench.compare", *arguments_given(), *arguments]).returncode


def arguments_given() -> list[str]:
    try:
        return shlex.split(os.environ.get("ARGS", ""))
    except ValueError as error:
        raise UsageError(f"ARGS={os.environ['ARGS']}: {error}") from error


def main(command: str, arguments: Sequence[str] = (), run: Callable[[Stage], int] = run) -> int:
    """Run the stages of `lint`, `check`, `test` or `test-all`; 1 if one failed or no test was selected.

    ``arguments``: for pytest; those of the variable ARGS come first.
    """
    arguments = [*arguments_given(), *arguments]
    results: list[tuple[str, bool, float]] = []
    tested = command == "lint"
    for stage in stages(command, arguments):
        given = f": {shlex.join(arguments)}" if arguments and stage.command[0] == "pytest" else ""
        print(f"── {stage.name}{given}", flush=True)
        began = time.monotonic()
        code = run(stage)
        results.append((stage.name, code in stage.passed, time.monotonic() - began))
        tested |= stage.command[0] == "pytest" and code != NO_TEST
        if code not in stage.passed:
            break
    for name, passed, seconds in results:
        print(f"{'ok    ' if passed else 'FAILED'} {name} ({seconds:.1f} s)", flush=True)
    if all(passed for _, passed, _ in results) and not tested:
        print(f"sluice: {shlex.join(arguments)} selects no test of make {command}", file=sys.stderr)
        return 1
    return 0 if all(passed for _, passed, _ in results) else 1
