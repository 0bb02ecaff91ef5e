"""``[registry]`` of a platform file: the schema registry of topics whose records name their schemas."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import urlsplit

from sluice.config.reading.toml import ConfigError
from sluice.config.reading.urls import VISIBLE, check_encrypted, check_no_login, check_url

# A name is a part of messages, and of nothing else as it is.
_NAME = re.compile(r"[ -~]{1,200}")


@dataclass(frozen=True)
class Registry:
    """A registry with Confluent's API, and one user's login."""

    url: Annotated[
        str,
        "address of a [schema registry](#a-schema-registry) with Confluent's API, up to the part before "
        "`/subjects`; several of one registry, separated by commas, are asked in turn",
    ]
    name: Annotated[
        str,
        "under which schemas are kept: the same in all files, another one for another registry, and for one "
        "that was emptied; empty: the first address",
    ] = ""
    username: Annotated[str, "with `password` (HTTP Basic), or an API key; empty: no login, or a token"] = ""
    password: Annotated[str, "of `username`, or the API secret"] = field(default="", repr=False)
    token: Annotated[str, "bearer token, in place of `username` and `password`"] = field(
        default="", repr=False
    )
    ssl_ca_location: Annotated[str, "path of a PEM file with the server's CA; empty: the system's CAs"] = ""
    ssl_certificate_location: Annotated[
        str, "path of a PEM file with a client's certificate and its chain; empty: none"
    ] = ""
    ssl_key_location: Annotated[
        str, "path of a PEM file with the certificate's key, without a passphrase; empty: in the same file"
    ] = ""
    plain_text: Annotated[
        bool,
        "true: a login is sent to another machine over `http://`, in a network that you trust",
    ] = False

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses, without a slash at their end."""
        return tuple(url.strip().rstrip("/") for url in self.url.split(","))

    @property
    def identity(self) -> str:
        """What tells this registry's ids from another one's."""
        if self.name:
            return self.name
        # Letter case, and a port that is the scheme's own, are of no meaning.
        parts = urlsplit(self.urls[0])
        port = {"http": 80, "https": 443}[parts.scheme] if parts.port is None else parts.port
        return f"{parts.scheme}://{parts.hostname}:{port}{parts.path}"


def check(registry: Registry, where: str) -> None:
    """Raises ConfigError naming ``where`` and the key, never a secret."""
    for url in registry.urls:
        _check_url(url, f"{where}: registry url")
    if registry.name and not _NAME.fullmatch(registry.name):
        raise ConfigError(
            f"{where}: registry name has a character that is not printable ASCII, or more than 200 of them. "
            "Fix: write another name"
        )
    _check_login(registry, where)
    _check_tls(registry, where)


def _check_url(url: str, where: str) -> None:
    check_no_login(url, where)
    check_url(url, where)
    if "?" in url or "#" in url:
        raise ConfigError(f"{where} {url} has a query or a fragment. Fix: leave out what begins with ? or #")


def _check_login(registry: Registry, where: str) -> None:
    if registry.token and (registry.username or registry.password):
        raise ConfigError(
            f"{where}: registry token and username or password: there are two logins. Fix: keep one of them"
        )
    if bool(registry.username) != bool(registry.password):
        there, missing = ("username", "password") if registry.username else ("password", "username")
        raise ConfigError(f"{where}: registry {there} is there, and {missing} is missing. Fix: add {missing}")
    if ":" in registry.username or not registry.username.isprintable():
        raise ConfigError(
            f"{where}: registry username has a colon or a control character, which HTTP Basic cannot send. "
            "Fix: use another user"
        )
    if registry.token and not VISIBLE.fullmatch(registry.token):
        raise ConfigError(
            f"{where}: registry token has a character that no header can have. Fix: use visible ASCII only"
        )
    if registry.plain_text or not (registry.username or registry.token):
        return
    for url in registry.urls:
        check_encrypted(url, f"{where}: registry url {url}")


def _check_tls(registry: Registry, where: str) -> None:
    if registry.ssl_key_location and not registry.ssl_certificate_location:
        raise ConfigError(
            f"{where}: registry ssl_key_location is there, and ssl_certificate_location is missing. Fix: add "
            "the certificate, or remove the key"
        )
    plain = [url for url in registry.urls if urlsplit(url).scheme == "http"]
    for key in ("ssl_ca_location", "ssl_certificate_location"):
        if getattr(registry, key) and plain:
            raise ConfigError(
                f"{where}: registry {key} is there, and {plain[0]} is not encrypted. Fix: write https://, or "
                f"remove {key}"
            )
