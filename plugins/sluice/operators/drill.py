"""A drill on the stack that this Airflow belongs to: started as a process of its own, and followed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

if TYPE_CHECKING:
    from airflow.sdk import Context

HOME_VARIABLE = "SLUICE_HOME"
# The state of a drill whose result was this task's once.
TOLD = "told"


class DrillOperator(BaseOperator):
    """Play ``drill`` on the stack in SLUICE_HOME; red with its one line when it is not passed.

    The drill runs detached, since it may kill the scheduler and this task with it. Another attempt of the
    same run finds it by the state file, ``drills/state.json`` in the home, and follows it on; it is not
    started a second time. Ending the task does not end the drill: it mends what it broke and ends by itself.
    """

    template_fields: Sequence[str] = ("at_once",)
    poll_seconds = 1.0
    # What runs the command line of the stack.
    python = sys.executable

    def __init__(self, *, drill: str, at_once: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.drill = drill
        self.at_once = at_once

    def execute(self, context: Context) -> dict[str, Any]:
        home = os.environ.get(HOME_VARIABLE)
        if not home:
            raise AirflowFailException(
                f"{HOME_VARIABLE} is not set, so this Airflow belongs to no embedded stack: "
                "drills break that one only"
            )
        folder = Path(home) / "drills"
        folder.mkdir(mode=0o700, exist_ok=True)
        ticket = f"{context['dag_run'].dag_id} {context['dag_run'].run_id}"
        log = folder / f"{self.drill}.log"
        state = self._state(folder, ticket)
        process = self._find(state, ticket)
        position = 0
        if process is not None:
            self.log.info("the drill was started by an earlier attempt; following it")
        elif state is None or state["state"] in ("running", TOLD):
            # Never begun, or killed in the middle, or cleared: once more.
            position = log.stat().st_size if log.exists() else 0
            process = self._start(log, ticket)
        while process is not None and _is_alive(process):
            position = self._show(log, position)
            time.sleep(self.poll_seconds)
        if process is not None:
            process.wait()
        self._show(log, position)
        state = self._state(folder, ticket)
        if state is not None and state["state"] != "running":
            (folder / "state.json").write_text(json.dumps(state | {"state": TOLD}))
        return self._result(state, log)

    def _start(self, log: Path, ticket: str) -> psutil.Popen:
        command = [self.python, "-m", "local.cli", "drill", "--here", self.drill, "--ticket", ticket]
        with log.open("ab") as out:
            started = psutil.Popen(
                command,
                env={**os.environ, "AT_ONCE": "1" if self.at_once in ("True", "true", "1") else ""},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.log.info("started the drill as process %d; its log is %s", started.pid, log)
        return started

    @staticmethod
    def _state(folder: Path, ticket: str) -> dict[str, Any] | None:
        """What the drill of this run last said of itself; None where there was none."""
        try:
            state: dict[str, Any] = json.loads((folder / "state.json").read_text())
        except FileNotFoundError:
            return None
        return state if state["ticket"] == ticket else None

    @staticmethod
    def _find(state: dict[str, Any] | None, ticket: str) -> psutil.Process | None:
        """The drill's process, where it is alive."""
        if state is None or state["state"] != "running":
            return None
        try:
            found = psutil.Process(state["pid"])
            # The id may be another process's by now.
            return found if ticket in found.cmdline() else None
        except psutil.NoSuchProcess:
            return None

    def _show(self, log: Path, position: int) -> int:
        """The whole lines that were added to its log; gives how far it was read."""
        with log.open("rb") as file:
            file.seek(position)
            added = file.read()
        whole = added.rpartition(b"\n")[0]
        for line in whole.decode(errors="replace").splitlines():
            self.log.info("%s", line)
        return position + (len(whole) + 1 if whole else 0)

    def _result(self, state: dict[str, Any] | None, log: Path) -> dict[str, Any]:
        if state is None:
            last = log.read_text(errors="replace").strip().splitlines()[-1:]
            raise AirflowFailException(f"drill {self.drill} did not begin: {' '.join(last) or 'see its log'}")
        if state["state"] == "running":
            raise AirflowException(f"drill {self.drill}: process {state['pid']} was killed; see {log}")
        rows = [row for row in state["rows"] if row["drill"] == self.drill]
        if not rows:
            raise AirflowFailException(f"drill {self.drill} broke off: {state['failure']}")
        row: dict[str, Any] = rows[-1]
        if not row["passed"]:
            raise AirflowFailException(f"drill {self.drill}: {row['why_not']}")
        return row


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
