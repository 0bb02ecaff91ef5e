"""A task's process: what it says as it says it, how it ended, and that it ends with its task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import psutil
import pytest

from sluice.hooks.child import DRAIN_SECONDS, KEPT_LINES, Child, Ended


class Said(list[str]):
    """The lines that came, and waiting for one."""

    def __init__(self) -> None:
        super().__init__()
        self.came = threading.Condition()

    def append(self, line: str) -> None:
        with self.came:
            super().append(line)
            self.came.notify_all()

    def await_line(self, line: str) -> None:
        with self.came:
            assert self.came.wait_for(lambda: line in self, 20), f"never said: {line}; but {self}"

    def await_any(self) -> str:
        with self.came:
            assert self.came.wait_for(lambda: self, 20), "nothing was said"
            return self[0]


@pytest.fixture
def said() -> Said:
    return Said()


class Start(Protocol):
    def __call__(self, program: str, drain_seconds: float = ...) -> Child: ...


def ended(child: Child, seconds: float = 20) -> Ended:
    """How it ended, which it must."""
    found = child.wait(seconds)
    assert found is not None
    return found


@pytest.fixture
def start(said: Said, tmp_path: Path) -> Iterator[Start]:
    """Starts a Python program; what is left of it at the end is killed."""
    made: list[Child] = []

    def begin(program: str, drain_seconds: float = DRAIN_SECONDS) -> Child:
        made.append(Child([sys.executable, "-u", "-c", program], tmp_path, said.append, drain_seconds))
        return made[-1]

    yield begin
    for child in made:
        child.end(0)
        assert child.wait(10) is not None


def test_the_last_line_is_its_result_and_the_others_are_said(
    start: Start, said: Said, tmp_path: Path
) -> None:
    found = ended(start("import os; print('one'); print(os.getcwd()); print(' {} \\n')"))
    assert found == Ended(0, "{}", [])
    assert said == ["one", str(tmp_path)]


def test_stderr_comes_as_it_is_written(start: Start, said: Said) -> None:
    child = start("import sys, time; print('connecting', file=sys.stderr); time.sleep(60)")
    said.await_line("connecting")
    assert child.wait(0) is None, "it still runs"


def test_both_pipes_are_emptied_however_much_comes(start: Start, said: Said) -> None:
    lots = 3 * KEPT_LINES
    program = f"import sys\nfor n in range({lots}):\n    print('x' * 999)\n    print(n, file=sys.stderr)"
    found = ended(start(program), 30)
    assert (found.status, found.result) == (0, "x" * 999)
    assert found.errors == [str(n) for n in range(lots - KEPT_LINES, lots)]
    assert len(said) == 2 * lots - 1


@pytest.mark.parametrize(
    ("program", "status", "result"),
    [
        ("raise SystemExit(76)", 76, None),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, None),
        ("import os; os.write(1, b'half \\xff'); raise SystemExit(1)", 1, "half \ufffd"),
    ],
)  # fmt: skip
def test_how_it_ended(start: Start, program: str, status: int, result: str | None) -> None:
    found = ended(start(program))
    assert (found.status, found.result) == (status, result)


def test_its_environment_is_inherited_and_its_command_is_as_given(
    start: Start, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_PLATFORM_DIR", "/there")
    assert ended(start("import os; print(os.environ['SLUICE_PLATFORM_DIR'])")).result == "/there"


GENTLE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("up", file=sys.stderr)
time.sleep(60)
"""
DEAF = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(subprocess.Popen(["sleep", "60"]).pid, file=sys.stderr)
time.sleep(60)
"""


def test_it_is_told_to_end_first(start: Start, said: Said) -> None:
    child = start(GENTLE)
    said.await_line("up")
    child.end(20)
    assert ended(child).status == 0


def test_what_does_not_listen_is_killed_with_all_it_started(start: Start, said: Said) -> None:
    child = start(DEAF)
    grandchild = psutil.Process(int(said.await_any()))
    began = time.monotonic()
    child.end(0.3)
    assert time.monotonic() - began >= 0.3
    assert ended(child).status == -9
    _, alive = psutil.wait_procs([grandchild], timeout=5)
    assert not alive


def test_ending_what_has_ended_touches_nobody(start: Start) -> None:
    child = start("pass")
    child.wait(20)
    child.end(5)
    child.end(0)


def test_a_pipe_that_a_grandchild_keeps_open_is_not_waited_for(
    start: Start,
) -> None:
    child = start("import subprocess; print(subprocess.Popen(['sleep', '60']).pid)", drain_seconds=0.2)
    found = ended(child)
    assert found.status == 0
    assert found.result is not None
    assert psutil.Process(int(found.result)).status() == psutil.STATUS_SLEEPING, "it was waited for"
    # It is of the child's group, which bears its id as long as one of it lives.
    os.killpg(child.pid, signal.SIGKILL)


def test_it_is_ended_by_a_signal_handler_while_it_is_waited_for(tmp_path: Path) -> None:
    """As Airflow ends a task: the handler runs in the thread that waits, and waiting goes on after it."""
    program = tmp_path / "task.py"
    program.write_text(f"""
import os, signal, sys, threading
from pathlib import Path
from sluice.hooks.child import Child
seen = threading.Event()
child = Child([sys.executable, "-u", "-c", {GENTLE!r}], Path("."), lambda line: seen.set())
os.killpg = lambda *_: print("killed, though it had ended")
signal.signal(signal.SIGTERM, lambda *_: child.end(5))
threading.Thread(target=lambda: (seen.wait(), os.kill(os.getpid(), signal.SIGTERM))).start()
ended = child.wait(30)
print(ended.status if ended else "it was waited for in vain")
""")
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=True,
        env={**os.environ, "PYTHONPATH": "plugins"},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("0\n", "")
