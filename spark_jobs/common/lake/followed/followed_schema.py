"""The schema that a table follows, where its declaration is less: a document beside it.

``<location>/schemas/<digest>.avsc``: an Avro schema; ``….json`` of Protobuf: its columns, with the numbers of
fields. It is written before the commit that names it, once and never changed. The table's property SCHEMA has
the digest, and is set in the commit that changes the columns: a catalog that is restored has both as they
were.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from sluice.clients.s3.requests import split
from sluice.core.schema_versions.followed import AVRO, PROPERTY, address
from sluice.core.tables.file_removal import missing_message
from spark_jobs.common.spark.failures import LakeFileMissing

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

SCHEMA = PROPERTY


def digest_of(properties: Mapping[str, str]) -> str:
    """The digest of a table's followed schema; empty if it has the declared one. ``properties``: the
    table's."""
    return properties.get(SCHEMA) or ""


def keep(client: S3Client, location: str, text: str, ending: str = AVRO) -> str:
    """Write the document, unless it is there; return its digest. ``ending``: AVRO or PROTOBUF. Raises
    LakeFileMissing if another one has its name, and botocore's errors."""
    body = text.encode()
    digest = hashlib.sha256(body).hexdigest()
    bucket, key = split(address(location, digest, ending))
    try:
        client.put_object(Bucket=bucket, Key=key, Body=body, ContentType="application/json", IfNoneMatch="*")
    except ClientError as error:
        if error.response["Error"]["Code"] != "PreconditionFailed":
            raise
        # An earlier attempt has written it, if nothing has damaged it since: a commit is to name it.
        read(client, location, digest, ending)
    return digest


def read(client: S3Client, location: str, digest: str, ending: str = AVRO) -> str:
    """The document's text. ``ending``: as it was kept with. Raises LakeFileMissing if it is gone or another
    one, and botocore's errors."""
    uri = address(location, digest, ending)
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
