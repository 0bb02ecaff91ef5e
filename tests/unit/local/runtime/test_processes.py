"""Processes of a stack are found by their mark, and ended: also those that do not want to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import psutil
import pytest

from local.runtime.processes import LABEL, end_all, stack_processes

STUBBORN = "import signal, sys; signal.signal(15, signal.SIG_IGN); print('up', flush=True); signal.pause()"
WILLING = "import signal; print('up', flush=True); signal.pause()"
Start = Callable[[str, str], "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def one(code: str, mark: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", code], env={LABEL: mark}, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return process

    yield one
    for process in started:
        process.kill()
        process.communicate()


def test_only_our_own_are_ended(start: Start) -> None:
    ours, stubborn, other = start(WILLING, "test-a"), start(STUBBORN, "test-a"), start(WILLING, "test-b")
    assert {process.pid for process in stack_processes("test-a")} == {ours.pid, stubborn.pid}
    assert len(end_all("test-a", grace_seconds=0.5)) == 2
    assert not psutil.pid_exists(ours.pid)
    assert not psutil.pid_exists(stubborn.pid)
    assert psutil.pid_exists(other.pid)
    assert other.poll() is None
    assert end_all("test-a") == []
