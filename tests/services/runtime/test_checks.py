"""The process that serves the last check of each component, over HTTP."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest

from local.base import REPO
from local.runtime import roles
from local.runtime.home import StackDir
from local.runtime.ports import DEFAULTS, Network
from sluice.clients import checks
from sluice.clients.errors import Refused, Unreachable
from sluice.model.checks import Check
from sluice.runtime.checks import Server
from tests.support.raising import raising

TOKEN = "t" * 32
CHECK = Check("nyc_taxi", "consumer", 1_000.5, 480.0)


@contextmanager
def serving(file: Path, token: str = TOKEN) -> Iterator[str]:
    server = Server(("127.0.0.1", 0), token, file)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def scraped(url: str, token: str = TOKEN) -> dict[str, float]:
    answer = httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {token}"}, trust_env=False)
    answer.raise_for_status()
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def name(metric: str, stream: str = "nyc_taxi", component: str = "consumer") -> str:
    return f'sluice_supervision_{metric}{{component="{component}",stream="{stream}"}}'


def test_a_check_is_served_until_the_next_and_over_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "checks.json"
    with serving(file) as url:
        assert scraped(url) == {}, "absent, and not zero"
        checks.report(url, TOKEN, CHECK)
        checks.report(url, TOKEN, Check("wiki_changes", "producer", 7.0, 480.0))
        checks.report(url, TOKEN, Check("nyc_taxi", "consumer", 1_120.0, 480.0))
        # One that comes late, and one of a stream that was removed.
        checks.report(url, TOKEN, CHECK)
        checks.report(url, TOKEN, Check("gone", "consumer", 1.0, 480.0))
        found = scraped(url)
    assert found == {
        name("last_check_timestamp_seconds"): 1_120.0,
        name("last_check_timestamp_seconds", "wiki_changes", "producer"): 7.0,
        name("max_check_age_seconds"): 480.0,
        name("max_check_age_seconds", "wiki_changes", "producer"): 480.0,
    }
    with serving(file) as url:
        assert scraped(url) == found
    file.write_text("half a fi")
    with serving(file) as url:
        assert scraped(url) == {}
        checks.report(url, TOKEN, CHECK)
        assert len(scraped(url)) == 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["checks.json"], "nothing grows"


def test_nobody_else_reads_or_reports(tmp_path: Path) -> None:
    with serving(tmp_path / "checks.json") as url:
        with raising(Refused, "401", url):
            checks.report(url, "another", CHECK)
        for headers in ({}, {"Authorization": "Bearer é"}, {"Authorization": f"Basic {TOKEN}"}):
            encoded = {key.encode(): value.encode() for key, value in headers.items()}
            assert httpx.get(f"{url}/metrics", headers=encoded, trust_env=False).status_code == 401
        assert httpx.get(f"{url}/health", trust_env=False).status_code == 200
        assert scraped(url) == {}


@pytest.mark.parametrize(
    "body",
    [
        b"no json",
        b"[]",
        b"{}",
        json.dumps(vars(CHECK) | {"stream": 'x"} 1\nfaked 2'}).encode(),
        json.dumps(vars(CHECK) | {"at": "now"}).encode(),
        json.dumps(vars(CHECK) | {"more": 1}).encode(),
        b"x" * 5_000,
    ],
)
def test_what_is_no_check_is_refused(tmp_path: Path, body: bytes) -> None:
    with serving(tmp_path / "checks.json") as url:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = httpx.post(f"{url}/checks", content=body, headers=headers, trust_env=False)
        assert answer.status_code in (400, 413)
        assert scraped(url) == {}


def test_a_report_waits_for_seconds_only_and_follows_no_redirect(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with raising(Unreachable, silent.getsockname()[1]):
            checks.report(f"http://127.0.0.1:{silent.getsockname()[1]}", TOKEN, CHECK)
        assert time.monotonic() - began < checks.SECONDS + 2

    class Elsewhere(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(307)
            self.send_header("Location", f"{other}/checks")
            self.end_headers()

    with serving(tmp_path / "checks.json") as other, HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        with raising(Refused, "307"):
            checks.report(f"http://127.0.0.1:{server.server_port}", TOKEN, CHECK)
        assert scraped(other) == {}


def test_it_runs_alone(tmp_path: Path) -> None:
    """Without Airflow, PostgreSQL and S3: nothing of them is there."""
    home = StackDir(tmp_path / "stack")
    home.prepare()
    secrets = home.secrets()
    roles.write(home.platform, roles.documents(home, Network(DEFAULTS), secrets))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "sluice.runtime.checks", "--port", str(port)]
    environment = {
        **os.environ,
        "SLUICE_PLATFORM_DIR": str(home.platform),
        "PYTHONPATH": str(REPO / "plugins"),
    }
    with subprocess.Popen([*command, "--file", str(tmp_path / "c.json")], env=environment) as process:
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 30
        while True:
            try:
                checks.report(url, secrets["metrics"], CHECK)
                break
            except Unreachable:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        assert len(scraped(url, secrets["metrics"])) == 2
        process.terminate()
