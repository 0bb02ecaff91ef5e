"""At which offsets the records of each schema id are, as a table says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from sluice.clients.s3.documents import read_named
from sluice.clients.s3.errors import asking
from sluice.core.schema_versions.offsets import SchemaOffsets, address
from sluice.core.tables.storage import documents_place

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def schema_offsets(client: S3Client, table: Table) -> SchemaOffsets:
    """All that is recorded; at most one GET, whatever the table's history is. Raises Refused (also if the
    document is gone or another one) or Unreachable."""
    found = SchemaOffsets.of(table.properties)
    if not found.document:
        return found
    uri = address(documents_place(table.location(), table.properties), found.document)
    with asking("offsets of the table's schema ids"):
        text, _ = read_named(client, uri, found.document)
    return found.with_document(json.loads(text))
