"""Report a check to the process that serves its metrics (:mod:`sluice.supervision.checks.server`)."""

from __future__ import annotations

from contextlib import closing
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from sluice.core.errors import Refused, Unreachable
from sluice.supervision.checks.check import Check

# Of a check, which must not wait for its own alarm.
SECONDS = 3.0
PATH = "/checks"


def report(url: str, token: str, check: Check) -> None:
    """Raises Unreachable, Refused. Follows no redirect."""
    try:
        status = _post(url, token, check)
    except (OSError, HTTPException) as error:
        raise Unreachable(f"metrics of checks at {url} do not answer: {error}") from error
    except ValueError:
        # Its text may be the header with the token. No such value may end a check.
        message = f"metrics of checks: no request can have {url!r} and the token. Fix: correct [metrics]"
        raise Refused(message) from None
    if status != 204:
        raise Refused(f"metrics of checks at {url} answered {status}; 401: another token in [metrics]")


def _post(url: str, token: str, check: Check) -> int:
    """The answer's status."""
    parts = urlsplit(url)
    opened = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    with closing(opened(parts.hostname or "", parts.port, timeout=SECONDS)) as connection:
        connection.request("POST", parts.path.rstrip("/") + PATH, check.dump(), headers)
        return connection.getresponse().status
