"""The one Secret that a person makes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from local.base import REPO
from local.kubernetes import passwords
from local.runtime.secrets import complete_secrets


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, str]:
    assert passwords.main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], found["metadata"]["name"]) == ("Secret", "sluice-passwords")
    return dict(json.loads(found["stringData"]["sluice"])) | {"namespace": found["metadata"]["namespace"]}


def test_each_call_generates_other_passwords(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = printed(capsys), printed(capsys, "--namespace", "lake")
    assert (first.pop("namespace"), second.pop("namespace")) == ("sluice", "lake")
    assert first.keys() == second.keys() == complete_secrets({}).keys()
    assert not set(first.values()) & set(second.values())


def test_it_needs_no_set_up(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SLUICE_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        ["local/run", "k8s-render", "passwords"],
        cwd=REPO,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kind"] == "Secret"
    assert not (tmp_path / "cache").exists()
