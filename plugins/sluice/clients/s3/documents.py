"""JSON documents that are written once: the first writer wins. Some are named by their digest."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError as S3Error

from sluice.clients.s3.errors import asking, error_code
from sluice.clients.s3.requests import split
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused, Unreachable
from sluice.core.json_record import Document
from sluice.core.schema_versions.followed import digest_of
from sluice.core.tables.file_removal import missing_message

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ATTEMPTS = 5
# S3's answers to a conditional put of a document that exists, and of one that is being written.
_EXISTS = ("PreconditionFailed", "412")
_CONFLICT = ("ConditionalRequestConflict", "409")


def put_once(client: S3Client, uri: str, body: bytes) -> bool:
    """Write the document at ``s3://bucket/key`` unless there is one; return whether it was written. Raises
    botocore's errors."""
    bucket, key = split(uri)
    attempt = 0
    while True:
        try:
            client.put_object(
                Bucket=bucket, Key=key, Body=body, ContentType="application/json", IfNoneMatch="*"
            )
        except S3Error as error:
            attempt += 1
            if error_code(error) in _EXISTS:
                return False
            if error_code(error) not in _CONFLICT or attempt == ATTEMPTS:
                raise
            # Another put, which may fail.
            time.sleep(0.1 * 2**attempt)
        else:
            return True


def read_named(client: S3Client, uri: str, digest: str) -> tuple[str, datetime]:
    """The text of the document at ``s3://bucket/key`` that something names by its ``digest``, and when it
    was written. Raises Refused (LAKE_FILE_MISSING) if it is gone or another one, and botocore's errors."""
    bucket, key = split(uri)
    try:
        answer = client.get_object(Bucket=bucket, Key=key)
    except S3Error as error:
        if error_code(error) not in ("NoSuchKey", "404"):
            raise
        raise Refused(missing_message(uri), ErrorCode.LAKE_FILE_MISSING) from error
    body = answer["Body"].read()
    if digest_of(body) != digest:
        message = f"{uri}: damaged: its content has another digest. Fix: restore it from a backup"
        raise Refused(message, ErrorCode.LAKE_FILE_MISSING)
    return body.decode(), answer["LastModified"]


def get_document(client: S3Client, bucket: str, key: str, what: str) -> Document | None:
    """The document, None if there is none. Raises Refused or Unreachable, beginning with ``what``."""
    try:
        with asking(what):
            body = client.get_object(Bucket=bucket, Key=key)["Body"].read()
    except Missing:
        return None
    document: Document = json.loads(body)
    return document


def put_document(client: S3Client, bucket: str, key: str, document: Document, what: str) -> Document:
    """Write the document if there is none. The first of concurrent writers wins; returns its document, which
    is ``document`` itself if it was written now. Raises as :func:`get_document`."""
    body = json.dumps(document, indent=1, sort_keys=True).encode()
    for attempt in range(ATTEMPTS):
        with asking(what):
            if put_once(client, f"s3://{bucket}/{key}", body):
                return document
        existing = get_document(client, bucket, key, what)
        if existing is not None:
            return existing
        # The other one is not visible yet.
        time.sleep(0.2 * 2**attempt)
    message = f"{what}: {ATTEMPTS} conditional puts met another writer's"
    raise Unreachable(message, ErrorCode.S3_UNREACHABLE)
