"""The ledger: what a load was, as small JSON objects that are written once.

Every put carries ``If-None-Match: *``, so of two writers the first wins and both go on with its
document. Keys are in :mod:`sluice.model.spec.ledger`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError as S3Error

from sluice.clients.errors import Missing, Unreachable
from sluice.clients.s3 import asking, error_code, split
from sluice.model.spec.ledger import Document

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ATTEMPTS = 5


class Ledger:
    """One stream's documents."""

    def __init__(
        self, client: S3Client, uri: str, stream: str, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.client = client
        self._sleep = sleep
        self.bucket, prefix = split(uri)
        self.prefix = f"{prefix}/{stream}" if prefix else stream

    def uri(self, key: str) -> str:
        """The address of a document, for messages and for a job's arguments."""
        return f"s3://{self.bucket}/{self.prefix}/{key}"

    def get(self, key: str) -> Document | None:
        """The document, or None where there is none."""
        try:
            with asking(f"ledger document {self.uri(key)}"):
                body = self.client.get_object(Bucket=self.bucket, Key=f"{self.prefix}/{key}")["Body"].read()
        except Missing:
            return None
        document: Document = json.loads(body)
        return document

    def put(self, key: str, document: Document) -> Document:
        """Write the document if there is none; return the one that is there afterwards, perhaps another's."""
        body = json.dumps(document, indent=1, sort_keys=True).encode()
        for attempt in range(ATTEMPTS):
            try:
                with asking(f"ledger document {self.uri(key)}"):
                    self._put_if_absent(key, body)
            except FileExistsError:
                winner = self.get(key)
                if winner is not None:
                    return winner
                # The other put is not visible yet (S3's 409) or failed: ask again.
                self._sleep(0.2 * 2**attempt)
            else:
                return document
        raise Unreachable(
            f"ledger document {self.uri(key)}: {ATTEMPTS} conditional puts met another writer's"
        )

    def _put_if_absent(self, key: str, body: bytes) -> None:
        try:
            self.client.put_object(
                Bucket=self.bucket,
                Key=f"{self.prefix}/{key}",
                Body=body,
                ContentType="application/json",
                IfNoneMatch="*",
            )
        except S3Error as error:
            if error_code(error) in ("PreconditionFailed", "ConditionalRequestConflict", "412", "409"):
                raise FileExistsError(key) from error
            raise
