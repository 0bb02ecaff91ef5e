"""JSON documents that are written once: the first writer wins."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError as S3Error

from sluice.clients.s3.errors import asking, error_code
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Unreachable
from sluice.core.json_record import Document

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ATTEMPTS = 5
# S3's answers to a conditional put of a document that exists, or is being written.
_EXISTS = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")


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
            try:
                client.put_object(
                    Bucket=bucket, Key=key, Body=body, ContentType="application/json", IfNoneMatch="*"
                )
            except S3Error as error:
                if error_code(error) not in _EXISTS:
                    raise
            else:
                return document
        existing = get_document(client, bucket, key, what)
        if existing is not None:
            return existing
        # The other put is not visible yet (S3's 409), or failed.
        time.sleep(0.2 * 2**attempt)
    message = f"{what}: {ATTEMPTS} conditional puts met another writer's"
    raise Unreachable(message, ErrorCode.S3_UNREACHABLE)
