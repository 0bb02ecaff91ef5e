"""The schema that a table follows, where its declaration is less: a document beside it.

``<location>/schemas/<digest>.avsc``: an Avro schema; ``….json`` of Protobuf: its columns, with the numbers of
fields. It is written before the commit that names it, once and never changed. The table's property SCHEMA has
the digest, and is set in the commit that changes the columns: a catalog that is restored has both as they
were.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from sluice.core.schema_versions.followed import AVRO, PROPERTY, address
from spark_jobs.common.lake.followed import documents

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

SCHEMA = PROPERTY


def digest_of(properties: Mapping[str, str]) -> str:
    """The digest of a table's followed schema; empty if it has the declared one. ``properties``: the
    table's."""
    return properties.get(SCHEMA) or ""


def keep(client: S3Client, location: str, text: str, ending: str = AVRO) -> str:
    """Write the document, unless it is there since lately; return its digest. ``ending``: AVRO or PROTOBUF.
    Raises as :func:`documents.keep`."""
    return documents.keep(client, partial(address, location, ending=ending), text)


def read(client: S3Client, location: str, digest: str, ending: str = AVRO) -> str:
    """The document's text. ``ending``: as it was kept with. Raises as :func:`documents.read`."""
    return documents.read(client, address(location, digest, ending), digest)
