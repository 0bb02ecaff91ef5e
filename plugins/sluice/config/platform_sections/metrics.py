"""``[metrics]`` and ``[observer]`` of a platform file: what is served to the bearer of a token."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from sluice.config.reading.toml import ConfigError
from sluice.config.reading.urls import VISIBLE, check_encrypted, check_url

# Least characters of a bearer token.
MIN_TOKEN = 24
SHOWN = ", and the token would be sent to it in plain text"


@dataclass(frozen=True)
class Metrics:
    token: Annotated[
        str,
        "24 characters or more, at random: by it Prometheus reads `/sluice/metrics`",
    ] = field(repr=False)
    checks_url: Annotated[
        str,
        "address of the process to which supervision reports its "
        "[checks](operating.md#when-nothing-checks-any-more); empty: to none",
    ] = ""
    plain_text: Annotated[
        bool,
        "true: `checks_url` on another machine is sent the token over `http://`, in a network that you trust",
    ] = False


@dataclass(frozen=True)
class ObserverAccess:
    """Where the observer's process serves what it knows of the streams, and the bearer token for it."""

    url: Annotated[str, "address of the [observer](reference.md#the-observer), for pages and supervision"]
    token: Annotated[str, "24 characters or more, at random: by it they read it"] = field(repr=False)
    plain_text: Annotated[
        bool,
        "true: `url` on another machine is sent the token over `http://`, in a network that you trust",
    ] = False


def check(metrics: Metrics, where: str) -> None:
    """Raises ConfigError naming ``where`` and the key, never the token."""
    _check_token(metrics.token, f"{where}: metrics")
    if metrics.checks_url:
        _check_url(metrics.checks_url, f"{where}: metrics checks_url", metrics.plain_text)


def check_observer(observer: ObserverAccess, where: str) -> None:
    """As :func:`check`."""
    _check_token(observer.token, f"{where}: observer")
    _check_url(observer.url, f"{where}: observer url", observer.plain_text)


def _check_token(token: str, where: str) -> None:
    if len(token) < MIN_TOKEN:
        raise ConfigError(f"{where} token is shorter than {MIN_TOKEN} characters. Fix: write a random one")
    if not VISIBLE.fullmatch(token):
        raise ConfigError(
            f"{where} token has a character that no header can have. Fix: use visible ASCII only"
        )


def _check_url(url: str, where: str, plain_text: bool) -> None:
    check_url(url, where)
    if not plain_text:
        check_encrypted(url, where, SHOWN)
