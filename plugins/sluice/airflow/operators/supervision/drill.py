"""A drill on the stack that this Airflow belongs to: the command of `make drill`, on that stack."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.hooks.subprocess import SubprocessHook
from airflow.sdk import BaseOperator

from sluice.airflow.failures import failed
from sluice.clients.processes.variables import environment_of
from sluice.core.error_codes import ErrorCode

if TYPE_CHECKING:
    from airflow.sdk import Context

HOME_VARIABLE = "SLUICE_HOME"


class DrillOperator(BaseOperator):
    """Run the drill of the params on the stack in SLUICE_HOME; fail with its last line unless it passes.

    Ending the task ends the drill, which repairs what it broke. A drill that dies with its Airflow does not:
    the next one on the stack repairs that first.
    """

    # Runs the command line of the checkout.
    python = sys.executable
    _process: SubprocessHook | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        if not os.environ.get(HOME_VARIABLE):
            raise failed(
                ErrorCode.DRILL_FAILED,
                f"{HOME_VARIABLE} is not set, so this Airflow belongs to no embedded stack: "
                "drills break that one only",
            )
        params = context["params"]
        command = [self.python, "-m", "tests.drills", params["drill"], "--in-place"]
        if params["trigger_immediately"]:
            command.append("--trigger-immediately")
        self._process = SubprocessHook()
        done = self._process.run_command(command, env=environment_of("", os.environ))
        if done.exit_code != 0:
            raise failed(
                ErrorCode.DRILL_FAILED, f"drill {params['drill']}: {done.output or f'exit {done.exit_code}'}"
            )
        return dict(json.loads(done.output))

    def on_kill(self) -> None:
        if self._process is not None:
            self._process.send_sigterm()
