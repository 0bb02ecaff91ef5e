"""A schema registry by HTTP on this machine, with the answers that a test gives it."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

AVRO_TEXT = '{"type": "record", "name": "R", "fields": []}'


@dataclass(frozen=True)
class Answer:
    """``body``: bytes as they are, else as JSON; ``headers``: further ones. ``pauses``: seconds before each
    byte of the body is sent."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    pauses: float = 0

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def error(code: int, message: str = "not there") -> Answer:
    """As the API has it: the code's first digits are the status."""
    return Answer({"error_code": code, "message": message}, int(str(code)[:3]))


UNKNOWN_PATH = Answer({"error_code": 404, "message": "HTTP 404 Not Found"}, 404)


class RegistryServer(ThreadingHTTPServer):
    """``answers``: by path and query, with ``POST `` before that of such a request; another path is one that
    the API does not have. ``requests``: path, and headers by lower-case names. ``posted``: documents."""

    daemon_threads = True

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, Answer] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.posted: list[Any] = []
        self.connections = 0
        self._scheme = "http"
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True)
            self._scheme = "https"

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.server_port}"

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away, or refuses the certificate, is what a test wants."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are two packets, of which the second would wait for the first's acknowledgement: 40 ms.
    disable_nagle_algorithm = True
    server: RegistryServer

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_POST(self) -> None:
        self.server.posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._answer(f"POST {self.path}")

    def do_GET(self) -> None:
        self._answer(self.path)

    def _answer(self, request: str) -> None:
        self.server.requests.append((request, {key.lower(): value for key, value in self.headers.items()}))
        answer = self.server.answers.get(request, UNKNOWN_PATH)
        content = answer.content
        self.send_response(answer.status)
        for key, value in answer.headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if not answer.pauses:
            self.wfile.write(content)
        for byte in content if answer.pauses else b"":
            time.sleep(answer.pauses)
            self.wfile.write(bytes([byte]))

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[RegistryServer]:
    with RegistryServer(context) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)


def free_url() -> str:
    """An address at which no server is."""
    with serving() as server:
        url = server.url
    assert urlsplit(url).port
    return url
