"""Keep the offsets without a record that are too many for a summary, beside the table.

``<location>/without-record/<writer>-<batch id>-<hash>.json``: written before the snapshot that names it, once
and never changed, and kept as long as the batch log, which names it after the snapshot has expired.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from sluice.clients.s3.documents import put_once
from sluice.clients.s3.requests import split
from sluice.core.tables.without_record import FOLDER, WithoutRecord

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def keep(client: S3Client, location: str, name: str, without: WithoutRecord) -> WithoutRecord:
    """What the summary is to say: ``without``, or, of a long one, the document that has it. Raises botocore's
    errors. ``location``: the table's ``s3://bucket/…``; ``name``: of the batch."""
    if not without.is_long:
        return without
    body = json.dumps(without.to_document(), separators=(",", ":")).encode()
    bucket, prefix = split(location)
    # A batch that is written again, as after a crash, may find other offsets gone.
    address = f"s3://{bucket}/{prefix}/{FOLDER}/{name}-{hashlib.sha256(body).hexdigest()[:16]}.json"
    # One that is there is an earlier attempt's: the key names the same content.
    put_once(client, address, body)
    return WithoutRecord(address=address, documented=without.offsets.count)
