"""Servers that are asked by HTTP: the schema registry, the observer, the process of checks, supervisord."""

from __future__ import annotations

import time
from dataclasses import replace
from http.client import HTTPException
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit
from xmlrpc.client import Fault, ProtocolError

import httpx

from sluice.clients.kafka.login.tokens import claims, is_time
from sluice.clients.proxies import ProxyUnusable, usable_proxy
from sluice.config.platform import file_of
from sluice.config.reading.values import shown_address
from sluice.connection_check.deadlines import ANSWER_SECONDS
from sluice.connection_check.probing import tls as handshakes
from sluice.connection_check.probing.tls import Tls
from sluice.connection_check.rows import PENDING, Row, Span, compared
from sluice.core.errors import Refused, Unreachable
from sluice.core.http_dates import http_date
from sluice.core.registry.errors import Forbidden
from sluice.supervision.observer.server import PATH as STREAMS
from sluice.supervision.serving import request

if TYPE_CHECKING:
    from sluice.clients.registry.http import Http
    from sluice.config.platform_sections.metrics import Metrics, ObserverAccess
    from sluice.config.platform_sections.registry import Registry
    from sluice.config.platform_sections.supervisor import Supervisor

# The year 9999, behind which no date can be written: a time in milliseconds is.
_LAST = 253_402_300_799
# No stream's name has a hyphen.
NAME = "sluice-check"


def static_token(value: str, written: float = -inf) -> Span | None:
    """When a declared bearer token ends, if it is a JWT that says so. ``written``: seconds since 1970, in
    place of a begin that it does not say; without both it is about to end two weeks before."""
    try:
        found = claims(value)
    except ValueError:
        return None
    ends, begins = found.get("exp"), found.get("iat", found.get("nbf"))
    if not is_time(ends) or not 0 <= ends <= _LAST:
        return None
    return Span(begins if is_time(begins) and begins <= _LAST else written, ends)


def note_token(row: Row, value: str, path: str = "") -> None:
    """Fill the end of a declared token. ``path``: of the file that it is in, which another process writes;
    empty: it is in the platform file itself."""
    try:
        written = Path(path).stat().st_mtime if path else -inf
    except OSError:
        written = -inf
    row.token, row.is_written = static_token(value, written), bool(path)


def clock_of(row: Row, url: str, *, is_direct: bool = False) -> bool:
    """Fill the server's clock, which any answer of a web server says; whether there was one. ``is_direct``:
    its clients heed no proxy."""
    parts = urlsplit(url)
    # Not what the address has of a login, and of a query: this connection is not verified, as one before was.
    bare = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], "/", "", ""))
    began = time.time()
    try:
        # A cache between asks the server again (RFC 9111, 5.2.1.4), if it heeds that.
        answer = httpx.head(
            bare,
            headers={"Cache-Control": "no-cache"},
            timeout=ANSWER_SECONDS,
            verify=False,  # noqa: S501
            proxy=None if is_direct else usable_proxy(url) or None,
            trust_env=False,
        )
    except ProxyUnusable as error:
        row.problems.append(str(error))
        return True
    except httpx.HTTPError as error:
        row.remarks.append(f"its clock is not known: {type(error).__name__}")
        return False
    if answer.headers.get("Age", "0").strip("0"):
        # Some caches leave the Date of when they were answered, others write their own.
        row.remarks.append("its clock is not known: a cache answered in its place")
    elif at := http_date(answer.headers.get("Date", "")):
        row.clock = at.timestamp() - (began + time.time()) / 2
    return True


def ask_address(url: str, tls: Tls, rows: list[Row]) -> None:
    """Fill the row of a server that is asked for nothing: its certificate and its clock."""
    row = rows[0]
    if handshakes.look_at(row, url, tls) and not clock_of(row, url):
        row.problems.append("it does not answer. Fix: start it, or correct its address")
    row.not_looked_at = ""


def registry_login(registry: Registry) -> str:
    """The kind of login and its name."""
    if registry.token:
        return "bearer token"
    if registry.username:
        return f"user {registry.username}"
    if registry.bearer_auth_client_id:
        return f"OAuth2 {registry.bearer_auth_client_id}"
    return "certificate" if registry.ssl_certificate_location else "none"


def ask_registry(registry: Registry, url: str, rows: list[Row], *, registers: bool) -> None:
    """Fill the row of one of the addresses. ``registers``: whether the role registers schemas."""
    from sluice.clients.registry.http import Http

    row = rows[0]
    note_token(row, registry.token, file_of(row.role, "registry", "token"))
    tls = Tls.declared(registry)
    if endpoint := registry.bearer_auth_issuer_endpoint_url:
        rows.append(Row(row.role, "registry token endpoint", endpoint, row.login, not_looked_at=PENDING))
        ask_address(endpoint, Tls(registry.https_ca_location), rows[-1:])
    if not handshakes.look_at(row, url, tls):
        return
    http = Http(replace(registry, url=url))
    try:
        try:
            http.get(("subjects",))
            row.rights = compared([("list subjects", True, True)])
        except Forbidden:
            # The login is known; the streams' own requests need no listing.
            row.remarks.append("it may not list subjects, which no stream needs: others are not asked")
        clock_of(row, url)
        mode = _mode(http)
        if registers and mode not in ("", "READWRITE"):
            row.problems.append(
                f"its mode is {mode}, and loads register schemas. Fix: set the mode READWRITE"
            )
    finally:
        http.close()


def _mode(http: Http) -> str:
    """Empty if the registry does not say."""
    try:
        found = http.get(("mode",)).body
    except Refused:
        return ""
    return str(found.get("mode", "")) if isinstance(found, dict) else ""


def ask_observer(access: ObserverAccess, rows: list[Row]) -> None:
    """Fill the row. 404 is the answer to who has the token."""
    _ask_by_token(rows[0], access, access.url, STREAMS + NAME, access.token, (200, 404))


def ask_checks(metrics: Metrics, rows: list[Row]) -> None:
    """Fill the row of the process of checks."""
    _ask_by_token(rows[0], metrics, metrics.checks_url, "/metrics", metrics.token, (200,))


def _ask_by_token(
    row: Row, section: object, url: str, path: str, token: str, accepted: tuple[int, ...]
) -> None:
    if not handshakes.look_at(row, url, Tls.declared(section), is_direct=True):
        return
    try:
        status, _ = request("GET", url, path, token, ANSWER_SECONDS)
    except (OSError, HTTPException) as error:
        raise Unreachable(f"it does not answer: {error}. Fix: start it, or correct its url") from error
    except ValueError:
        # Its text may be the header with the token.
        raise Refused(
            f"no request can have {shown_address(url)!r} and the token. Fix: correct them"
        ) from None
    if status not in accepted:
        raise Refused(f"it answered {status}; 401: another token. Fix: give both the same one")
    clock_of(row, url, is_direct=True)


def ask_supervisor(supervisor: Supervisor, rows: list[Row]) -> None:
    """Fill the row."""
    from sluice.clients.processes.supervisord import connect

    if not handshakes.look_at(rows[0], supervisor.url, Tls.declared(supervisor), is_direct=True):
        return
    try:
        connect(supervisor, ANSWER_SECONDS).getState()
    except ProtocolError as error:
        if error.errcode == 401:
            raise Refused("it refuses the login. Fix: correct username and password") from error
        raise Unreachable(f"it answered {error.errcode}. Fix: see supervisord's log") from error
    except (OSError, HTTPException, Fault) as error:
        raise Unreachable(f"it does not answer: {error}. Fix: start it, or correct its url") from error
