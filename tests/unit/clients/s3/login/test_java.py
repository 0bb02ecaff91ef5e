"""What Java's clients are told of a login."""

from __future__ import annotations

import pytest

from sluice.clients.s3.login import java
from sluice.config.platform_sections.s3 import S3

FIXED, ROLE = S3("key", "hidden"), S3("key", "hidden", role_arn="arn:aws:iam::123456789012:role/lake")
CONTAINER = "software.amazon.awssdk.auth.credentials.ContainerCredentialsProvider"
S3A = {"fs.s3a.endpoint.region": "us-east-1", "fs.s3a.path.style.access": "false"}


@pytest.mark.parametrize(
    ("s3", "iceberg", "s3a"),
    [
        (
            FIXED,
            {"s3.access-key-id": "key", "s3.secret-access-key": "hidden"},
            {
                "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
                "fs.s3a.access.key": "key",
                "fs.s3a.secret.key": "hidden",
            },
        ),
        (
            S3("key", "hidden", session_token="ending", sse="AES256"),
            {
                "s3.access-key-id": "key",
                "s3.secret-access-key": "hidden",
                "s3.session-token": "ending",
                "s3.sse.type": "s3",
            },
            {
                "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
                "fs.s3a.access.key": "key",
                "fs.s3a.secret.key": "hidden",
                "fs.s3a.session.token": "ending",
                "fs.s3a.encryption.algorithm": "AES256",
            },
        ),
        (ROLE, {"client.credentials-provider": CONTAINER}, {"fs.s3a.aws.credentials.provider": CONTAINER}),
        (
            S3(sse="aws:kms", sse_kms_key_id="a"),
            {"client.credentials-provider": CONTAINER, "s3.sse.type": "kms", "s3.sse.key": "a"},
            {
                "fs.s3a.aws.credentials.provider": CONTAINER,
                "fs.s3a.encryption.algorithm": "SSE-KMS",
                "fs.s3a.encryption.key": "a",
            },
        ),
    ],
)
def test_each_client_is_told_by_its_own_names(s3: S3, iceberg: dict[str, str], s3a: dict[str, str]) -> None:
    assert java.iceberg(s3) == iceberg
    assert java.s3a(s3) == S3A | s3a


def test_executors_have_the_chains_login_by_themselves() -> None:
    provider = java.iceberg(S3(), has_executors=True)["client.credentials-provider"]
    assert provider == "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
    assert java.iceberg(FIXED, has_executors=True) == java.iceberg(FIXED)
    chain = (S3(), FIXED, ROLE, S3(profile="lake"))
    assert [java.is_chain_alone(s3) for s3 in chain] == [True, False, False, False]
