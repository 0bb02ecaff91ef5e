"""The proxy that clients of HTTP go through by the environment, and a connection through it."""

from __future__ import annotations

import socket
from base64 import b64encode
from http.client import HTTPConnection, HTTPException
from urllib.parse import unquote, urlsplit

from requests.utils import get_environ_proxies, select_proxy

from sluice.config.reading.urls import is_loopback
from sluice.connection_check.deadlines import CONNECT_SECONDS


def proxy_of(url: str) -> str:
    """The proxy that HTTPS_PROXY, or ALL_PROXY, names for the address; empty without one, for this machine,
    and for what NO_PROXY names."""
    if is_loopback(urlsplit(url).hostname or ""):
        return ""
    found = str(select_proxy(url, get_environ_proxies(url)) or "")
    return found if not found or "://" in found else f"http://{found}"


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
