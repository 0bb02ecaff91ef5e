"""Report a check to the process that serves its metrics (:mod:`sluice.supervision.checks.server`)."""

from __future__ import annotations

from http.client import HTTPException

from sluice.core.errors import Refused, Unreachable
from sluice.supervision.checks.check import Check
from sluice.supervision.serving import request

# Timeout of a check's report: a check must not wait for its own alert.
SECONDS = 3.0
PATH = "/checks"


def report(url: str, token: str, check: Check) -> None:
    """Raises Unreachable, Refused. Follows no redirect."""
    try:
        status, _ = request("POST", url, PATH, token, SECONDS, check.dump())
    except (OSError, HTTPException) as error:
        raise Unreachable(f"metrics of checks at {url} do not answer: {error}") from error
    except ValueError:
        # Its text may be the header with the token. No such value may end a check.
        message = f"metrics of checks: no request can have {url!r} and the token. Fix: correct [metrics]"
        raise Refused(message) from None
    if status != 204:
        raise Refused(f"metrics of checks at {url} answered {status}; 401: another token in [metrics]")
