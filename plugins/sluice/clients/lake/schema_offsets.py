"""At which offsets the records of each schema id are, as a table says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table import Table

from sluice.clients.s3.requests import read_change
from sluice.core.schema_versions.offsets import SchemaOffsets, address

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def schema_offsets(client: S3Client, table: Table) -> SchemaOffsets:
    """All that is recorded; at most one GET, whatever the table's history is. Raises Refused (also if the
    document is gone) or Unreachable."""
    found = SchemaOffsets.of(table.properties)
    if not found.document:
        return found
    uri = address(table.location(), found.document)
    return found.with_document(read_change(client, uri, "offsets of the table's schema ids"))
