"""`make compose-env`: the profiles and passwords of `.env`, kept when it is called again."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from local.base import UsageError
from local.containers import env_file
from local.runtime.secrets import complete_secrets
from tests.support.raising import raising


def values(file: Path) -> dict[str, str]:
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def secrets(file: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads(values(file)["SLUICE_SECRETS"].strip("'"))
    return found


@pytest.mark.parametrize(
    ("arguments", "profiles"),
    [
        ([], "single-broker,single-drive"),
        (["cluster"], "cluster,single-drive"),
        (["spark", "erasure", "cluster"], "cluster,erasure,spark"),
    ],
)
def test_a_new_one_has_all_passwords_and_is_the_owner_s_alone(
    arguments: list[str], profiles: str, tmp_path: Path
) -> None:
    file = tmp_path / ".env"
    assert env_file.main(arguments, file) == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert values(file)["COMPOSE_PROFILES"] == profiles
    assert values(file)["SLUICE_UI_ADDRESS"] == "127.0.0.1"
    assert secrets(file) == complete_secrets(secrets(file))
    # In single quotes compose takes it as it is.
    assert "'" not in values(file)["SLUICE_SECRETS"][1:-1]


def test_passwords_stay_and_missing_ones_are_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / ".env"
    env_file.main([], file)
    before = secrets(file)
    less = {name: value for name, value in before.items() if name != "kafka_reader"}
    file.write_text(file.read_text().replace(json.dumps(before), json.dumps(less)) + "OWN=1\n")
    env_file.main([], file)
    assert "added kafka_reader" in capsys.readouterr().out
    after = secrets(file)
    assert {name: value for name, value in after.items() if name != "kafka_reader"} == less
    assert after["kafka_reader"]
    assert values(file)["OWN"] == "1"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("A=1\n", [], "no line SLUICE_SECRETS"),
        ("SLUICE_SECRETS='{'\n", [], "not a JSON object"),
        ("SLUICE_SECRETS='[]'\n", [], "not a JSON object"),
        ("SLUICE_SECRETS='{}'\n", ["cluster"], "without profiles"),
    ],
)
def test_another_s_file_stays_as_it_is(text: str, arguments: list[str], said: str, tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text(text)
    with raising(UsageError, said, "Fix: "):
        env_file.main(arguments, file)
    assert file.read_text() == text


def test_unknown_profiles_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with raising(UsageError, "replicas"):
        env_file.main(["replicas"], tmp_path / ".env")
    assert not list(tmp_path.iterdir())


def test_it_is_not_for_git_nor_for_an_image() -> None:
    assert ".env" in (env_file.REPO / ".gitignore").read_text().splitlines()
    ignored = (env_file.REPO / ".dockerignore").read_text()
    assert re.search(r"^\*$", ignored, re.M)
    assert "!.env" not in ignored


def test_the_command_needs_no_set_up_and_no_package(tmp_path: Path) -> None:
    # Not on an `.env` of this checkout: an argument that is refused shows that it was reached.
    command = [sys.executable, "-S", "-m", "local", "compose-env", "no-profile"]
    environment = {"PATH": os.environ["PATH"], "SLUICE_CACHE": str(tmp_path)}
    done = subprocess.run(
        command, cwd=env_file.REPO, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "no-profile" in done.stderr or ".env exists" in done.stderr
    assert not list(tmp_path.iterdir())
