"""Documents beside a table that are named by the digest of their content: written once and never changed."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from sluice.clients.s3.requests import split
from sluice.core.tables.file_removal import missing_message
from spark_jobs.common.spark.failures import LakeFileMissing

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def keep(client: S3Client, uri: str, digest: str, text: str) -> None:
    """Write the document, unless it is there. ``digest``: of ``text``, SHA-256 in hex. Raises LakeFileMissing
    if another one has its name, and botocore's errors."""
    bucket, key = split(uri)
    body = text.encode()
    try:
        client.put_object(Bucket=bucket, Key=key, Body=body, ContentType="application/json", IfNoneMatch="*")
    except ClientError as error:
        if error.response["Error"]["Code"] != "PreconditionFailed":
            raise
        # An earlier attempt has written it, if nothing has damaged it since: a commit is to name it.
        read(client, uri, digest)


def read(client: S3Client, uri: str, digest: str) -> str:
    """The document's text. Raises LakeFileMissing if it is gone or another one, and botocore's errors."""
    bucket, key = split(uri)
    try:
        body = client.get_object(Bucket=bucket, Key=key)["Body"].read()
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("NoSuchKey", "404"):
            raise
        raise LakeFileMissing(missing_message(uri)) from error
    if hashlib.sha256(body).hexdigest() != digest:
        raise LakeFileMissing(
            f"{uri}: damaged: its content has another digest. Fix: restore it from a backup"
        )
    text: str = body.decode()
    return text
