"""Tokens of a REST catalog for the JVM of this process, at an address of this machine that answers to a login
of its own.

Iceberg's Java client would send the client's secret on to wherever its token endpoint redirects to, weeks
after the start, when it renews a token. So it has no secret: each of its tokens is asked for by Python's
client, which follows no redirect.
"""

from __future__ import annotations

import hmac
import json
import math
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_hex
from typing import Any, Protocol
from urllib.parse import parse_qs

from pyiceberg.exceptions import OAuthError, RESTError
from requests import RequestException

HOST, PATH, CLIENT = "127.0.0.1", "/tokens", "sluice"
# A form of Iceberg's client has a few hundred.
_LONGEST_FORM = 65_536
# A client that sends no more is left: each has a thread and a descriptor.
ASKING_SECONDS = 10.0


class Tokens(Protocol):
    """What has tokens, as :class:`sluice.clients.catalogs.tokens.RenewedToken`."""

    def another(self) -> tuple[str, float]: ...


def java(tokens: Tokens) -> dict[str, str]:
    """Properties of Iceberg's Java catalog, for as long as this process runs, in place of the declared ones
    of the same names."""
    secret = token_hex(32)
    server = ThreadingHTTPServer((HOST, 0), _handler(tokens, secret))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="catalog-tokens", daemon=True).start()
    address = f"http://{HOST}:{server.server_address[1]}{PATH}"
    return {"oauth2-server-uri": address, "credential": f"{CLIENT}:{secret}"}


def answer(tokens: Tokens) -> tuple[HTTPStatus, dict[str, Any]]:
    """A new token, or why there is none, by RFC 6749 (5.1, 5.2)."""
    try:
        value, seconds = tokens.another()
    except OAuthError as error:
        return HTTPStatus.UNAUTHORIZED, {"error": "invalid_client", "error_description": str(error)}
    except (RESTError, RequestException) as error:
        # Java's client asks again after it.
        said = {"error": "temporarily_unavailable", "error_description": str(error)}
        return HTTPStatus.SERVICE_UNAVAILABLE, said
    # Whole seconds: Java's client reads no others.
    ends = {"expires_in": max(int(seconds), 1)} if math.isfinite(seconds) else {}
    return HTTPStatus.OK, {"access_token": value, "token_type": "bearer", **ends}


def _handler(tokens: Tokens, secret: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = ASKING_SECONDS

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            size = int(length) if length.isdecimal() else 0
            form = parse_qs(self.rfile.read(min(size, _LONGEST_FORM)).decode(errors="replace"))
            given = form.get("client_secret", [""])[0].encode()
            if self.path != PATH or not hmac.compare_digest(given, secret.encode()):
                said = {"error": "invalid_client", "error_description": "not for this process"}
                self._answer(HTTPStatus.FORBIDDEN, said)
                return
            self._answer(*answer(tokens))

        def _answer(self, status: HTTPStatus, said: dict[str, Any]) -> None:
            content = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, text: str, *args: Any) -> None:
            """A request of the JVM is no event."""

    return Handler
