"""httpx's clients: for requests with a login, which goes to no other address than it is meant for, and for
feeds."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import httpx

from sluice.clients.proxies import usable_proxy


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


class _ByProxies(httpx.BaseTransport):
    """The network, each address by the proxy that the environment names for it: httpx reads no networks in
    NO_PROXY, and fails for proxies that it does not need."""

    def __init__(self, limits: httpx.Limits) -> None:
        self._limits = limits
        # By proxy; empty for none.
        self._made: dict[str, httpx.HTTPTransport] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        proxy = usable_proxy(str(request.url))
        if proxy not in self._made:
            self._made[proxy] = httpx.HTTPTransport(limits=self._limits, proxy=proxy or None)
        return self._made[proxy].handle_request(request)

    def close(self) -> None:
        for one in self._made.values():
            one.close()


def without_login(
    url: str, timeout: httpx.Timeout, limits: httpx.Limits, transport: httpx.BaseTransport | None = None
) -> httpx.Client:
    """For requests to ``url``, and to where redirects lead, each by the proxy that the environment names for
    it. ``transport``: replaces the network. Raises ProxyUnusable, requests to where redirects lead too."""
    if transport is None:
        usable_proxy(url)
    return httpx.Client(timeout=timeout, transport=transport or _ByProxies(limits))
