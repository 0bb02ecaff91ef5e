"""Addresses that every client can open, without a login in them, and not sent to in plain text by mistake."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

from sluice.config.reading.toml import ConfigError
from sluice.config.reading.values import shown, shown_address

# Printable ASCII: no client sends another character in a request's line or header.
VISIBLE = re.compile(r"[!-~]+")
# What happens to a request that anyone between can read.
LOGIN_SHOWN = ", and the login would be sent to it in plain text"
# The end of a fix, after "or, ".
PLAIN_TEXT = "in a network that you trust, plain_text = true"


def check_url(url: str, where: str) -> None:
    """Raises ConfigError, with ``where`` naming the key."""
    if not _is_url(url):
        raise ConfigError(
            f"{where} {shown(shown_address(url))}. Fix: write it with http:// or https://, a host and a "
            "port, in ASCII"
        )


def check_no_login(url: str, where: str, keys: str = "keys of its own") -> None:
    """Raises ConfigError, which does not show the address; before any other message does. ``keys``: what a
    login is written as."""
    if "@" in url:
        raise ConfigError(f"{where} has a login in it. Fix: write it as {keys}")


def check_encrypted(url: str, where: str, danger: str = LOGIN_SHOWN) -> None:
    """Raises ConfigError for ``http://`` to another machine, which its section's `plain_text` would allow;
    ``danger``: what can happen then, as a part of the message."""
    if is_plain(url):
        raise ConfigError(f"{where} is of another machine{danger}. Fix: write https://, or, {PLAIN_TEXT}")


def is_plain(url: str) -> bool:
    """Whether anyone between can read what is sent there: ``http://`` to another machine. Also for an address
    that cannot be read."""
    try:
        parts = urlsplit(url)
        return parts.scheme == "http" and not is_loopback(parts.hostname or "")
    except ValueError:
        return True


def is_loopback(host: str) -> bool:
    """Whether the host is this machine: a name or address of it, or the folder of a socket; of several with
    commas between, as libpq takes them, whether each is."""
    if "," in host:
        return all(map(is_loopback, host.split(",")))
    if host.startswith("/") or host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_of(url: str) -> str:
    """Where an address of others points to, without what may be a secret in it: its path, query and login."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", f":{parts.port}" if parts.port else ""
    except ValueError:
        return "no address"
    return f"{parts.scheme}://{host}{port}" if host.isascii() and VISIBLE.fullmatch(host) else "no host"


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # A name that no client can look up: a label of more than 63 characters, or an empty one.
        host = (parts.hostname or "").encode("idna")
        return bool(VISIBLE.fullmatch(url) and parts.scheme in ("http", "https") and host and parts.port != 0)
    except ValueError:
        return False
