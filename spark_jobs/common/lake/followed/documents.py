"""Documents beside a table that are named by the digest of their content: written once and never changed.

A commit names none that is old: what no state needs is removed when it is old, and that may be just now.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from sluice.clients.s3.requests import split
from sluice.core.schema_versions.documents import digest_of, may_be_named
from sluice.core.tables.file_removal import missing_message
from spark_jobs.common.spark.failures import LakeFileMissing

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def keep(client: S3Client, address: Callable[[str], str], text: str) -> str:
    """Write the document, unless it is there since lately; return the digest (SHA-256 in hex) that a commit
    may name. If an old one has its name, that is of the text with more line ends. ``address``: of a digest.
    Raises LakeFileMissing if another one has its name, and botocore's errors."""
    while True:
        digest = digest_of(text)
        if _keep(client, address(digest), digest, text):
            return digest
        text += "\n"


def _keep(client: S3Client, uri: str, digest: str, text: str) -> bool:
    """Write the document, unless it is there; return whether a commit may name it."""
    bucket, key = split(uri)
    body = text.encode()
    try:
        client.put_object(Bucket=bucket, Key=key, Body=body, ContentType="application/json", IfNoneMatch="*")
    except ClientError as error:
        if error.response["Error"]["Code"] != "PreconditionFailed":
            raise
        # An earlier attempt has written it, if nothing has damaged it since: a commit is to name it.
        _, written = _read(client, uri, digest)
        return may_be_named(written, datetime.now(UTC))
    return True


def read(client: S3Client, uri: str, digest: str) -> str:
    """The document's text. Raises LakeFileMissing if it is gone or another one, and botocore's errors."""
    return _read(client, uri, digest)[0]


def _read(client: S3Client, uri: str, digest: str) -> tuple[str, datetime]:
    """With the time at which it was written."""
    bucket, key = split(uri)
    try:
        answer = client.get_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("NoSuchKey", "404"):
            raise
        raise LakeFileMissing(missing_message(uri)) from error
    body = answer["Body"].read()
    if digest_of(body) != digest:
        raise LakeFileMissing(
            f"{uri}: damaged: its content has another digest. Fix: restore it from a backup"
        )
    return body.decode(), answer["LastModified"]
