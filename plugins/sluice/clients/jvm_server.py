"""Servers of a process for its own JVM, at an address of this machine. The JVM has the secret of each."""

from __future__ import annotations

import hmac
import json
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOST = "127.0.0.1"


class JvmHandler(BaseHTTPRequestHandler):
    """Answers with documents."""

    # A client that sends no more is left: each has a thread and a descriptor.
    timeout = 10.0

    def answer(self, status: HTTPStatus, said: Mapping[str, object]) -> None:
        content = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    @staticmethod
    def is_secret(given: str, secret: str) -> bool:
        return hmac.compare_digest(given.encode(), secret.encode())

    def log_message(self, text: str, *args: object) -> None:
        """A request of the JVM is no event."""


def serve(handler: type[JvmHandler], name: str) -> str:
    """Serve for as long as this process runs; returns the address, with scheme and port. ``name``: of the
    thread."""
    server = ThreadingHTTPServer((HOST, 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name=name, daemon=True).start()
    return f"http://{HOST}:{server.server_address[1]}"
