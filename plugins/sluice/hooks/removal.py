"""Run the process that deletes objects."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from sluice.hooks.failures import failed, failed_attempt, failure_reason
from sluice.model import exits
from sluice.model.error_codes import ErrorCode, code_in

_PROGRAM = "sluice.clients.remove_objects"
# plugins/sluice/hooks/removal.py -> plugins/
_PACKAGES = Path(__file__).resolve().parents[2]


def remove_objects_by(bucket: str, keys: Iterable[str]) -> None:
    """Delete the objects as role ``maintenance``.

    Raises AirflowFailException if another try finds the same error, AirflowException for others.
    """
    done = subprocess.run(
        [sys.executable, "-m", _PROGRAM, bucket],
        input="".join(f"{json.dumps(key)}\n" for key in keys),
        # Airflow's own settings and connections have passwords.
        env={name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
        | {"PYTHONPATH": os.pathsep.join(filter(None, (str(_PACKAGES), os.environ.get("PYTHONPATH"))))},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        end = f"the process that deletes objects ended with code {done.returncode}"
        reason = failure_reason([end, *done.stderr.splitlines()])
        fail = failed if done.returncode == exits.CONFIGURATION else failed_attempt
        raise fail(code_in(reason) or ErrorCode.PROCESS_FAILED, reason)
