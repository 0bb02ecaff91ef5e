"""Credentials for the JVM of this process, as containers of AWS get theirs: over HTTP, at an address of this
machine that answers to a token.

So the JVM has the login of Python's clients, whatever it is, and renews nothing by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from http import HTTPStatus
from secrets import token_hex

from sluice.clients.jvm_server import JvmHandler, serve
from sluice.clients.s3.login.credentials import Login, login
from sluice.config.platform_sections.s3 import S3
from sluice.core.errors import ClientError, Refused

PATH = "/credentials"
# When the JVM asks again for what does not end.
ASKED_AGAIN = timedelta(hours=1)


@dataclass(frozen=True)
class Endpoint:
    """``address``: with scheme and port, without the path."""

    address: str
    token: str = field(repr=False)


@cache
def endpoint(s3: S3) -> Endpoint:
    """One of each login in a process, for as long as that runs."""
    token = token_hex(32)
    return Endpoint(serve(_handler(login(s3), token), "s3-login"), token)


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


def _handler(found: Login, token: str) -> type[JvmHandler]:
    class Handler(JvmHandler):
        def do_GET(self) -> None:  # noqa: N802 - http.server's
            given = self.headers.get("Authorization", "")
            if self.path != PATH or not self.is_secret(given, token):
                self.answer(HTTPStatus.FORBIDDEN, {"code": "Forbidden", "message": "not for this process"})
                return
            try:
                self.answer(HTTPStatus.OK, document(found))
            except ClientError as error:
                # The SDK asks again after the latter.
                is_refused = isinstance(error, Refused)
                status = HTTPStatus.BAD_REQUEST if is_refused else HTTPStatus.SERVICE_UNAVAILABLE
                self.answer(status, {"code": str(error.code), "message": f"{error.code} {error}"})

    return Handler
