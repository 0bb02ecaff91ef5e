"""Tokens for librdkafka and the direct path: of OAuth2's client credentials, of a file, of AWS's MSK.

Java's clients get theirs by classes of their own. librdkafka's own method ``oidc`` sends no audience and
reads no file, so all tokens of Python's processes come from here.
"""

from __future__ import annotations

import binascii
import json
import ssl
import threading
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from sluice.clients.kafka.errors import LoginRefused
from sluice.config.platform_sections.kafka import AWS_MSK_IAM, Kafka
from sluice.config.postgresql import is_loopback
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import ClientError, Unreachable
from sluice.core.messages import age, quoted

CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 10.0
# A token is given to a further connection while it has this share of its time left: the broker ends the
# connection's session with it.
LEAST_LEFT = 0.5
# RFC 6749 leaves it open, and recommends to say how long a token is valid.
DEFAULT_LIFETIME = 300.0
# More than the clocks of machines that are set differ.
CLOCK_SLACK_SECONDS = 60.0
_SESSION = "sluice"
_LONGEST_FILE = 1 << 20


@dataclass(frozen=True)
class Token:
    """``began``, ``ends``: seconds since 1970, by this machine's clock."""

    value: str = field(repr=False)
    began: float
    ends: float

    def is_fresh(self, now: float) -> bool:
        """Whether another connection may begin with it."""
        return self.began <= now < self.ends - (self.ends - self.began) * LEAST_LEFT


class Tokens:
    """The token of one login, renewed when it is asked for. For many threads."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._lock = threading.Lock()
        self._token: Token | None = None
        # Why no other one was given when it was asked for last.
        self._refusal: LoginRefused | None = None
        if kafka.sasl_mechanism == AWS_MSK_IAM:
            self._fetch: Callable[[Kafka], Token] = _of_msk
        else:
            self._fetch = _of_file if kafka.token_file else _of_endpoint

    def current(self) -> Token:
        """Raises LoginRefused, and Unreachable if nothing answers. A token that is still valid is given while
        no other can be had."""
        with self._lock:
            now = time.time()
            if self._token is not None and self._token.is_fresh(now):
                return self._token
            try:
                self._token, self._refusal = self._fetch(self._kafka), None
            except ClientError as error:
                self._refusal = error if isinstance(error, LoginRefused) else None
                if self._token is None or not self._token.began <= now < self._token.ends:
                    raise
            return self._token

    def remark(self) -> str:
        """Why a broker refuses the newest token, or there is none; empty if that is not known."""
        if self._refusal is not None:
            return str(self._refusal)
        return "" if self._token is None else clock_remark(self._token.value, self._token.began)


@cache
def tokens(kafka: Kafka) -> Tokens:
    """Those of a login: one token for all clients of a process."""
    return Tokens(kafka)


def claims(value: str) -> dict[str, Any]:
    """What a JWT says of itself, unverified: brokers verify it. Raises ValueError for another token."""
    parts = value.split(".")
    if len(parts) != 3:
        raise ValueError("it is no JWT (three parts with dots between)")
    try:
        found = json.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise ValueError("it is no JWT: its second part is no JSON in base64") from error
    if not isinstance(found, dict):
        raise ValueError("it is no JWT: its second part is no object of JSON")
    return found


def clock_remark(value: str, received: float) -> str:
    """Which of two clocks is to be set, if the token's time says that one is wrong."""
    try:
        issued = claims(value).get("iat")
    except ValueError:
        return ""
    if not isinstance(issued, int | float) or abs(issued - received) <= CLOCK_SLACK_SECONDS:
        return ""
    side = "behind" if issued > received else "ahead of"
    return (
        f"this machine's clock is {age(abs(issued - received))} {side} that of the token's issuer. Fix: set "
        "the clocks of this machine, the issuer and the brokers"
    )


def _of_endpoint(kafka: Kafka) -> Token:
    url, began = kafka.sasl_oauthbearer_token_endpoint_url, time.time()
    asked = {
        "grant_type": "client_credentials",
        "scope": kafka.sasl_oauthbearer_scope,
        "audience": kafka.sasl_oauthbearer_audience,
    }
    login = kafka.sasl_oauthbearer_client_id.encode(), kafka.sasl_oauthbearer_client_secret.encode()
    parts = urlsplit(url)
    try:
        with httpx.Client(
            auth=httpx.BasicAuth(*login),
            headers={"Accept": "application/json", "User-Agent": "sluice"},
            verify=_tls(kafka) if parts.scheme == "https" else False,
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            # No proxy stands between this machine and itself.
            trust_env=not is_loopback(parts.hostname or ""),
        ) as client:
            response = client.post(url, data={name: text for name, text in asked.items() if text})
    except (httpx.TransportError, httpx.DecodingError, ssl.SSLError) as error:
        reason = str(error) or type(error).__name__
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            raise LoginRefused(
                f"token endpoint {url}: its certificate is not trusted ({reason}). Fix: write the path of "
                "its CA as https_ca_location"
            ) from error
        raise Unreachable(
            f"token endpoint {url} does not answer ({reason}). Fix: start it, or correct "
            "sasl_oauthbearer_token_endpoint_url",
            ErrorCode.KAFKA_UNREACHABLE,
        ) from error
    return _answered(url, response, began)


def _answered(url: str, response: httpx.Response, began: float) -> Token:
    """A token of the endpoint's answer (RFC 6749, 5.1 and 5.2)."""
    status = response.status_code
    if status in (408, 429) or status >= 500:
        raise Unreachable(f"token endpoint {url} answered {status}", ErrorCode.KAFKA_UNREACHABLE)
    try:
        document = response.json()
    except (ValueError, RecursionError):
        document = None
    found = document if isinstance(document, dict) else {}
    value, lifetime = found.get("access_token"), found.get("expires_in", DEFAULT_LIFETIME)
    if status == 200 and isinstance(value, str) and value:
        try:
            seconds = float(lifetime)
        except (TypeError, ValueError):
            seconds = DEFAULT_LIFETIME
        return Token(value, began, began + max(seconds, 1.0))
    said = ": ".join(str(found[key]) for key in ("error", "error_description") if found.get(key))
    # A document with a token is not quoted.
    otherwise = "no token that is a text" if "access_token" in found else quoted(response.text)
    reason = quoted(said) if said else otherwise
    raise LoginRefused(
        f"token endpoint {url} answered {status}: {reason}. Fix: correct sasl_oauthbearer_client_id, "
        "_client_secret, _scope or _audience of [kafka] in the role's platform file"
    )


def _tls(kafka: Kafka) -> ssl.SSLContext:
    path = kafka.https_ca_location
    try:
        return ssl.create_default_context(cafile=path or None)
    except OSError as error:
        raise LoginRefused(
            f"https_ca_location: {path} cannot be used ({error}). Fix: put a readable PEM file there"
        ) from error


def _of_file(kafka: Kafka) -> Token:
    path = kafka.token_file
    fix = "Fix: let what writes it renew it, or correct sasl_oauthbearer_token_endpoint_url"
    try:
        with Path(path).open("rb") as file:
            value = file.read(_LONGEST_FILE).decode()
        if value != value.strip():
            # Java's clients would send it as it is.
            raise ValueError("it has blanks or a line break around it")
        document = claims(value)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise LoginRefused(f"token of {path}: {reason}. {fix}") from error
    now, ends, issued = time.time(), document.get("exp"), document.get("iat")
    if not isinstance(ends, int | float):
        raise LoginRefused(f"token of {path}: it does not say until when it is valid (exp). {fix}")
    if ends <= now:
        raise LoginRefused(f"token of {path} ended {age(now - ends)} ago. {fix}")
    began = issued if isinstance(issued, int | float) and issued < now else now
    return Token(value, began, ends)


def _of_msk(kafka: Kafka) -> Token:
    # AWS's client is imported where it is needed: it takes a second.
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
    from botocore.exceptions import BotoCoreError, ClientError

    began = time.time()
    try:
        if kafka.aws_role_arn:
            value, ends = MSKAuthTokenProvider.generate_auth_token_from_role_arn(
                kafka.aws_region, kafka.aws_role_arn, _SESSION
            )
        else:
            value, ends = MSKAuthTokenProvider.generate_auth_token(kafka.aws_region)
    # ValueError: the signer's, for credentials without a key.
    except (BotoCoreError, ClientError, ValueError) as error:
        raise LoginRefused(
            f"AWS gives no credentials for {kafka.aws_role_arn or 'this process'}: {error}. Fix: give the "
            "process a role (instance, container or web identity), or keys in its environment"
        ) from error
    return Token(value, began, ends / 1000)
