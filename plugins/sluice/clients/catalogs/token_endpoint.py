"""Tokens of a REST catalog for the JVM of this process, at an address of this machine that answers to a login
of its own.

Iceberg's Java client would send the client's secret on to wherever its token endpoint redirects to, weeks
after the start, when it renews a token. So it has no secret: each of its tokens is asked for by Python's
client, which follows no redirect.
"""

from __future__ import annotations

import math
from http import HTTPStatus
from secrets import token_hex
from typing import Any, Protocol
from urllib.parse import parse_qs

from pyiceberg.exceptions import OAuthError, RESTError
from requests import RequestException

from sluice.clients.jvm_server import JvmHandler, serve

PATH, CLIENT = "/tokens", "sluice"
# A form of Iceberg's client has a few hundred.
_LONGEST_FORM = 65_536


class Tokens(Protocol):
    """What has tokens, as :class:`sluice.clients.catalogs.tokens.RenewedToken`."""

    def another(self) -> tuple[str, float]: ...


def java(tokens: Tokens) -> dict[str, str]:
    """Properties of Iceberg's Java catalog, for as long as this process runs, in place of the declared ones
    of the same names."""
    secret = token_hex(32)
    address = serve(_handler(tokens, secret), "catalog-tokens")
    return {"oauth2-server-uri": f"{address}{PATH}", "credential": f"{CLIENT}:{secret}"}


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


def _handler(tokens: Tokens, secret: str) -> type[JvmHandler]:
    class Handler(JvmHandler):
        def do_POST(self) -> None:  # noqa: N802 - http.server's
            length = self.headers.get("Content-Length", "")
            size = int(length) if length.isdecimal() else 0
            form = parse_qs(self.rfile.read(min(size, _LONGEST_FORM)).decode(errors="replace"))
            given = form.get("client_secret", [""])[0]
            if self.path != PATH or not self.is_secret(given, secret):
                said = {"error": "invalid_client", "error_description": "not for this process"}
                self.answer(HTTPStatus.FORBIDDEN, said)
                return
            self.answer(*answer(tokens))

    return Handler
