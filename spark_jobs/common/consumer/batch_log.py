"""Record what batches published, beside the table: :mod:`sluice.model.trace.batch_log`."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from sluice.model.trace.batch_log import (
    FOLDER,
    PUBLISHED,
    RESTORED,
    Restore,
    batches_in,
    document_of,
    is_beyond,
    published_key,
    restore_found,
    restored_key,
)
from sluice.model.trace.batches import Batch, by_writer
from spark_jobs.common.lake.iceberg import Snapshot

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

log = logging.getLogger(__name__)


class BatchLog:
    """The batch log of one table, for its writer. Its methods raise botocore's errors."""

    def __init__(self, client: S3Client, location: str) -> None:
        """``location``: the table's ``s3://bucket/…``."""
        self._client = client
        self._bucket, _, prefix = location.removeprefix("s3://").partition("/")
        self._prefix = f"{prefix}/{FOLDER}/"

    def record(self, batches: Iterable[Batch]) -> None:
        """Record these batches, oldest first: one object for those of each writer, so one but after a
        failover. Recording them again is harmless: readers know a batch by its snapshot."""
        for group in by_writer(batches):
            self._put(published_key(group), document_of(group))

    def note_restore(self, ends: Mapping[int, int], now: int, writer: str) -> None:
        """Record that ``main`` was set back to ``ends``, if the newest recorded batches are beyond these; for
        ``writer``, which has acquired the lease at ``now`` (ms). Usually one LIST and one GET."""
        newest = next(iter(self._keys(PUBLISHED, MaxKeys=1)), None)
        recorded = batches_in(self._get(newest)) if newest else []
        if not any(is_beyond(batch, ends) for batch in recorded):
            return
        known = [Restore.from_json(self._get(key)) for key in self._keys(RESTORED)]
        restore = restore_found(recorded, ends, known, now)
        if restore is not None:
            log.warning("main was set back: recorded batches are lost ends=%s", restore.ends)
            self._put(restored_key(restore, writer), restore.to_json())

    def _keys(self, prefix: str, **options: Any) -> list[str]:
        """Those that begin with ``prefix``, at most a thousand."""
        answer = self._client.list_objects_v2(
            Bucket=self._bucket, Prefix=f"{self._prefix}{prefix}", **options
        )
        return [found["Key"] for found in answer.get("Contents", [])]

    def _get(self, key: str) -> dict[str, Any]:
        document: dict[str, Any] = json.load(self._client.get_object(Bucket=self._bucket, Key=key)["Body"])
        return document

    def _put(self, key: str, document: Mapping[str, Any]) -> None:
        try:
            self._client.put_object(
                Bucket=self._bucket,
                Key=f"{self._prefix}{key}",
                Body=json.dumps(document, separators=(",", ":")).encode(),
                ContentType="application/json",
                IfNoneMatch="*",
            )
        except ClientError as error:
            # An earlier attempt's, without an answer or before a crash: the key names the same batches.
            if error.response["Error"]["Code"] != "PreconditionFailed":
                raise


def newest_batches(snapshots: Iterable[Snapshot], count: int, published_at: Mapping[int, int]) -> list[Batch]:
    """The newest ``count`` batches in ``snapshots`` (of ``main``, newest first), oldest first."""
    found = (Batch.of_snapshot(s.id, s.summary, published_at.get(s.id, s.at_ms)) for s in snapshots)
    return list(islice((batch for batch in found if batch is not None), count))[::-1]
