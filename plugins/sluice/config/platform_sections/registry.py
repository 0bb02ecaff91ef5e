"""``[registry]`` of a platform file: the schema registry of topics whose records name their schemas."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Annotated
from urllib.parse import urlsplit

from sluice.config.reading.logins import check_key_has_certificate, check_token_endpoint
from sluice.config.reading.toml import ConfigError
from sluice.config.reading.urls import VISIBLE, check_encrypted, check_no_login, check_url

# A name is a part of messages, and of nothing else as it is.
_NAME = re.compile(r"[ -~]{1,200}")
# The keys of tokens that are fetched, as Confluent's clients begin their names.
_BEARER = "bearer_auth"


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
    bearer_auth_issuer_endpoint_url: Annotated[
        str,
        "address of OAuth2's token endpoint, whose tokens (grant `client_credentials`) are renewed; in place "
        "of `token`",
    ] = ""
    bearer_auth_client_id: Annotated[str, "at the token endpoint"] = ""
    bearer_auth_client_secret: Annotated[str, "of the client id"] = field(default="", repr=False)
    bearer_auth_scope: Annotated[str, "of the tokens; several with blanks between"] = ""
    bearer_auth_logical_cluster: Annotated[
        str, "Confluent Cloud: the registry's id (`lsrc-…`), sent with a bearer token"
    ] = ""
    bearer_auth_identity_pool_id: Annotated[
        str, "Confluent Cloud: the identity pool's id (`pool-…`), sent with a bearer token"
    ] = ""
    https_ca_location: Annotated[
        str, "path of a PEM file with the token endpoint's CA; empty: the system's CAs"
    ] = ""
    ssl_ca_location: Annotated[str, "path of a PEM file with the server's CA; empty: the system's CAs"] = ""
    ssl_certificate_location: Annotated[
        str, "path of a PEM file with a client's certificate and its chain; empty: none"
    ] = ""
    ssl_key_location: Annotated[
        str, "path of a PEM file with the certificate's key; empty: in the same file"
    ] = ""
    ssl_key_password: Annotated[str, "the key's passphrase, if it is encrypted"] = field(
        default="", repr=False
    )
    plain_text: Annotated[
        bool,
        "true: a login is sent to another machine over `http://`, in a network that you trust",
    ] = False

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses, without a slash at their end."""
        return tuple(url.strip().rstrip("/") for url in self.url.split(","))

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read again after they were replaced."""
        found = (self.ssl_ca_location, self.ssl_certificate_location, self.ssl_key_location)
        return tuple(filter(None, found))

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


def _check_oauth(registry: Registry, where: str) -> None:
    names = [one.name for one in fields(registry) if one.name.startswith(f"{_BEARER}_")]
    url, login = registry.bearer_auth_issuer_endpoint_url, names[:3]
    asked = (*login[1:], f"{_BEARER}_scope", "https_ca_location")
    if not url:
        if extra := next((one for one in asked if getattr(registry, one)), ""):
            raise ConfigError(
                f"{where}: registry {extra} is there, and {login[0]} is missing. Fix: add it, or remove "
                f"{extra}"
            )
        further = next((one for one in names if getattr(registry, one)), "")
        if further and not registry.token:
            raise ConfigError(
                f"{where}: registry {further} is there, and no bearer token. Fix: add {login[0]}, or token"
            )
        return
    if registry.token or registry.username:
        raise ConfigError(f"{where}: registry {login[0]} and another login are there. Fix: keep one of them")
    check_token_endpoint(registry, f"{where}: registry", *login)


def _check_login(registry: Registry, where: str) -> None:
    _check_oauth(registry, where)
    for one in ("bearer_auth_logical_cluster", "bearer_auth_identity_pool_id"):
        if (text := getattr(registry, one)) and not VISIBLE.fullmatch(text):
            raise ConfigError(
                f"{where}: registry {one} has a character that no header can have. Fix: use visible ASCII"
            )
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
    if registry.plain_text or not (
        registry.username or registry.token or registry.bearer_auth_issuer_endpoint_url
    ):
        return
    for url in registry.urls:
        check_encrypted(url, f"{where}: registry url {url}")


def _check_tls(registry: Registry, where: str) -> None:
    check_key_has_certificate(registry, f"{where}: registry")
    plain = [url for url in registry.urls if urlsplit(url).scheme == "http"]
    for key in ("ssl_ca_location", "ssl_certificate_location"):
        if getattr(registry, key) and plain:
            raise ConfigError(
                f"{where}: registry {key} is there, and {plain[0]} is not encrypted. Fix: write https://, or "
                f"remove {key}"
            )
