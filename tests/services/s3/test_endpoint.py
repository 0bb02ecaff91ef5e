"""The endpoint where the JVM asks for credentials."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from sluice.clients.s3.errors import S3LoginRefused
from sluice.clients.s3.login import credentials, java
from sluice.clients.s3.login.endpoint import PATH, endpoint
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

    monkeypatch.setattr(credentials, "_asking", lambda s3: ask)
    s3 = S3(role_arn=f"arn:aws:iam::123456789012:role/{status}")
    found = endpoint(s3)
    answers = [httpx.get(f"{found.address}{PATH}", headers={"Authorization": found.token}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [status, 200]
    assert answers[0].json()["message"] == f"{failure.code} {failure}"
    assert answers[1].json() == {
        "AccessKeyId": "k",
        "SecretAccessKey": "s",
        "Token": "t",
        "Expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
