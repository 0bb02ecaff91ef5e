"""Runs programs for a step: output to a log file, its last line to the display."""

from __future__ import annotations

import collections
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from local.base import SetupError
from local.progress import Step

_running: set[subprocess.Popen[str]] = set()
_guard = threading.Lock()


def run(
    argv: Sequence[str | os.PathLike[str]],
    step: Step,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Run a program; give the last 100 lines of its output (stdout and stderr together).

    Raises SetupError with the program, its exit code, its last lines and the log's path if it fails.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    tail: collections.deque[str] = collections.deque(maxlen=100)
    with log.open("a") as out:
        try:
            process = subprocess.Popen(
                [os.fspath(part) for part in argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=None if env is None else dict(env),
                cwd=cwd,
            )
        except OSError as error:
            raise SetupError(f"{step.name}: cannot run {argv[0]}: {error.strerror}") from error
        with _guard:
            _running.add(process)
        try:
            for line in process.stdout or ():
                out.write(line)
                tail.append(line.rstrip("\n"))
                step.line(line)
            code = process.wait()
        finally:
            with _guard:
                _running.discard(process)
            if process.poll() is None:
                process.terminate()
                process.wait()
    if code != 0:
        last = "\n  ".join(list(tail)[-8:])
        raise SetupError(
            f"{step.name}: {Path(argv[0]).name} ended with {code}; its whole output is in {log}\n  {last}"
        )
    return "\n".join(tail)


def stop_all() -> None:
    """End all running programs, after an interrupt of the set-up."""
    with _guard:
        for process in _running:
            process.terminate()
