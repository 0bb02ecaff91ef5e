"""Write-once JSON documents of one stream."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError as S3Error

from sluice.clients.s3.errors import asking, error_code
from sluice.clients.s3.requests import split_prefix
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Unreachable
from sluice.core.json_record import Document
from sluice.ledger.keys import stream_prefix

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ATTEMPTS = 5
# S3's answers to a conditional put of a document that exists, or is being written.
_EXISTS = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")


class Ledger:
    """One stream's documents, by the keys of :mod:`sluice.ledger.keys`."""

    def __init__(self, client: S3Client, uri: str, stream: str) -> None:
        self.client = client
        self.stream = stream
        self.bucket, prefix = split_prefix(uri)
        self.prefix = stream_prefix(prefix, stream)

    def uri(self, key: str) -> str:
        return f"s3://{self.bucket}/{self.prefix}/{key}"

    def get(self, key: str) -> Document | None:
        try:
            with asking(f"ledger document {self.uri(key)}"):
                body = self.client.get_object(Bucket=self.bucket, Key=f"{self.prefix}/{key}")["Body"].read()
        except Missing:
            return None
        document: Document = json.loads(body)
        return document

    def require(self, key: str, task: str) -> Document:
        """The document that ``task`` wrote. Raises Missing."""
        document = self.get(key)
        if document is None:
            raise Missing(f"ledger document {self.uri(key)} does not exist. Fix: clear the {task} task")
        return document

    def keys(self, prefix: str, limit: int | None = None, after: str = "") -> Iterator[str]:
        """The keys that begin with ``prefix`` and sort behind ``after``, sorted, page by page; with
        ``limit``, in one request."""
        where = {"Bucket": self.bucket, "Prefix": f"{self.prefix}/{prefix}"}
        if after:
            where["StartAfter"] = f"{self.prefix}/{after}"
        with asking(f"ledger {self.uri(prefix)}"):
            pages = (
                [self.client.list_objects_v2(**where, MaxKeys=limit)]  # type: ignore[arg-type]
                if limit
                else self.client.get_paginator("list_objects_v2").paginate(**where)  # type: ignore[arg-type]
            )
            for page in pages:
                for found in page.get("Contents", []):
                    yield found["Key"].removeprefix(f"{self.prefix}/")

    def pin(self, key: str, create: Callable[[], Document]) -> Document:
        """The document, written now if there is none."""
        return self.get(key) or self.put(key, create())

    def put(self, key: str, document: Document) -> Document:
        """Write the document if there is none. The first of concurrent writers wins; returns its document,
        which is ``document`` itself if it was written now."""
        body = json.dumps(document, indent=1, sort_keys=True).encode()
        what = f"ledger document {self.uri(key)}"
        for attempt in range(ATTEMPTS):
            with asking(what):
                try:
                    self.client.put_object(
                        Bucket=self.bucket,
                        Key=f"{self.prefix}/{key}",
                        Body=body,
                        ContentType="application/json",
                        IfNoneMatch="*",
                    )
                except S3Error as error:
                    if error_code(error) not in _EXISTS:
                        raise
                else:
                    return document
            existing = self.get(key)
            if existing is not None:
                return existing
            # The other put is not visible yet (S3's 409), or failed.
            time.sleep(0.2 * 2**attempt)
        message = f"{what}: {ATTEMPTS} conditional puts met another writer's"
        raise Unreachable(message, ErrorCode.S3_UNREACHABLE)
