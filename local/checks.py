"""`make test` and `make lint`: every check, each with its result, and a failure that is not overlooked."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from local.paths import REPO

LINTERS: Sequence[tuple[str, tuple[str, ...]]] = (
    ("ruff check", ("ruff", "check", ".")),
    ("ruff format", ("ruff", "format", "--check", ".")),
    ("mypy", ("mypy",)),
    ("import contract", ("lint-imports",)),
)


def main(tests: bool, pytest_arguments: Sequence[str] = ()) -> int:
    """Runs all of them, also after one has failed; 1 when any did.

    pytest comes last, so that its summary closes the output.
    """
    programs = Path(sys.executable).parent
    steps = list(LINTERS)
    if tests:
        steps.append(("pytest", ("pytest", *pytest_arguments)))
    results: list[tuple[str, int, float]] = []
    for name, command in steps:
        print(f"── {name}", flush=True)
        began = time.monotonic()
        environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        if name == "pytest":
            _summary(results)
        code = subprocess.run([programs / command[0], *command[1:]], cwd=REPO, env=environment).returncode
        results.append((name, code, time.monotonic() - began))
    if not tests:
        _summary(results)
    failed = [name for name, code, _ in results if code != 0]
    if failed:
        print(f"sluice: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _summary(results: Sequence[tuple[str, int, float]]) -> None:
    for name, code, seconds in results:
        print(f"{'ok    ' if code == 0 else 'FAILED'} {name} ({seconds:.1f} s)", flush=True)
