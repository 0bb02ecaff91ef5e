"""The parent process of a component, with real processes: what it restarts, when, and what it passes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from local.runtime.context import with_parent
from sluice.clients.processes.parent import MAX_DELAY_SECONDS, NOT_STARTED, delay
from sluice.core.processes import exits

# Delays of hundredths of a second.
START = (
    "import sys; from sluice.clients.processes.parent import Parent; "
    "sys.exit(Parent(sys.argv[2:], worked_seconds=float(sys.argv[1]), pace=0.02).run())"
)
SLEEPS = "import time; print('ready', flush=True); time.sleep(60)"
FINISHES = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit({code}))
print("ready", flush=True)
time.sleep(60)
"""


class Run:
    """A parent process with ``command`` below it."""

    def __init__(self, *command: str, worked_seconds: float = 30) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", START, str(worked_seconds), *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.reports: list[dict[str, Any]] = []

    def report(self, fits: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next report that ``fits``."""
        assert self.process.stderr
        for line in self.process.stderr:
            self.reports.append(json.loads(line))
            if fits(self.reports[-1]):
                return self.reports[-1]
        raise AssertionError(f"no such report: {self.reports}")

    def starts(self, count: int) -> dict[str, Any]:
        """The report of the ``count``-th start from now on."""
        for _ in range(count):
            found = self.report(lambda report: report["pid"] is not None)
        return found

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(10)


@pytest.fixture
def start() -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def begin(code: str, **options: float) -> Run:
        runs.append(Run(*with_parent(sys.executable, "-S", "-c", code, signal="KILL"), **options))
        return runs[-1]

    yield begin
    for run in runs:
        run.process.kill()
        run.process.communicate()


def is_there(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def until(holds: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_first_restart_comes_at_once_and_each_further_one_later() -> None:
    assert [delay(ends) for ends in range(9)] == [0, 1, 2, 4, 8, 16, 32, 60, 60]
    assert delay(2000) == MAX_DELAY_SECONDS


def test_what_ends_is_restarted_with_back_off_and_says_how_it_ended(start: Callable[..., Run]) -> None:
    run = start("import sys; print('a line', flush=True); print('why', file=sys.stderr); sys.exit(3)")
    report = run.starts(4)
    assert [run.line() for _ in range(3)] == ["a line", "why", "restart 1: the process ended with code 3"]
    assert report["last_exit"]["code"] == 3
    assert len(report["restarts"]) == 3
    downs = [seen for seen in run.reports if seen["restart_at"]]
    delays = [round(seen["restart_at"] - seen["last_exit"]["at"], 2) for seen in downs]
    assert delays == [0.0, 0.02, 0.04]
    assert run.stop() == 0, "also while it waits for the restart"


def test_what_worked_for_some_time_is_restarted_at_once_again(start: Callable[..., Run]) -> None:
    run = start("import sys, time; time.sleep(0.4); sys.exit(1)", worked_seconds=0.25)
    run.starts(4)
    downs = [seen for seen in run.reports if seen["restart_at"]]
    assert [round(seen["restart_at"] - seen["last_exit"]["at"], 2) for seen in downs] == [0.0, 0.0, 0.0]
    assert all(seen["last_exit"]["seconds"] >= 0.4 for seen in downs)


def test_attempts_after_a_refused_login_are_told_from_restarts_and_come_ever_later(
    start: Callable[..., Run],
) -> None:
    """Also if the login is refused late in a start: that has not worked."""
    run = start("import sys, time; time.sleep(0.3); sys.exit(77)", worked_seconds=0.25)
    report = run.starts(4)
    assert report["refused"] == report["restarts"]
    downs = [seen for seen in run.reports if seen["restart_at"]]
    assert [round(seen["restart_at"] - seen["last_exit"]["at"], 2) for seen in downs] == [0.0, 0.02, 0.04]


def test_a_restart_for_another_reason_is_one(start: Callable[..., Run], tmp_path: Path) -> None:
    ends = f"import os, sys; p = {str(tmp_path / 'was')!r}; was = os.path.exists(p); open(p, 'w').close()"
    report = start(f"{ends}; sys.exit(3 if was else 77)").starts(3)
    assert (report["refused"], len(report["restarts"])) == (report["restarts"][:1], 2)


def test_an_end_without_a_reason_is_no_stop(start: Callable[..., Run]) -> None:
    assert start("pass").starts(2)["last_exit"]["code"] == 0


def test_a_component_gets_no_secret_of_the_environment_of_its_parent_process(
    start: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = {"AIRFLOW__CORE__FERNET_KEY", "AIRFLOW_CONN_SLUICE_RESULTS", "SUPERVISOR_SERVER_URL"}
    needed = {"PATH", "SLUICE_PLATFORM_DIR", "SPARK_HOME", "SLUICE_PARENT_PID"}
    for name in (secret | needed) - {"PATH"}:
        monkeypatch.setenv(name, "0")
    run = start(SLEEPS)
    pid = run.starts(1)["pid"]
    assert run.line() == "ready", "setpriv has become the component"
    found = psutil.Process(pid).environ()
    assert (secret & set(found), needed - set(found)) == (set(), set())


def test_a_component_gets_the_variables_of_its_roles_platform_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for role, variable in {"consumer": "KAFKA_KEY", "producer": "SLUICE_KEY", "reader": "READER_KEY"}.items():
        (tmp_path / f"{role}.toml").write_text(f'[kafka]\npassword = {{ env = "{variable}" }}\n')
        monkeypatch.setenv(variable, "secret")
    (tmp_path / "observer.toml").write_text("env, and no TOML")
    monkeypatch.setenv("SLUICE_PLATFORM_DIR", str(tmp_path))
    prints = (
        "import os; print(*sorted(set(os.environ) & {'KAFKA_KEY', 'SLUICE_KEY', 'READER_KEY'}), flush=True)"
    )
    for job, expected in {"consumer": "KAFKA_KEY", "queries": "KAFKA_KEY", "producer": "SLUICE_KEY"}.items():
        run = Run(sys.executable, "-c", f"{prints}; os._exit(76)", "-m", "spark_jobs", job, "rides")
        assert run.process.communicate(timeout=60)[0].splitlines()[0] == expected
    run = Run(sys.executable, "-c", f"{prints}; os._exit(76)")
    assert run.process.communicate(timeout=60)[0].splitlines()[0] == "", "of a command that is no job"


@pytest.mark.parametrize("code", sorted(exits.FINAL))
def test_a_final_exit_code_is_passed_on(start: Callable[..., Run], code: int) -> None:
    run = start(f"import sys; sys.exit({code})")
    assert run.process.wait(10) == code
    last = run.report(lambda report: report["last_exit"] is not None)
    assert (last["last_exit"]["code"], last["restart_at"]) == (code, None)


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (1, 0), (exits.FENCED, exits.FENCED)])
def test_a_stop_is_forwarded_and_waited_for(start: Callable[..., Run], code: int, expected: int) -> None:
    run = start(FINISHES.format(code=code))
    pid = run.starts(1)["pid"]
    assert run.line() == "ready"
    assert run.stop() == expected
    assert not is_there(pid)
    last = run.report(lambda report: report["last_exit"] is not None)
    assert (last["last_exit"]["code"], last["restarts"]) == (code, [])


def test_a_killed_component_is_restarted_and_its_signal_reported(start: Callable[..., Run]) -> None:
    run = start(SLEEPS)
    os.kill(run.starts(1)["pid"], signal.SIGKILL)
    assert run.starts(1)["last_exit"]["code"] == -signal.SIGKILL
    # Before that it has no parent-death signal yet: killing the parent process would leave it running.
    until(lambda: run.line() == "ready")


def test_no_component_outlives_a_killed_parent_process(start: Callable[..., Run]) -> None:
    run = start(SLEEPS)
    pid = run.starts(1)["pid"]
    # What is suspended obeys no gentler signal.
    assert run.line() == "ready"
    os.kill(pid, signal.SIGSTOP)
    run.process.kill()
    until(lambda: not is_there(pid))


def test_a_component_has_no_blocked_signals(start: Callable[..., Run]) -> None:
    run = start(
        "import signal; print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), "
        "signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, flush=True); signal.pause()"
    )
    assert run.line() == "set() True"


def test_a_command_that_does_not_exist_is_tried_again(tmp_path: Path) -> None:
    run = Run(str(tmp_path / "nothing"))
    assert run.report(lambda report: bool(report["restarts"]))["last_exit"]["code"] == NOT_STARTED
    assert "cannot be started" in run.line()
    assert run.stop() == 0
    run.process.communicate()


def test_a_component_knows_the_id_of_its_parent() -> None:
    run = Run(
        sys.executable, "-c", "import os; print(os.environ['SLUICE_PARENT_PID'], flush=True); os._exit(76)"
    )
    output, _ = run.process.communicate(timeout=60)
    assert output.splitlines()[0] == str(run.process.pid)
