"""Report a check to the process that serves its metrics (:mod:`sluice.runtime.checks`)."""

from __future__ import annotations

from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from sluice.clients.errors import Refused, Unreachable
from sluice.model.checks import Check

# Of a check, which must not wait for its own alarm.
SECONDS = 3.0
PATH = "/checks"


def report(url: str, token: str, check: Check) -> None:
    """Raises Unreachable, Refused. Follows no redirect."""
    parts = urlsplit(url)
    opened = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = opened(parts.hostname or "", parts.port, timeout=SECONDS)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    try:
        connection.request("POST", parts.path.rstrip("/") + PATH, check.dump(), headers)
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        raise Unreachable(f"metrics of checks at {url} do not answer: {error}") from error
    finally:
        connection.close()
    if status != 204:
        raise Refused(f"metrics of checks at {url} answered {status}; 401: another token in [metrics]")
