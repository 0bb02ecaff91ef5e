"""A small HTTP server for one kind of client that has a token, and the client's request to it.

For processes that must not depend on Airflow or its web server: standard library only.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from contextlib import closing
from http.client import HTTPConnection, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from sluice.core.exposition import is_token
from sluice.core.processes.exits import STOPPED

# After this time a client that sends nothing is disconnected.
IDLE_SECONDS = 10
HEALTH = "/health"
JSON = "application/json"


def new_parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """Options of a server's main program."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    return parser


def prepare_process() -> None:
    """Log to stderr, and end at SIGTERM."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    # As process 1 of a container it is ended by no signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(STOPPED))


class TokenServer(ThreadingHTTPServer):
    """``GET /health`` without the token, everything else with it. ``handler``: of the requests."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], token: str, handler: type[TokenHandler]) -> None:
        self.token = token
        super().__init__(address, handler)


class TokenHandler(BaseHTTPRequestHandler):
    """Answers ``GET`` by :meth:`get`; the connection ends with each answer."""

    timeout = IDLE_SECONDS

    def do_GET(self) -> None:
        if self.path == HEALTH:
            is_healthy = self.is_healthy()
            self.answer(200 if is_healthy else 503, b"ok\n" if is_healthy else b"stuck\n", "text/plain")
        else:
            self.get()

    def is_healthy(self) -> bool:
        """Whether the process does its work."""
        return True

    def get(self) -> None:
        raise NotImplementedError(f"{type(self).__name__} answers no GET")

    def is_allowed(self) -> bool:
        """Whether the request has the token; answers 401 if not."""
        kind, _, given = self.headers.get("Authorization", "").partition(" ")
        if kind == "Bearer" and is_token(given, self.server.token):  # type: ignore[attr-defined]
            return True
        self.answer(401)
        return False

    def answer(self, status: int, body: bytes = b"", kind: str = "") -> None:
        self.close_connection = True
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Too many to log each."""


def request(
    method: str, url: str, path: str, token: str, seconds: float, body: str | None = None
) -> tuple[int, bytes]:
    """Status and body. Follows no redirect. Raises OSError, HTTPException; ValueError for an address or a
    token that no request can have: its text may be the header with the token."""
    parts = urlsplit(url)
    opened = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    headers = {"Authorization": f"Bearer {token}"}
    if body is not None:
        headers["Content-Type"] = JSON
    with closing(opened(parts.hostname or "", parts.port, timeout=seconds)) as connection:
        connection.request(method, parts.path.rstrip("/") + path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
