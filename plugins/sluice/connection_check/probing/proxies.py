"""A connection through the proxy that clients go through."""

from __future__ import annotations

import socket
from base64 import b64encode
from http.client import HTTPConnection, HTTPException
from urllib.parse import unquote, urlsplit

from sluice.connection_check.deadlines import CONNECT_SECONDS


def is_passed(proxy: str) -> bool:
    """Whether :func:`connected` passes this one: not one that is encrypted itself, nor one of SOCKS."""
    return not proxy or urlsplit(proxy).scheme == "http"


def connected(host: str, port: int, proxy: str = "") -> socket.socket:
    """A connection to the server; through the ``proxy`` by CONNECT. Raises OSError."""
    if not proxy:
        return socket.create_connection((host, port), CONNECT_SECONDS)
    parts = urlsplit(proxy)
    tunnel = HTTPConnection(parts.hostname or "", parts.port or 80, timeout=CONNECT_SECONDS)
    tunnel.set_tunnel(host, port, _login(parts.username, parts.password))
    try:
        tunnel.connect()
    except HTTPException as error:
        tunnel.close()
        raise ConnectionError(f"no answer of a proxy ({type(error).__name__})") from error
    return tunnel.sock


def _login(user: str | None, password: str | None) -> dict[str, str]:
    if user is None:
        return {}
    login = f"{unquote(user)}:{unquote(password or '')}".encode()
    return {"Proxy-Authorization": f"Basic {b64encode(login).decode()}"}
