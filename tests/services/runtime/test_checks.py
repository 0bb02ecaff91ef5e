"""The process that serves the last check of each component, over HTTP."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest

from local.base import REPO
from local.runtime import roles
from local.runtime.home import StackDir
from local.runtime.ports import DEFAULTS, Network
from sluice.config import streams
from sluice.core.errors import Refused, Unreachable
from sluice.core.processes import exits
from sluice.supervision.checks import report as checks
from sluice.supervision.checks.check import Check
from sluice.supervision.checks.server import Server, Store
from tests.support.raising import raising

TOKEN = "t" * 32
CHECK = Check("nyc_taxi", "consumer", 1_000.5, 480.0)
BEGAN = 5_000.0
AT, AGE = "last_check_timestamp_seconds", "max_check_age_seconds"


@contextmanager
def serving(file: Path, token: str = TOKEN, clock: Callable[[], float] = lambda: BEGAN) -> Iterator[str]:
    server = Server(("127.0.0.1", 0), token, file, clock)
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


def unchecked(at: float = BEGAN) -> dict[str, float]:
    """The metrics of a process that began then, and to which nothing was reported."""
    found = {}
    for spec in streams.load_all():
        policy = spec.supervision
        for component in spec.components:
            found[name(AT, spec.name, component)] = at
            found[name(AGE, spec.name, component)] = float(policy.interval_seconds + policy.missed_seconds)
    assert name(AT) in found
    return found


def test_a_check_is_served_until_the_next_and_over_a_restart(tmp_path: Path) -> None:
    file, now = tmp_path / "checks.json", [BEGAN]
    with serving(file, clock=lambda: now[0]) as url:
        assert scraped(url) == unchecked(), "each component of each stream has its metric from the start"
        now[0] += 10
        checks.report(url, TOKEN, CHECK)
        # The stream was removed.
        checks.report(url, TOKEN, Check("gone", "consumer", 1.0, 480.0))
        now[0] += 10
        checks.report(url, TOKEN, Check("wiki_changes", "producer", 7.0, 481.0))
        found = scraped(url)
    assert found == unchecked() | {
        name(AT): BEGAN + 10,
        name(AGE): 480.0,
        name(AT, "wiki_changes", "producer"): BEGAN + 20,
        name(AGE, "wiki_changes", "producer"): 481.0,
    }
    with serving(file, clock=lambda: now[0] + 1_000) as url:
        assert scraped(url) == found, "a component that was never checked does not begin again"
    file.write_text("half a fi")
    with serving(file) as url:
        assert scraped(url) == unchecked()
    assert [entry.name for entry in tmp_path.iterdir()] == ["checks.json"], "nothing grows"


def test_a_clock_that_was_ahead_hides_no_later_check(tmp_path: Path) -> None:
    """Neither the sender's nor this process's own."""
    file = tmp_path / "checks.json"
    year = 365 * 86_400
    with serving(file, clock=lambda: BEGAN + year) as url:
        checks.report(url, TOKEN, CHECK)
    with serving(file) as url:
        assert scraped(url)[name(AT)] == BEGAN + year, "an alert: docs/operating.md"
        checks.report(url, TOKEN, Check("nyc_taxi", "consumer", BEGAN + 2 * year, 480.0))
        assert scraped(url)[name(AT)] == BEGAN


def test_a_stream_whose_folder_is_away_was_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "streams").mkdir()
    monkeypatch.setenv("SLUICE_STREAMS", str(tmp_path / "streams"))
    gone = name(AT, "gone")
    with serving(tmp_path / "checks.json") as url:
        checks.report(url, TOKEN, Check("gone", "consumer", 1.0, 480.0))
        assert gone not in scraped(url)
        (tmp_path / "streams").rmdir()
        assert scraped(url)[gone] == BEGAN


def test_a_stream_whose_declaration_is_invalid_is_missed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "streams" / "broken").mkdir(parents=True)
    (tmp_path / "streams" / "broken" / "stream.toml").write_text("no toml")
    monkeypatch.setenv("SLUICE_STREAMS", str(tmp_path / "streams"))
    with serving(tmp_path / "checks.json") as url:
        assert scraped(url)[name(AT, "broken")] == BEGAN


def test_a_check_is_taken_while_a_scrape_reads_the_declarations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 of them take a quarter of a second, more than that on a busy machine."""
    store = Store(tmp_path / "checks.json", lambda: BEGAN)
    reads, go_on = threading.Event(), threading.Event()

    def expected(at: float) -> list[Check]:
        reads.set()
        assert go_on.wait(60)
        return []

    monkeypatch.setattr("sluice.supervision.checks.server.expected", expected)
    threads = [
        threading.Thread(target=work, daemon=True) for work in (store.metrics, lambda: store.add(CHECK))
    ]
    threads[0].start()
    assert reads.wait(30)
    threads[1].start()
    threads[1].join(10)
    is_taken = not threads[1].is_alive()
    go_on.set()
    threads[0].join(30)
    assert is_taken


def test_no_other_client_reads_or_reports(tmp_path: Path) -> None:
    with serving(tmp_path / "checks.json") as url:
        with raising(Refused, "401", url):
            checks.report(url, "another", CHECK)
        for headers in ({}, {"Authorization": "Bearer é"}, {"Authorization": f"Basic {TOKEN}"}):
            encoded = {key.encode(): value.encode() for key, value in headers.items()}
            assert httpx.get(f"{url}/metrics", headers=encoded, trust_env=False).status_code == 401
        assert httpx.get(f"{url}/health", trust_env=False).status_code == 200
        assert scraped(url) == unchecked()


@pytest.mark.parametrize(
    "body",
    [
        b"no json",
        b"[]",
        b"{}",
        json.dumps(vars(CHECK) | {"stream": 'x"} 1\nfaked 2'}).encode(),
        json.dumps(vars(CHECK) | {"at": "now"}).encode(),
        json.dumps(vars(CHECK) | {"more": 1}).encode(),
        *(
            json.dumps(vars(CHECK) | {field: value}).encode()
            for field in ("at", "max_age_seconds")
            for value in (float("inf"), float("nan"), 10**400, 0, -1)
        ),
        b"x" * 5_000,
    ],
)
def test_what_is_no_check_is_refused(tmp_path: Path, body: bytes) -> None:
    with serving(tmp_path / "checks.json") as url:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = httpx.post(f"{url}/checks", content=body, headers=headers, trust_env=False)
        assert answer.status_code in (400, 413)
        assert scraped(url) == unchecked()


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
        assert scraped(other) == unchecked()


def test_it_runs_alone(tmp_path: Path) -> None:
    """Without Airflow, PostgreSQL and S3: nothing of them is there."""
    home = StackDir(tmp_path / "stack")
    home.prepare()
    secrets = home.secrets()
    # No more than it needs of role airflow's file.
    metrics = roles.documents(home, Network(DEFAULTS), secrets)["airflow"]["metrics"]
    roles.write(home.platform, {"airflow": {"metrics": metrics}})
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "sluice.supervision.checks.server", "--port", str(port)]
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
        assert scraped(url, secrets["metrics"])[name(AT)] > time.time() - 60
        process.terminate()
    # As process 1 of a container it ends by its own handler only.
    assert process.returncode == exits.STOPPED
