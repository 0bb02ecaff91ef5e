"""How the process that deletes objects is run, and what becomes of its end."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from sluice.hooks.removal import remove_objects_by
from sluice.model import exits
from tests.support.raising import raising


class Process:
    def __init__(self, code: int = 0, stderr: str = "") -> None:
        self.code, self.stderr = code, stderr
        self.command: list[str] = []
        self.given: dict[str, Any] = {}

    def run(self, command: list[str], **given: Any) -> subprocess.CompletedProcess[str]:
        self.command, self.given = command, given
        return subprocess.CompletedProcess(command, self.code, "", self.stderr)


def remove(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", process.run)
    remove_objects_by("w", ["a", "b\n"])


def test_it_gets_the_keys_and_nothing_of_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AIRFLOW_CONN_X", "AIRFLOW__CORE__FERNET_KEY", "SLUICE_PLATFORM_DIR"):
        monkeypatch.setenv(name, "value")
    process = Process()
    remove(process, monkeypatch)
    assert process.command == [sys.executable, "-m", "sluice.clients.remove_objects", "w"]
    assert process.given["input"] == '"a"\n"b\\n"\n'
    environment = process.given["env"]
    assert environment["SLUICE_PLATFORM_DIR"] == "value"
    assert not [name for name in environment if name.startswith("AIRFLOW")]


def test_it_can_be_run_by_this_interpreter() -> None:
    # Without a platform file it ends before it connects.
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SLUICE_PLATFORM_DIR", raising=False)
        patch.delenv("PYTHONPATH", raising=False)
        with raising(AirflowFailException, "SLU-101", "SLUICE_PLATFORM_DIR"):
            remove_objects_by("w", [])


@pytest.mark.parametrize(
    ("code", "stderr", "expected", "words"),
    [
        (exits.CONFIGURATION, "noise\nSLU-212 denied\n", AirflowFailException, ("SLU-212 denied",)),
        (1, "SLU-211 no answer\n", AirflowException, ("SLU-211 no answer",)),
        (-9, "", AirflowException, ("SLU-500", "ended with code -9")),
    ],
)
def test_its_error_is_the_task_s(
    code: int, stderr: str, expected: type[Exception], words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with raising(expected, *words) as caught:
        remove(Process(code, stderr), monkeypatch)
    assert type(caught.value) is expected
