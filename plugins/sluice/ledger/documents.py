"""Write-once JSON documents of one stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from sluice.clients.s3.documents import get_document, put_document
from sluice.clients.s3.errors import asking
from sluice.clients.s3.requests import split_prefix
from sluice.core.errors import Missing
from sluice.core.json_record import Document
from sluice.ledger.keys import stream_prefix

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


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
        return get_document(self.client, self.bucket, f"{self.prefix}/{key}", self._what(key))

    def require(self, key: str, task: str) -> Document:
        """The document that ``task`` wrote. Raises Missing."""
        document = self.get(key)
        if document is None:
            raise Missing(f"ledger document {self.uri(key)} does not exist. Fix: clear the {task} task")
        return document

    def keys(self, prefix: str, limit: int | None = None, after: str = "") -> Iterator[str]:
        """The keys that begin with ``prefix`` and sort behind ``after``, sorted, page by page; with
        ``limit``, in one request."""
        for key, _ in self.written(prefix, limit, after):
            yield key

    def written(
        self, prefix: str, limit: int | None = None, after: str = ""
    ) -> Iterator[tuple[str, datetime]]:
        """As :meth:`keys`, each with the time at which it was written, by S3's clock."""
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
                    yield found["Key"].removeprefix(f"{self.prefix}/"), found["LastModified"]

    def pin(self, key: str, create: Callable[[], Document]) -> Document:
        """The document, written now if there is none."""
        return self.get(key) or self.put(key, create())

    def put(self, key: str, document: Document) -> Document:
        """Write the document if there is none. The first of concurrent writers wins; returns its document,
        which is ``document`` itself if it was written now."""
        return put_document(self.client, self.bucket, f"{self.prefix}/{key}", document, self._what(key))

    def _what(self, key: str) -> str:
        return f"ledger document {self.uri(key)}"
