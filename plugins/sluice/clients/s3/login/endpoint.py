"""Credentials for the JVM of this process, as containers of AWS get theirs: over HTTP, at an address of this
machine that answers to a token.

So the JVM has the login of Python's clients, whatever it is, and renews nothing by itself.
"""

from __future__ import annotations

import hmac
import json
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_hex
from typing import Any

from sluice.clients.s3.login.credentials import Login, login
from sluice.config.platform_sections.s3 import S3
from sluice.core.errors import ClientError, Refused

HOST, PATH = "127.0.0.1", "/credentials"
# When the JVM asks again for what does not end.
ASKED_AGAIN = timedelta(hours=1)
# A client that sends no more is left: each has a thread and a descriptor.
ASKING_SECONDS = 10.0


@dataclass(frozen=True)
class Endpoint:
    """``address``: with scheme and port, without the path."""

    address: str
    token: str = field(repr=False)


@cache
def endpoint(s3: S3) -> Endpoint:
    """One of each login in a process, for as long as that runs."""
    token = token_hex(32)
    server = ThreadingHTTPServer((HOST, 0), _handler(login(s3), token))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="s3-login", daemon=True).start()
    return Endpoint(f"http://{HOST}:{server.server_address[1]}", token)


def document(found: Login) -> dict[str, str]:
    """Credentials as AWS's SDKs read them. Raises S3LoginRefused or Unreachable."""
    keys, ends = found.get_frozen_credentials(), found.ends
    said = {
        "AccessKeyId": keys.access_key or "",
        "SecretAccessKey": keys.secret_key or "",
        "Token": keys.token or "",
    }
    # AWS's client for Java fails on an answer without an end, which keys of the environment do not have.
    ends = ends or datetime.now(UTC) + ASKED_AGAIN
    return {**said, "Expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ")}


def _handler(found: Login, token: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = ASKING_SECONDS

        def do_GET(self) -> None:
            given = self.headers.get("Authorization", "").encode()
            if self.path != PATH or not hmac.compare_digest(given, token.encode()):
                self._answer(HTTPStatus.FORBIDDEN, {"code": "Forbidden", "message": "not for this process"})
                return
            try:
                self._answer(HTTPStatus.OK, document(found))
            except ClientError as error:
                # The SDK asks again after the latter.
                is_refused = isinstance(error, Refused)
                status = HTTPStatus.BAD_REQUEST if is_refused else HTTPStatus.SERVICE_UNAVAILABLE
                self._answer(status, {"code": str(error.code), "message": f"{error.code} {error}"})

        def _answer(self, status: HTTPStatus, said: dict[str, str]) -> None:
            content = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, text: str, *args: Any) -> None:
            """A request of the JVM is no event."""

    return Handler
