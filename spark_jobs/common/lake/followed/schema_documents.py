"""The schema ids that a table's property has no space for, in a document beside the table.

``<location>/schema-offsets/<digest>.json``: written before the commit that names it, once and never changed;
the next one has its ids too.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from sluice.core.schema_versions.offsets import Document, SchemaOffsets, address
from spark_jobs.common.lake.followed import documents

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def moved(client: S3Client, location: str, offsets: SchemaOffsets) -> SchemaOffsets:
    """``offsets`` with all their ids in a new document. ``location``: the table's ``s3://bucket/…``. Raises
    LakeFileMissing if that of the earlier ones is gone or another one, or if the new one's name is taken by
    another, and botocore's errors."""
    found, text = offsets.moved(_ids(client, location, offsets.document))
    return replace(found, document=documents.keep(client, partial(address, location), text))


def _ids(client: S3Client, location: str, digest: str) -> Document:
    if not digest:
        return ()
    document: Document = json.loads(documents.read(client, address(location, digest), digest))
    return document
