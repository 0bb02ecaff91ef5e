"""What Java's clients of S3 are told: Iceberg's S3FileIO, Hadoop's s3a, and the AWS SDK below both."""

from __future__ import annotations

from sluice.clients.s3.login.endpoint import PATH, endpoint
from sluice.config.platform_sections.s3 import AWS_KMS, S3

# Asks the endpoint of this process; what it asks is among the JVM's system properties.
_FROM_ENDPOINT = "software.amazon.awssdk.auth.credentials.ContainerCredentialsProvider"
_DEFAULT_CHAIN = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
_S3A = "org.apache.hadoop.fs.s3a."
_KEYS, _KEYS_WITH_TOKEN = f"{_S3A}SimpleAWSCredentialsProvider", f"{_S3A}TemporaryAWSCredentialsProvider"


def is_chain_alone(s3: S3) -> bool:
    """Whether the login is that of AWS's default chain, without anything on top."""
    return not (s3.access_key or s3.profile or s3.role_arn)


def iceberg(s3: S3, has_executors: bool = False) -> dict[str, str]:
    """Properties of a catalog's files. ``has_executors``: on other machines, which do not reach the endpoint:
    their JVMs have the chain's login by themselves."""
    options = sse(s3)
    if s3.has_fixed_login:
        keys = {
            "s3.access-key-id": s3.access_key,
            "s3.secret-access-key": s3.secret_key,
            "s3.session-token": s3.session_token,
        }
        return options | {name: text for name, text in keys.items() if text}
    return options | {"client.credentials-provider": _DEFAULT_CHAIN if has_executors else _FROM_ENDPOINT}


def sse(s3: S3) -> dict[str, str]:
    """The encryption among the properties of a catalog's files."""
    if not s3.sse:
        return {}
    if s3.sse != AWS_KMS:
        return {"s3.sse.type": "s3"}
    return {"s3.sse.type": "kms"} | ({"s3.sse.key": s3.sse_kms_key_id} if s3.sse_kms_key_id else {})


def s3a(s3: S3) -> dict[str, str]:
    """Hadoop's configuration, for checkpoints in a bucket."""
    options = {"fs.s3a.endpoint.region": s3.region, "fs.s3a.path.style.access": str(s3.path_style).lower()}
    if s3.endpoint:
        options["fs.s3a.endpoint"] = s3.endpoint
    if s3.has_fixed_login:
        options |= {
            "fs.s3a.aws.credentials.provider": _KEYS_WITH_TOKEN if s3.session_token else _KEYS,
            "fs.s3a.access.key": s3.access_key,
            "fs.s3a.secret.key": s3.secret_key,
        }
        if s3.session_token:
            options["fs.s3a.session.token"] = s3.session_token
    else:
        options["fs.s3a.aws.credentials.provider"] = _FROM_ENDPOINT
    if s3.sse:
        options["fs.s3a.encryption.algorithm"] = "SSE-KMS" if s3.sse == AWS_KMS else s3.sse
    if s3.sse_kms_key_id:
        options["fs.s3a.encryption.key"] = s3.sse_kms_key_id
    return options


def system_properties(s3: S3) -> dict[str, str]:
    """What the SDK finds the endpoint of this process by; empty for fixed keys. Not by the full address: that
    of a container of ECS would go before."""
    if s3.has_fixed_login:
        return {}
    found = endpoint(s3)
    return {
        "aws.containerServiceEndpoint": found.address,
        "aws.containerCredentialsPath": PATH,
        "aws.containerAuthorizationToken": found.token,
    }
