"""Airflow's API server with Sluice's pages over made-up sources, as a process of its own."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.support import fab_users

REPO = Path(__file__).resolve().parents[2]
START_SECONDS = 300
# User -> role; `rightless` may log in and has no right.
USERS = {"viewer": "viewer", "rightless": ""}


@dataclass(frozen=True)
class Airflow:
    """A real one, below a path as behind a proxy. ``passwords``: by user."""

    address: str
    passwords: dict[str, str]

    def client(self, user: str | None = None) -> httpx.Client:
        """Asks as ``user``, or without a login."""
        headers = {}
        if user is not None:
            login = {"username": user, "password": self.passwords[user]}
            answer = httpx.post(f"{self.address}/auth/token", json=login, trust_env=False, timeout=30)
            headers["Authorization"] = f"Bearer {answer.raise_for_status().json()['access_token']}"
        return httpx.Client(
            base_url=self.address, headers=headers, trust_env=False, timeout=30, follow_redirects=True
        )


@contextmanager
def start(home: Path, fab: bool = False) -> Iterator[Airflow]:
    """Run the server, with its files in ``home``, until the block ends.

    ``fab``: with the FAB auth manager and the users of fab_users; else with the simple one and USERS.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    users = fab_users.USERS if fab else USERS
    airflow = Airflow(f"http://127.0.0.1:{port}/below/a/path", {user: secrets.token_hex(8) for user in users})
    (home / "passwords.json").write_text(json.dumps(airflow.passwords))
    settings = {
        "CORE__PLUGINS_FOLDER": str(REPO / "plugins"),
        "CORE__DAGS_FOLDER": str(home),
        "CORE__LOAD_EXAMPLES": "False",
        "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "API__BASE_URL": airflow.address,
        "API__SECRET_KEY": secrets.token_hex(32),
        "API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "USAGE_DATA_COLLECTION__ENABLED": "False",
    }
    settings |= fab_users.SETTINGS if fab else _simple(home / "passwords.json")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "SLUICE"))},
        **{f"AIRFLOW__{name}": value for name, value in settings.items()},
        "AIRFLOW_HOME": str(home),
        "PYTHONPATH": os.pathsep.join([str(REPO), str(REPO / "plugins")]),
    }
    with (home / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.support.airflow_page"], env=environment, stdout=log, stderr=log
        )
    try:
        _wait(airflow, server, home / "log")
        yield airflow
    finally:
        server.terminate()
        server.wait(60)


def _simple(passwords: Path) -> dict[str, str]:
    return {
        "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in USERS.items()),
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
    }


def _wait(airflow: Airflow, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with airflow.client() as client:
                client.get("/api/v2/version").raise_for_status()
                return
        except httpx.HTTPError as error:
            ended = server.poll()
            if ended is not None or time.monotonic() > deadline:
                raise AssertionError(f"Airflow is not up ({error}); {log.read_text()[-3000:]}") from error
            time.sleep(0.1)
