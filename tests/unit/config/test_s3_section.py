"""``[s3]``: a login that no client can use is refused when it is read, and no message shows a secret."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.config.platform_sections.s3 import S3, check, of_properties
from sluice.config.reading.toml import ConfigError
from tests.support.raising import raising

KEYS = {"access_key": "key", "secret_key": "hidden"}
ROLE = {"role_arn": "arn:aws:iam::123456789012:role/lake/reads"}
TOKEN = {"web_identity_token_file": "/var/run/token"}
STS = {"sts_endpoint": "https://sts.test:9000"}


@pytest.mark.parametrize(
    "declared",
    [
        {},
        KEYS,
        {**KEYS, "session_token": "ending"},
        {**KEYS, **ROLE, "external_id": "ours", "role_session_name": "sluice@consumer"},
        {**ROLE, **TOKEN, **STS},
        {"role_arn": "arn:minio:iam:::role/nOybJqMNzNmroqEKq5D0EUsRZw0", **TOKEN},
        {"profile": "lake", **ROLE, "ca_location": "/etc/ca.pem"},
        {"endpoint": "https://s3.test", "ca_location": "/etc/ca.pem", "sse": "AES256"},
        {**KEYS, "endpoint": "http://s3.test", "plain_text": True},
        {**KEYS, "endpoint": "http://127.0.0.1:9000"},
        {**ROLE, "sts_endpoint": "http://127.0.0.1:9000"},
        {"sse": "aws:kms", "sse_kms_key_id": "arn:aws:kms:eu-west-1:1:key/a"},
    ],
)
def test_a_login_that_can_be_used(declared: dict[str, Any]) -> None:
    made = S3(**declared)
    check(made, "consumer.toml")
    assert of_properties(made.properties()) == made
    assert not any(secret in repr(made) for secret in ("hidden", "ending"))


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (
            {"access_key": "key"},
            "access_key is there, and secret_key is missing. Fix: add it, or remove both",
        ),
        ({"secret_key": "hidden"}, "secret_key is there, and access_key is missing"),
        ({"session_token": "hidden"}, "session_token is there, and access_key is missing"),
        ({**KEYS, "session_token": "hidden\n"}, "session_token has a character that no login has"),
        (
            {**KEYS, "profile": "lake"},
            "has access_key and profile, which are logins of their own. Fix: keep one",
        ),
        ({**KEYS, **ROLE, **TOKEN}, "has access_key and web_identity_token_file"),
        ({"profile": "lake", **ROLE, **TOKEN}, "has profile and web_identity_token_file"),
        (TOKEN, "web_identity_token_file is there, and role_arn is missing"),
        ({"external_id": "ours"}, "external_id is there, and role_arn is missing"),
        ({"role_session_name": "ours"}, "role_session_name is there, and role_arn is missing"),
        (STS, "sts_endpoint is there, and role_arn is missing"),
        ({"role_arn": "lake"}, "role_arn is 'lake'. Fix: write it as arn:aws:iam::"),
        ({**ROLE, **TOKEN, "external_id": "ours"}, "external_id has no meaning with web_identity_token_file"),
        ({**ROLE, "role_session_name": "a b"}, "role_session_name is 'a b'. Fix: write 2 to 64"),
        ({**ROLE, "web_identity_token_file": "token"}, "is 'token'. Fix: write an absolute path"),
        (
            {**ROLE, "sts_endpoint": "http://sts.test"},
            "is of another machine, and would send keys in plain text",
        ),
        ({**ROLE, "sts_endpoint": "https://a:hidden@sts.test"}, "sts_endpoint has a login in it"),
        ({"endpoint": "https://a:hidden@s3.test"}, "endpoint has a login in it"),
        ({"endpoint": "s3.test"}, "endpoint 's3.test'. Fix: write it with http:// or https://"),
        (
            {**KEYS, "endpoint": "http://s3.test"},
            "endpoint is of another machine, and all objects would be sent to it in plain text. Fix: write",
        ),
        (
            {"endpoint": "http://s3.test", "ca_location": "/ca", "plain_text": True},
            "ca_location is there, and endpoint http://s3.test is",
        ),
        ({"sse": "SSE-S3"}, "sse is 'SSE-S3'. Fix: use one of AES256, aws:kms"),
        ({"sse": "AES256", "sse_kms_key_id": "a"}, "sse_kms_key_id has no meaning with sse 'AES256'"),
    ],
)
def test_one_that_cannot_is_refused(declared: dict[str, Any], message: str) -> None:
    with raising(ConfigError, "consumer.toml: s3", message, "Fix:") as caught:
        check(S3(**declared), "consumer.toml")
    assert "hidden" not in str(caught.value)
