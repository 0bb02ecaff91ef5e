"""Addresses of HTTP that every client can open."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from sluice.config.reading.toml import ConfigError
from sluice.config.reading.values import shown

# Printable ASCII: no client sends another character in a request's line or header.
VISIBLE = re.compile(r"[!-~]+")


def check_url(url: str, where: str) -> None:
    """Raises ConfigError, with ``where`` naming the key."""
    if not _is_url(url):
        raise ConfigError(
            f"{where} {shown(url)}. Fix: write it with http:// or https://, a host and a port, in ASCII"
        )


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # A name that no client can look up: a label of more than 63 characters, or an empty one.
        host = (parts.hostname or "").encode("idna")
        return bool(VISIBLE.fullmatch(url) and parts.scheme in ("http", "https") and host and parts.port != 0)
    except ValueError:
        return False
