"""The proxy that clients of HTTP go through by the environment: in this one place for all of them."""

from __future__ import annotations

from urllib.parse import urlsplit

from requests.utils import get_environ_proxies, select_proxy

from sluice.config.reading.toml import ConfigError
from sluice.config.reading.urls import host_of, is_loopback

# Schemes of proxies that every client here passes.
SCHEMES = ("http", "https")


class ProxyUnusable(ConfigError):
    """The environment names a proxy that a client cannot go through."""


def proxy_of(url: str) -> str:
    """The proxy that HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names for the address; empty without one, for what
    NO_PROXY names, and for this machine: a proxy between would be sent what is encrypted for no one else."""
    if is_loopback(urlsplit(url).hostname or ""):
        return ""
    found = str(select_proxy(url, get_environ_proxies(url)) or "")
    return found if not found or "://" in found else f"http://{found}"


def usable_proxy(url: str) -> str:
    """As :func:`proxy_of`. Raises ProxyUnusable for one of SOCKS."""
    found = proxy_of(url)
    if found and urlsplit(found).scheme not in SCHEMES:
        raise unusable(url, found, f"no proxy of {' or '.join(f'{one}://' for one in SCHEMES)}")
    return found


def unusable(url: str, proxy: str, reason: str) -> ProxyUnusable:
    """The error for a ``proxy`` of the address, without its login."""
    return ProxyUnusable(
        f"{variable_of(url)} names {host_of(proxy)} for {host_of(url)}: {reason}. Fix: name a proxy of "
        f"http:// there, or add {urlsplit(url).hostname} to NO_PROXY"
    )


def variable_of(url: str) -> str:
    """The variable that names the proxy of an address that has one."""
    scheme = urlsplit(url).scheme
    return f"{scheme.upper()}_PROXY" if scheme in get_environ_proxies(url) else "ALL_PROXY"


def of_aws(service: str, region: str) -> str:
    """The address of one of AWS's services without a declared endpoint."""
    return f"https://{service}.{region}.amazonaws.com"


def for_botocore(url: str) -> dict[str, str]:
    """What a client of botocore is given as proxies for its endpoint: by itself it reads neither ALL_PROXY
    nor a network in NO_PROXY. Raises ProxyUnusable."""
    found = usable_proxy(url)
    return {urlsplit(url).scheme: found} if found else {}
