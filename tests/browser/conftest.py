"""The page in Chromium: with the app alone, and inside a real Airflow with its login."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

REPO = Path(__file__).resolve().parents[2]
START_SECONDS = 120
USERS = {"viewer": "viewer", "nobody": ""}

# Before Airflow is imported: it reads its configuration, and makes its home, then.
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="sluice-airflow-"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not for longer: while it is there, this thread has a running loop, and nobody else may have one."""
    from tests.support.browser import launch

    with launch() as launched:
        yield launched


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """A new page, as ``Browser.new_context`` is told; the test fails where a script of it did."""
    contexts = []
    errors: list[str] = []

    def made(**options: object) -> Page:
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        return page

    yield made
    for context in contexts:
        context.close()
    assert errors == []


@dataclass(frozen=True)
class Airflow:
    """A real one, below a path as behind a proxy, with the page over made-up sources. ``passwords``: by user;
    ``nobody`` may log in and has no right."""

    address: str
    passwords: dict[str, str]

    def client(self, user: str | None = None) -> httpx.Client:
        """Asks as ``user``, or without a login."""
        headers = {}
        if user is not None:
            login = {"username": user, "password": self.passwords[user]}
            answer = httpx.post(f"{self.address}/auth/token", json=login, trust_env=False, timeout=30)
            headers["Authorization"] = f"Bearer {answer.raise_for_status().json()['access_token']}"
        return httpx.Client(base_url=self.address, headers=headers, trust_env=False, timeout=30)


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    home = tmp_path_factory.mktemp("airflow")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made = Airflow(f"http://127.0.0.1:{port}/below/a/path", {user: secrets.token_hex(8) for user in USERS})
    (home / "passwords.json").write_text(json.dumps(made.passwords))
    settings = {
        "CORE__PLUGINS_FOLDER": str(REPO / "plugins"),
        "CORE__DAGS_FOLDER": str(home),
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in USERS.items()),
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "API__BASE_URL": made.address,
        "API__SECRET_KEY": secrets.token_hex(32),
        "API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "USAGE_DATA_COLLECTION__ENABLED": "False",
    }
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
        _wait(made, server, home / "log")
        yield made
    finally:
        server.terminate()
        server.wait(20)


def _wait(made: Airflow, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with made.client() as client:
                client.get("/api/v2/version").raise_for_status()
                return
        except httpx.HTTPError as error:
            ended = server.poll()
            if ended is not None or time.monotonic() > deadline:
                raise AssertionError(f"Airflow is not up ({error}); {log.read_text()[-3000:]}") from error
            time.sleep(0.2)
