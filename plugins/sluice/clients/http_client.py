"""httpx's clients: for requests with a login, which goes to no other address than it is meant for, and for
feeds."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import httpx

from sluice.clients.proxies import ProxyUnusable, usable_proxy

# No proxy stands between this machine and itself.
_DIRECT = dict.fromkeys(("all://localhost", "all://127.0.0.1", "all://[::1]"))


def logged_in(
    url: str,
    login: httpx.Auth | None,
    tls: Callable[[], ssl.SSLContext],
    headers: Mapping[str, str],
    timeout: httpx.Timeout,
) -> httpx.Client:
    """For requests to ``url`` and below. ``tls``: asked for an ``https://`` one. No redirect is followed.

    Raises ProxyUnusable if the environment names a proxy for it that cannot be gone through.
    """
    return httpx.Client(
        auth=login,
        headers={"User-Agent": "sluice", **headers},
        verify=tls() if urlsplit(url).scheme == "https" else False,
        timeout=timeout,
        follow_redirects=False,
        # httpx itself would go through one to this machine, and fails for one of SOCKS that it does not need.
        proxy=usable_proxy(url) or None,
        trust_env=False,
    )


def without_login(
    url: str, timeout: httpx.Timeout, limits: httpx.Limits, transport: httpx.BaseTransport | None = None
) -> httpx.Client:
    """For requests to ``url``, and to where redirects lead, each by the proxy that the environment names for
    it. ``transport``: replaces the network. Raises ProxyUnusable."""
    if transport is None:
        usable_proxy(url)
    try:
        return httpx.Client(timeout=timeout, limits=limits, transport=transport, mounts=_DIRECT)
    except (ImportError, ValueError) as error:
        # httpx makes all that the environment names, also those that it does not go through.
        raise ProxyUnusable(
            f"a proxy of the environment cannot be used: {error}. Fix: let HTTPS_PROXY, HTTP_PROXY and "
            "ALL_PROXY name proxies of http://, or remove them"
        ) from error
