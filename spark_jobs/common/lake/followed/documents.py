"""Documents beside a table that its properties name by the digest of their content: written once and never
changed, before the commit that names them.

``<location>/schemas/<digest>.avsc``: the schema that a table follows, where its declaration is less: an Avro
schema; ``….json`` of Protobuf: its columns, with the numbers of fields. The table's property SCHEMA has the
digest, and is set in the commit that changes the columns: a catalog that is restored has both as they were.
``<location>/schema-offsets/<digest>.json``: the schema ids that a table's property has no space for; the next
one has its ids too.

A commit names none that is old: what no state needs is removed when it is old, and that may be just now.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from sluice.clients.s3.documents import put_once, read_named
from sluice.core.errors import Refused
from sluice.core.schema_versions import offsets as offsets_module
from sluice.core.schema_versions.documents import may_be_named
from sluice.core.schema_versions.followed import AVRO, PROPERTY, address, digest_of
from sluice.core.schema_versions.offsets import Document, SchemaOffsets
from spark_jobs.common.spark.failures import LakeFileMissing

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

SCHEMA = PROPERTY


def followed_digest(properties: Mapping[str, str]) -> str:
    """The digest of a table's followed schema; empty if it has the declared one. ``properties``: the
    table's."""
    return properties.get(SCHEMA) or ""


def keep(client: S3Client, location: str, text: str, ending: str = AVRO) -> str:
    """Write the document of a followed schema, unless it is there since lately; return its digest (SHA-256 in
    hex), which a commit may name. ``location``: the table's ``s3://bucket/…``; ``ending``: AVRO or PROTOBUF.
    Raises LakeFileMissing if another one has its name, and botocore's errors."""
    return _keep(client, partial(address, location, ending=ending), text)


def read(client: S3Client, location: str, digest: str, ending: str = AVRO) -> str:
    """The text of a followed schema. ``ending``: as it was kept with. Raises LakeFileMissing if it is gone or
    another one, and botocore's errors."""
    return _read(client, address(location, digest, ending), digest)[0]


def moved(client: S3Client, location: str, offsets: SchemaOffsets) -> SchemaOffsets:
    """``offsets`` with all their ids in a new document. Raises LakeFileMissing if that of the earlier ones is
    gone or another one, or if the new one's name is taken by another, and botocore's errors."""
    found, text = offsets.moved(_ids(client, location, offsets.document))
    return replace(found, document=_keep(client, partial(offsets_module.address, location), text))


def _ids(client: S3Client, location: str, digest: str) -> Document:
    if not digest:
        return ()
    document: Document = json.loads(_read(client, offsets_module.address(location, digest), digest)[0])
    return document


def _keep(client: S3Client, place: Callable[[str], str], text: str) -> str:
    """As :func:`keep`, at the ``place`` of a digest. If an old one has its name, that is of the text with
    more line ends."""
    while True:
        digest = digest_of(text)
        if put_once(client, place(digest), text.encode()):
            return digest
        # An earlier attempt has written it, if nothing has damaged it since: a commit is to name it.
        _, written = _read(client, place(digest), digest)
        if may_be_named(written, datetime.now(UTC)):
            return digest
        text += "\n"


def _read(client: S3Client, uri: str, digest: str) -> tuple[str, datetime]:
    try:
        return read_named(client, uri, digest)
    except Refused as error:
        raise LakeFileMissing(str(error)) from error
