"""A task's process: what it says as it says it, how it ended, and that it ends with its task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sluice.hooks import child as module
from sluice.hooks.child import Child, Ended


class Said(list[str]):
    """The lines that came, and waiting for one."""

    def await_line(self, line: str) -> None:
        deadline = time.monotonic() + 20
        while line not in self:
            assert time.monotonic() < deadline, f"never said: {line}; but {self}"
            time.sleep(0.01)


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def start(said: Said, tmp_path: Path) -> Iterator[object]:
    """Starts a Python program; what is left of it at the end is killed."""
    made: list[Child] = []

    def begin(program: str, folder: Path = tmp_path) -> Child:
        made.append(Child([sys.executable, "-u", "-c", program], folder, said.append))
        return made[-1]

    yield begin
    for child in made:
        child.end(0)
        assert child.wait(10) is not None


def test_the_last_line_is_its_result_and_the_others_are_said(start, said: Said, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    ended = start("import os; print('one'); print(os.getcwd()); print(' {} \\n')").wait(20)
    assert ended == Ended(0, "{}", [])
    assert said == ["one", str(tmp_path)]


def test_stderr_comes_as_it_is_written(start, said: Said) -> None:  # type: ignore[no-untyped-def]
    child = start("import sys, time; print('connecting', file=sys.stderr); time.sleep(60)")
    said.await_line("connecting")
    assert child.wait(0) is None, "it still runs"


def test_both_pipes_are_emptied_however_much_comes(start, said: Said) -> None:  # type: ignore[no-untyped-def]
    lots = 3 * module.KEPT_LINES
    ended = start(
        f"import sys\nfor n in range({lots}):\n    print('x' * 999)\n    print(n, file=sys.stderr)"
    ).wait(30)
    assert (ended.status, ended.result) == (0, "x" * 999)
    assert ended.errors == [str(n) for n in range(lots - module.KEPT_LINES, lots)]
    assert len(said) == 2 * lots - 1


@pytest.mark.parametrize(
    ("program", "status", "result"),
    [
        ("raise SystemExit(76)", 76, None),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, None),
        ("import os; os.write(1, b'half \\xff'); raise SystemExit(1)", 1, "half \ufffd"),
    ],
)  # fmt: skip
def test_how_it_ended(start, program: str, status: int, result: str | None) -> None:  # type: ignore[no-untyped-def]
    ended = start(program).wait(20)
    assert (ended.status, ended.result) == (status, result)


def test_its_environment_is_inherited_and_its_command_is_as_given(  # type: ignore[no-untyped-def]
    start, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_PLATFORM_DIR", "/there")
    ended = start("import os; print(os.environ['SLUICE_PLATFORM_DIR'])").wait(20)
    assert ended.result == "/there"


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


def test_it_is_told_to_end_first(start, said: Said) -> None:  # type: ignore[no-untyped-def]
    child = start(GENTLE)
    said.await_line("up")
    child.end(20)
    assert child.wait(5).status == 0


def test_what_does_not_listen_is_killed_with_all_it_started(start, said: Said) -> None:  # type: ignore[no-untyped-def]
    child = start(DEAF)
    while not said:
        time.sleep(0.01)
    grandchild = psutil.Process(int(said[0]))
    began = time.monotonic()
    child.end(0.3)
    assert time.monotonic() - began >= 0.3
    assert child.wait(5).status == -9
    _, alive = psutil.wait_procs([grandchild], timeout=5)
    assert not alive


def test_ending_what_has_ended_touches_nobody(start) -> None:  # type: ignore[no-untyped-def]
    child = start("pass")
    child.wait(20)
    child.end(5)
    child.end(0)


def test_a_pipe_that_a_grandchild_keeps_open_is_not_waited_for(  # type: ignore[no-untyped-def]
    start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DRAIN_SECONDS", 0.2)
    child = start("import subprocess; print(subprocess.Popen(['sleep', '60']).pid)")
    ended = child.wait(20)
    assert ended.status == 0
    assert psutil.Process(int(ended.result)).status() == psutil.STATUS_SLEEPING, "it was waited for"
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
