"""An HTTP proxy in front of a REST catalog, in which a test changes what is asked and what is answered.

A rule gets each request, and a function that asks the catalog. It may ask for something else, ask twice or
not at all, and answer whatever it likes; with None the connection is reset.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from sluice.config.platform import Platform

HOST = "127.0.0.1"
Json = dict[str, Any]
# What a proxy does not pass on; the catalog's body is asked for as it is, so that a rule can read it.
_HOP_BY_HOP = {"connection", "host", "content-length", "transfer-encoding", "accept-encoding", "keep-alive"}


@dataclass(frozen=True)
class Asked:
    """A request as a client sent it."""

    method: str
    target: str
    """Path and query."""
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes = b""
    received: Mapping[str, str] = field(default_factory=dict)
    """All of its headers, of which ``headers`` are what a proxy passes on."""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def json(self) -> Json:
        """Its body; empty if that is none of JSON."""
        if "json" not in self.headers.get("content-type", "") or not self.body:
            return {}
        found: Json = json.loads(self.body)
        return found

    @property
    def is_commit(self) -> bool:
        """Whether it changes a table."""
        return self.method == "POST" and "updates" in self.json

    def with_json(self, changed: Json) -> Asked:
        return replace(self, body=json.dumps(changed).encode())

    def load(self) -> Asked:
        """What reads the table that it changes."""
        return replace(self, method="GET", body=b"")


@dataclass(frozen=True)
class Answer:
    """What a client gets."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def json(self) -> Json:
        found: Json = json.loads(self.body)
        return found


Ask = Callable[[Asked], Answer]
Rule = Callable[[Asked, Ask], Answer | None]


def refusal(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    """As Iceberg's REST API answers."""
    error = {"error": {"message": message, "type": kind, "code": status}}
    return Answer(status, json.dumps(error).encode(), {"Content-Type": "application/json", **(headers or {})})


def passed_on(asked: Asked, ask: Ask) -> Answer | None:
    """The rule of a proxy that changes nothing."""
    return ask(asked)


class CatalogProxy:
    """The proxy, from `with` to its end. ``rule`` may be set at any time."""

    def __init__(self, upstream: str, rule: Rule = passed_on, context: ssl.SSLContext | None = None) -> None:
        """``upstream``: the catalog's address, without a path; ``context``: of its encryption."""
        self.rule = rule
        self._upstream = upstream
        self._client = httpx.Client(timeout=120, trust_env=False)
        self._guard = threading.Lock()
        self._requests: list[str] = []
        self._server = ThreadingHTTPServer((HOST, 0), self._handler())
        self._server.daemon_threads = True
        self._scheme = "https" if context else "http"
        if context is not None:
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        # How soon it sees that it is to end: by default after half a second.
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"{self._scheme}://{HOST}:{self._server.server_address[1]}"

    def requests(self) -> list[str]:
        """Method and path of each request since the last call."""
        with self._guard:
            found, self._requests = self._requests, []
        return found

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._client.close()

    def answer(self, asked: Asked) -> Answer | None:
        with self._guard:
            self._requests.append(f"{asked.method} {asked.path}")
        return self.rule(asked, self._ask)

    def _ask(self, asked: Asked) -> Answer:
        answer = self._client.request(
            asked.method, f"{self._upstream}{asked.target}", headers=dict(asked.headers), content=asked.body
        )
        return Answer(answer.status_code, answer.content, _end_to_end(answer.headers))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            # Connections are kept, as a catalog keeps them.
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                received = {name.lower(): value for name, value in self.headers.items()}
                answer = proxy.answer(Asked(self.command, self.path, _end_to_end(received), body, received))
                if answer is None:
                    self._reset()
                    return
                # A rule may have a clock of its own.
                (self.send_response_only if "Date" in answer.headers else self.send_response)(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                # A rule may give another length than that of its body, to cut it off.
                if "Content-Length" not in answer.headers:
                    self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.body)
                self.close_connection = "Content-Length" in answer.headers

            def _reset(self) -> None:
                # With RST: a client sees no orderly end.
                lingering = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, lingering)
                self.close_connection = True

            def do_GET(self) -> None:
                self._serve()

            def do_HEAD(self) -> None:
                self._serve()

            def do_POST(self) -> None:
                self._serve()

            def do_DELETE(self) -> None:
                self._serve()

            def log_message(self, *_: Any) -> None:
                """The proxy has a log of its own."""

        return Handler


def _end_to_end(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}


def through(url: str, platform: Platform, **declared: Any) -> Platform:
    """The platform with its REST catalog at another address; ``declared``: further keys of it."""
    catalog = replace(platform.lake.catalog, uri=url, **declared)
    return replace(platform, lake=replace(platform.lake, catalog=catalog))
