"""The endpoint where the JVM asks for credentials."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from sluice.clients.polling import wait_for
from sluice.clients.s3.errors import S3LoginRefused
from sluice.clients.s3.login import credentials, java
from sluice.clients.s3.login.endpoint import PATH, endpoint
from sluice.clients.s3.login.sources import Source
from sluice.config.platform_sections.s3 import S3
from sluice.core.errors import ClientError, Unreachable

FIXED, ROLE = S3("key", "hidden"), S3("key", "hidden", role_arn="arn:aws:iam::123456789012:role/lake")


def test_the_jvm_is_told_where_to_ask_unless_the_keys_are_fixed() -> None:
    assert java.system_properties(FIXED) == {}
    told = java.system_properties(ROLE)
    assert told["aws.containerCredentialsPath"] == PATH
    assert told["aws.containerServiceEndpoint"].startswith("http://127.0.0.1:")
    assert told == java.system_properties(ROLE)
    assert len(told["aws.containerAuthorizationToken"]) == 64


@pytest.mark.parametrize(
    ("failure", "status"),
    [(S3LoginRefused("STS says no. Fix: ask"), 400), (Unreachable("STS is away"), 503)],
)
def test_the_endpoint_says_why_it_gives_none(
    monkeypatch: pytest.MonkeyPatch, failure: ClientError, status: int
) -> None:
    ends, failures = datetime.now(UTC) + timedelta(hours=1), [failure]

    def ask() -> dict[str, Any]:
        if failures:
            raise failures.pop()
        return {"access_key": "k", "secret_key": "s", "token": "t", "expiry_time": ends.isoformat()}

    monkeypatch.setattr(credentials, "source_of", lambda s3: Source(ask))
    s3 = S3(role_arn=f"arn:aws:iam::123456789012:role/{status}")
    found = endpoint(s3)

    def asked() -> httpx.Response:
        return httpx.get(f"{found.address}{PATH}", headers={"Authorization": found.token})

    answer = asked()
    assert answer.status_code == status
    assert answer.json()["message"] == f"{failure.code} {failure}"
    # It is not asked for again at once.
    assert asked().status_code == status
    assert failures == []
    given = wait_for(asked, 20, 0.1, lambda answer: answer.status_code == 200)
    assert given.json() == {
        "AccessKeyId": "k",
        "SecretAccessKey": "s",
        "Token": "t",
        "Expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def test_keys_that_do_not_end_are_given_an_end_at_which_they_are_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """AWS's client for Java fails without one (tests/spark/test_signed_catalog.py)."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    found = endpoint(S3(region="eu-north-1"))
    said = httpx.get(f"{found.address}{PATH}", headers={"Authorization": found.token}).json()
    left = datetime.fromisoformat(said["Expiration"]) - datetime.now(UTC)
    assert said["AccessKeyId"] == "of-environment"
    assert timedelta(minutes=55) < left <= timedelta(hours=1)
