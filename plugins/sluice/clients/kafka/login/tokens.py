"""Tokens for librdkafka and the direct path: of OAuth2's client credentials, of a file, of AWS's MSK.

Java's clients get theirs by classes of their own. librdkafka's own method ``oidc`` sends no audience and
reads no file, so all tokens of Python's processes come from here.
"""

from __future__ import annotations

import binascii
import json
import time
from base64 import urlsafe_b64decode
from codecs import BOM_UTF8
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, TypeGuard

from sluice.clients import backoff, oauth
from sluice.clients.backoff import Backoff
from sluice.clients.kafka.errors import LoginRefused, Remark
from sluice.clients.oauth import Fixes, Token, TokenRefused, TokenRequest, TokenUnreachable
from sluice.config.platform_sections.kafka import AWS_MSK_IAM, Kafka
from sluice.config.platform_sections.s3 import S3
from sluice.config.reading.urls import VISIBLE
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, Unreachable
from sluice.core.messages import age

# More than the clocks of machines that are set differ.
CLOCK_SLACK_SECONDS = 60.0
_FIXES = Fixes(
    ca="write the path of its CA as https_ca_location",
    url="start it, or correct sasl_oauthbearer_token_endpoint_url",
    client="correct sasl_oauthbearer_client_id, _client_secret, _scope or _audience of [kafka] in the role's "
    "platform file",
)
_LONGEST_FILE = 1 << 20


class Tokens(oauth.Tokens):
    """Raises LoginRefused, and Unreachable if nothing answers."""

    def __init__(self, kafka: Kafka) -> None:
        if kafka.sasl_mechanism == AWS_MSK_IAM:
            fetch = _of_msk
        else:
            fetch = _of_file if kafka.token_file else _of_endpoint
        # To read a file costs nothing.
        super().__init__(lambda: fetch(kafka), Backoff(0.0) if kafka.token_file else None)

    def remark(self) -> Remark:
        """What may be why a broker refuses the newest token, or there is none. A clock alone is no reason to
        take a lost connection for a refusal: issuers give tokens of some minutes ago, too."""
        if isinstance(failure := self._backoff.failure, Refused):
            return Remark(str(failure), is_final=True)
        if self._token is None:
            return Remark()
        value = self._token.value
        return Remark(clock_remark(value, self._token.received), has_ended(value, time.time()))


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
    except (binascii.Error, ValueError, RecursionError):
        # Errors of both keep what they could not read.
        raise ValueError("it is no JWT: its second part is no JSON in base64") from None
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


def has_ended(value: str, now: float) -> bool:
    """Whether a JWT says that it ended; its source may have said otherwise."""
    try:
        ends = claims(value).get("exp")
    except ValueError:
        return False
    return is_time(ends) and ends <= now


def _of_endpoint(kafka: Kafka) -> Token:
    request = TokenRequest(
        kafka.sasl_oauthbearer_token_endpoint_url,
        kafka.sasl_oauthbearer_client_id,
        kafka.sasl_oauthbearer_client_secret,
        kafka.sasl_oauthbearer_scope,
        kafka.sasl_oauthbearer_audience,
        kafka.https_ca_location,
        _FIXES,
    )
    try:
        return request.fetch()
    except TokenRefused as error:
        raise LoginRefused(str(error)) from error
    except TokenUnreachable as error:
        raise Unreachable(str(error), ErrorCode.KAFKA_UNREACHABLE) from error


def _of_file(kafka: Kafka) -> Token:
    path = kafka.token_file
    fix = "Fix: let what writes it renew it, or correct sasl_oauthbearer_token_endpoint_url"
    try:
        with Path(path).open("rb") as file:
            value = _text(file.read(_LONGEST_FILE))
        document = claims(value)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise LoginRefused(f"token of {path}: {reason}. {fix}") from error
    now, ends, issued = time.time(), document.get("exp"), document.get("iat")
    if not is_time(ends):
        raise LoginRefused(f"token of {path}: it does not say until when it is valid (exp). {fix}")
    if ends <= now:
        raise LoginRefused(f"token of {path} ended {age(now - ends)} ago, by this machine's clock. {fix}")
    began = issued if is_time(issued) and issued < now else now
    at = backoff.now()
    return Token(value, at - (now - began), at + min(ends - now, oauth.MOST_LIFETIME), now)


def is_time(value: object) -> TypeGuard[float]:
    """Whether a JWT's value can be a moment, in seconds since 1970."""
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _text(content: bytes) -> str:
    """A token as it is sent. Raises ValueError, whose text has nothing of it."""
    if content.startswith(BOM_UTF8):
        raise ValueError("it begins with a byte order mark")
    if content != content.strip():
        # Java's clients would send it as it is.
        raise ValueError("it has blanks or a line break around it")
    value = content.decode("ascii", errors="replace")
    if not VISIBLE.fullmatch(value):
        raise ValueError("it is empty, or has a character that no token has")
    return value


def _of_msk(kafka: Kafka) -> Token:
    # AWS's client is imported where it is needed: it takes a second.
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

    from sluice.clients.s3.errors import S3LoginRefused
    from sluice.clients.s3.login.session import Declared

    began, received = backoff.now(), time.time()
    found = S3(region=kafka.aws_region, role_arn=kafka.aws_role_arn)
    try:
        value, ends = MSKAuthTokenProvider.generate_auth_token_from_credentials_provider(
            kafka.aws_region, Declared(found)
        )
    except S3LoginRefused as error:
        reason = str(error).partition(". Fix: ")[0]
        raise LoginRefused(
            f"AWS gives no credentials for Kafka: {reason}. Fix: give the process a role (instance, "
            "container or web identity), or keys in its environment, and the right to assume aws_role_arn"
        ) from error
    except Unreachable as error:
        raise Unreachable(str(error), ErrorCode.KAFKA_UNREACHABLE) from error
    return Token(value, began, began + (ends / 1000 - received), received)
