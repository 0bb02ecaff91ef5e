"""What all sections check of a client's certificate, and of OAuth2's token endpoint."""

from __future__ import annotations

from typing import Any

from sluice.config.reading.toml import ConfigError
from sluice.config.reading.urls import VISIBLE, check_no_login, check_url, is_plain
from sluice.config.reading.values import shown_address


def check_key_has_certificate(section: Any, where: str) -> None:
    """Raises ConfigError for a key without the certificate that it is of."""
    for key in ("ssl_key_location", "ssl_key_password"):
        if getattr(section, key) and not section.ssl_certificate_location:
            raise ConfigError(
                f"{where} {key} is there, and ssl_certificate_location is missing. Fix: add the certificate, "
                f"or remove {key}"
            )


def check_token_endpoint(section: object, where: str, url_key: str, id_key: str, secret_key: str) -> None:
    """Raises ConfigError for an address to which no secret may be sent, and a client that cannot ask it.
    The keys are the section's."""
    url = getattr(section, url_key)
    # Before any message shows it.
    check_no_login(url, f"{where} {url_key}", f"{id_key} and {secret_key}")
    check_url(url, f"{where} {url_key}")
    if is_plain(url):
        raise ConfigError(
            f"{where} {url_key} {shown_address(url)} is of another machine, and the secret would be sent to "
            "it in plain text. Fix: write https://"
        )
    for key in (id_key, secret_key):
        text = getattr(section, key)
        if not VISIBLE.fullmatch(text):
            found = "has a character that no header can have" if text else "is missing"
            raise ConfigError(f"{where} {key} {found}. Fix: give it, in visible ASCII")
    if ":" in getattr(section, id_key):
        raise ConfigError(
            f"{where} {id_key} has a colon, which ends a name in a request for a token. Fix: ask for a "
            "client id without it"
        )
