"""The schema ids that a table's property has no space for, in a document beside the table.

``<location>/schema-offsets/<digest>.json``: written before the commit that names it, once and never changed;
the next one has its ids too.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from sluice.clients.s3.requests import split
from sluice.core.schema_versions.offsets import Document, SchemaOffsets, address, digest_of
from sluice.core.tables.file_removal import missing_message
from spark_jobs.common.spark.failures import LakeFileMissing

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def moved(client: S3Client, location: str, offsets: SchemaOffsets) -> SchemaOffsets:
    """``offsets`` with all their ids in a new document. ``location``: the table's ``s3://bucket/…``. Raises
    LakeFileMissing if that of the earlier ones is gone or another one, or if the new one's name is taken by
    another, and botocore's errors."""
    found, text = offsets.moved(_read(client, location, offsets.document))
    bucket, key = split(address(location, found.document))
    try:
        client.put_object(
            Bucket=bucket,
            Key=key,
            Body=text.encode(),
            ContentType="application/json",
            IfNoneMatch="*",
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "PreconditionFailed":
            raise
        # An earlier attempt has written it, if nothing has damaged it since.
        _read(client, location, found.document)
    return found


def _read(client: S3Client, location: str, digest: str) -> Document:
    if not digest:
        return ()
    uri = address(location, digest)
    bucket, key = split(uri)
    try:
        text: str = client.get_object(Bucket=bucket, Key=key)["Body"].read().decode()
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("NoSuchKey", "404"):
            raise
        raise LakeFileMissing(missing_message(uri)) from error
    if digest_of(text) != digest:
        raise LakeFileMissing(
            f"{uri}: damaged: its content has another digest. Fix: restore it from a backup"
        )
    document: Document = json.loads(text)
    return document
