"""Credentials: asked for at the first request, renewed in time, and refused in one line."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    CredentialRetrievalError,
    EndpointConnectionError,
    MetadataRetrievalError,
    ProfileNotFound,
    ProxyConnectionError,
    ReadTimeoutError,
    SSLError,
)
from botocore.parsers import ResponseParserError

from sluice.clients import backoff
from sluice.clients.s3.errors import S3LoginRefused
from sluice.clients.s3.login import credentials
from sluice.clients.s3.login.credentials import Login, check_login, login
from sluice.clients.s3.login.sources import Source
from sluice.config.platform_sections.s3 import S3
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Unreachable
from tests.support.raising import raising

ROLE = "arn:aws:iam::123456789012:role/lake"
S3_ROLE = S3("key", "hidden", role_arn=ROLE)


class Sts:
    """Gives credentials for ``seconds``, or fails."""

    def __init__(self) -> None:
        self.asked, self.seconds = 0, 3600.0
        self.failure: Exception | None = None

    def ask(self) -> dict[str, Any]:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        ends = datetime.now(UTC) + timedelta(seconds=self.seconds)
        name = f"key-{self.asked}"
        return {"access_key": name, "secret_key": "s", "token": "t", "expiry_time": ends.isoformat()}


def refusal(code: str, message: str, status: int = 403) -> ClientError:
    answer: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(answer, "AssumeRole")


@pytest.fixture
def sts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sts]:
    made = Sts()
    monkeypatch.setattr(credentials, "source_of", lambda s3: Source(made.ask))
    login.cache_clear()
    yield made
    login.cache_clear()


def key_of(found: Login) -> str | None:
    return found.get_frozen_credentials().access_key


class Clock:
    """This machine's, and some seconds more."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.passed)


@pytest.mark.parametrize(
    ("lifetime", "good_for", "due_after"), [(43200, 42200, 42400), (3600, 2600, 2800), (60, 40, 50)]
)
def test_what_ends_is_renewed_in_time_and_not_with_each_request(
    sts: Sts, lifetime: float, good_for: float, due_after: float
) -> None:
    sts.seconds, clock = lifetime, Clock()
    found = Login(S3_ROLE, clock.now)
    assert sts.asked == 0
    assert [key_of(found) for _ in range(3)] == ["key-1"] * 3
    clock.passed = good_for
    assert key_of(found) == "key-1"
    clock.passed = due_after
    assert key_of(found) == "key-2"
    assert login(S3_ROLE) is login(S3_ROLE)


def test_what_is_valid_goes_on_while_it_is_not_renewed(sts: Sts, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    found = Login(S3_ROLE, clock.now)
    assert key_of(found) == "key-1"
    sts.failure = EndpointConnectionError(endpoint_url="https://sts.test")
    clock.passed = 2800
    with caplog.at_level(logging.WARNING):
        assert [key_of(found) for _ in range(9)] == ["key-1"] * 9
    # Once, and again after a fifth of the rest.
    assert sts.asked == 2
    (said,) = caplog.records
    assert said.getMessage().startswith(f"credentials for S3 not renewed: role {ROLE}: ")
    assert not said.exc_info
    clock.passed = 2970
    assert key_of(found) == "key-1"
    assert sts.asked == 3
    clock.passed = 3601
    with raising(Unreachable, f"role {ROLE}: ", "https://sts.test") as caught:
        key_of(found)
    assert caught.value.code is ErrorCode.S3_UNREACHABLE


def test_a_process_that_waits_is_told_of_a_refusal_and_not_of_an_outage(
    sts: Sts, monkeypatch: pytest.MonkeyPatch
) -> None:
    sts.failure = EndpointConnectionError(endpoint_url="https://sts.test")
    check_login(S3_ROLE)
    sts.failure = refusal("AccessDenied", "is not authorized to perform: sts:AssumeRole")
    check_login(S3("key", "wrong"))
    monkeypatch.setattr(backoff, "now", lambda: time.clock_gettime(time.CLOCK_BOOTTIME) + 2)
    with raising(S3LoginRefused, "Fix: let the role's trust policy name"):
        check_login(S3_ROLE)


@pytest.mark.parametrize(
    ("failure", "kind", "message"),
    [
        (
            refusal("AccessDenied", "not authorized"),
            S3LoginRefused,
            "let the role's trust policy name this login",
        ),
        (refusal("ExpiredToken", "It has expired."), S3LoginRefused, "Fix: write keys that have not ended"),
        (
            refusal("SignatureDoesNotMatch", "Signature expired: 1 is now earlier than 2"),
            S3LoginRefused,
            "Fix: set this machine's clock",
        ),
        (refusal("InvalidClientTokenId", "is invalid"), S3LoginRefused, "Fix: correct the login in [s3]"),
        (refusal("Throttling", "Rate exceeded", 400), Unreachable, "STS answered Throttling: Rate exceeded"),
        (refusal("InternalError", "oops", 500), Unreachable, "STS answered InternalError: oops"),
        (refusal("IDPCommunicationError", "no issuer", 400), Unreachable, "STS answered IDPCommunicationEr"),
        (refusal("404", "Not Found", 404), Unreachable, "STS answered 404: Not Found"),
        (refusal("429", "", 429), Unreachable, "STS answered 429"),
        (refusal("ValidationError", "is invalid", 400), S3LoginRefused, "STS answered ValidationError"),
        (ReadTimeoutError(endpoint_url="https://sts.test"), Unreachable, "timeout"),
        (ProxyConnectionError(proxy_url="http://p", error="refused"), Unreachable, "Failed to connect to p"),
        (
            MetadataRetrievalError(error_msg="Received error when attempting to retrieve container metadata"),
            Unreachable,
            "no credentials were given",
        ),
        (
            MetadataRetrievalError(error_msg="Received non 200 response 503 from container metadata: busy"),
            Unreachable,
            "no credentials were given",
        ),
        (
            MetadataRetrievalError(error_msg="Received non 200 response 403 from container metadata: no"),
            S3LoginRefused,
            "Fix: give the process keys in its environment",
        ),
        (
            CredentialRetrievalError(provider="iam-role", error_msg="response did not contain: access_key"),
            Unreachable,
            "no credentials were given",
        ),
        (
            RuntimeError("the refreshed credentials are still expired."),
            S3LoginRefused,
            "the refreshed credentials are still expired. Fix: set the clock, or renew the login",
        ),
        (ProfileNotFound(profile="lake"), S3LoginRefused, "(lake) could not be found. Fix: "),
        (
            SSLError(endpoint_url="u", error=OSError("CERTIFICATE_VERIFY_FAILED")),
            S3LoginRefused,
            "not trusted",
        ),
        (SSLError(endpoint_url="u", error=OSError("EOF occurred in violation")), Unreachable, "EOF"),
    ],
    ids=str,
)
def test_what_sts_answers_is_a_refusal_or_an_outage(
    sts: Sts, failure: Exception, kind: type[Exception], message: str
) -> None:
    sts.failure = failure
    with raising(kind, f"role {ROLE}: ", message):
        key_of(login(S3_ROLE))


def test_a_clock_that_is_ahead_of_all_that_is_given_is_named(sts: Sts) -> None:
    sts.seconds = -3600
    with raising(S3LoginRefused, "what was given ended 1 h ago, by this machine's clock. Fix: set the clock"):
        key_of(login(S3_ROLE))


@pytest.mark.parametrize("has_ended", [False, True])
def test_who_has_nothing_valid_does_not_ask_with_each_request(
    sts: Sts, monkeypatch: pytest.MonkeyPatch, has_ended: bool
) -> None:
    at = [1_000.0]
    monkeypatch.setattr(backoff, "now", lambda: at[0])
    if has_ended:
        sts.seconds, said = -3600.0, "what was given ended 1 h ago"
    else:
        sts.failure, said = refusal("AccessDenied", "not authorized"), "not authorized"
    found = login(S3_ROLE)
    for _ in range(600):
        with raising(S3LoginRefused, said):
            key_of(found)
        at[0] += 0.1
    assert 3 <= sts.asked <= 10
    sts.failure, sts.seconds = None, 3600.0
    at[0] += 30
    assert key_of(found) == f"key-{sts.asked}"


def test_nothing_of_an_answer_that_cannot_be_read_is_quoted(
    sts: Sts, caplog: pytest.LogCaptureFixture
) -> None:
    sts.failure = ResponseParserError("Unable to parse response, invalid XML received: b'<Secret>canary'")
    with raising(Unreachable, "the answer of STS cannot be read") as caught:
        key_of(login(S3_ROLE))
    assert "canary" not in "".join(traceback.format_exception(caught.value)) + caplog.text
