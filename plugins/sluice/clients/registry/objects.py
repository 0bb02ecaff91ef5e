"""Documents of schemas as objects on S3, under a prefix that no stream has.

``<ledger>/_registries/<digest>/schemas/<id>.json``; the digest is of the registry's name, so that no id is
taken for another registry's.
"""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from sluice.clients.s3.documents import get_document, put_document
from sluice.clients.s3.objects import Bucket
from sluice.clients.s3.requests import split_prefix
from sluice.core.json_record import Document
from sluice.core.registry.schemas import KEPT_PREFIX

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Hexadecimal digits of SHA-256.
_DIGITS = 16


class SchemaObjects:
    """A :class:`~sluice.clients.registry.kept.SchemaStore`. ``ledger``: its ``s3://`` address; ``name``: the
    registry's."""

    def __init__(self, client: S3Client, ledger: str, name: str) -> None:
        self._client = client
        self._bucket, prefix = split_prefix(ledger)
        digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]
        self._prefix = "/".join([*filter(None, [prefix]), KEPT_PREFIX, digest, "schemas"])

    def get(self, schema_id: int) -> Document | None:
        """Raises Refused or Unreachable; ValueError for what is no JSON."""
        return get_document(self._client, self._bucket, self._key(schema_id), self._what(schema_id))

    def put(self, schema_id: int, document: Document) -> Document:
        """As the protocol says. Raises as :meth:`get`."""
        key, what = self._key(schema_id), self._what(schema_id)
        return put_document(self._client, self._bucket, key, document, what)

    def ids(self) -> frozenset[int]:
        """Those of all documents. A LIST for a thousand of them. Raises Refused or Unreachable."""
        files = Bucket(self._client, self._bucket).files(f"{self._prefix}/")
        names = (PurePosixPath(file.path).stem for file in files)
        return frozenset(int(name) for name in names if name.isdecimal())

    def _key(self, schema_id: int) -> str:
        return f"{self._prefix}/{schema_id}.json"

    def _what(self, schema_id: int) -> str:
        return f"schema document s3://{self._bucket}/{self._key(schema_id)}"
