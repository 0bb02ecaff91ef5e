"""What `make up` tells supervisord, told to a real one on loopback."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.runtime.home import StackDir
from local.runtime.ports import choose
from local.runtime.supervisord import SERVICE_OPTIONS, Program, Supervisor
from local.stack.stack import wait_until

NAME = "sleeper"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Supervisor]:
    home = StackDir(tmp_path)
    home.prepare()
    made = Supervisor(home, choose({}, os.environ, free=True)["supervisor"], "secret")
    # A signal that comes between fork and exec is lost: then it is killed.
    options = {**SERVICE_OPTIONS, "startsecs": "0", "stopwaitsecs": "1"}
    made.write([Program(NAME, ["sleep", "600"], {}, 1, tmp_path, options)])
    made.start(Path(sys.executable), dict(os.environ))
    yield made
    assert made.shutdown(60)


def state(daemon: Supervisor) -> tuple[str, int]:
    info = daemon.states()[NAME]
    return str(info["statename"]), int(info["pid"])


def test_what_runs_is_started_once_and_what_is_stopped_stays_so(daemon: Supervisor) -> None:
    daemon.ensure_stopped(NAME)
    assert state(daemon) == ("STOPPED", 0)
    daemon.ensure_started(NAME)
    daemon.ensure_started(NAME)
    running, first = state(daemon)
    assert (running, first > 0) == ("RUNNING", True)
    daemon.restart(NAME)
    wait_until("it runs again", lambda: state(daemon)[0] == "RUNNING", 60, 0.05)
    assert state(daemon)[1] not in (0, first)
    daemon.ensure_stopped(NAME)
    assert state(daemon) == ("STOPPED", 0)
    daemon.restart(NAME)
    assert state(daemon)[1] > 0, "also one that did not run"
