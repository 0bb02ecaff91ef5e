"""Record what batches published, beside the table: :mod:`sluice.ledger.batch_log`."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from sluice.clients.s3.documents import put_once
from sluice.clients.s3.requests import split
from sluice.core.tables.batches import Batch, batches_of, by_writer, time_of
from sluice.core.tables.continuity import covers
from sluice.ledger.batch_log import (
    FOLDER,
    PUBLISHED,
    RESTORED,
    Line,
    Restore,
    batches_in,
    document_of,
    published_key,
    restore_found,
    restore_of,
    restored_key,
    span_of,
)
from spark_jobs.common.lake.iceberg import IcebergTable
from spark_jobs.common.lake.loaded_rows import BatchRows, LoadedRowsStore

if TYPE_CHECKING:
    from datetime import datetime

    from mypy_boto3_s3 import S3Client

log = logging.getLogger(__name__)


def newest_batches(table: IcebergTable, count: int, metadata_log: Sequence[int] = ()) -> list[Batch]:
    """Those of ``main``, oldest first. ``metadata_log``: what is to be recorded of a batch's cost."""
    return list(islice(batches_of(table.line(), table.published_at(), metadata_log), count))[::-1]


def record(
    table: IcebergTable, store: LoadedRowsStore, log_of: BatchLogWriter, name: str, rows: Sequence[BatchRows]
) -> None:
    """Record the newest batches, of which these are the loaded ``rows``, and the rows before, as ``name``."""
    store.record(name, rows)
    # Their snapshots are kept, for their rows.
    log_of.record(newest_batches(table, len(rows), table.metadata_log()))


class BatchLogWriter:
    """The batch log of one table, for its writer. Its methods raise botocore's errors."""

    def __init__(self, client: S3Client, location: str) -> None:
        """``location``: the table's ``s3://bucket/…``."""
        self._client = client
        self._bucket, prefix = split(location)
        self._prefix = f"{prefix}/{FOLDER}/"

    def record(self, batches: Iterable[Batch]) -> None:
        """Record these batches, oldest first: one object for those of each writer, so one but after a
        failover. Recording them again is harmless: readers know a batch by its snapshot."""
        for group in by_writer(batches):
            self._put(published_key(group), document_of(group))

    def note_restore(
        self,
        main: Sequence[Batch],
        now_ms: int,
        writer: str,
        ends: Mapping[int, int] | None = None,
    ) -> None:
        """Record that the catalog was restored, if it was; for ``writer``, which has acquired the lease.
        Two LISTs. ``main``: as of :func:`restore_found`. ``ends``: those of ``main``, where too few of its
        batches may be kept to tell: if they cover the newest recorded batch, nothing was restored; one GET
        more, and after a restore those to the newest batch that they cover, if ``main`` keeps none."""
        first = next(iter(self._keys(PUBLISHED, MaxKeys=1)), "")
        span = span_of(first)
        found = [restore for key in self._keys(RESTORED) if (restore := restore_of(key))]
        # Its own is an attempt's without an answer.
        known = [restore for restore in found if restore.writer != writer]
        restore = restore_found(main, span.newest if span else None, known, time_of(now_ms))
        if restore is not None and ends is not None:
            # Not where a clock was ahead: what this writer will publish would be at times of lost batches.
            is_late = all(one.at < time_of(now_ms) for one in known)
            if is_late and self._newest_is_covered(first, ends):
                return
            if not main:
                # Before it, and not before the first: a catalog that expires snapshots has left no batch.
                restore = Restore(restore.at, self._newest_covered(ends, Line.of(known)))
        if restore is not None:
            log.warning("catalog restored newest_batch=%s", restore.newest.isoformat())
            self._put(restored_key(restore, writer), {"writer": writer, "at": restore.at.isoformat()})

    def _newest_is_covered(self, key: str, ends: Mapping[int, int]) -> bool:
        return covers(ends, self._batches(key)[-1].ends)

    def _newest_covered(self, ends: Mapping[int, int], line: Line) -> datetime:
        """When the newest batch of the line was published that ``ends`` cover; the year 1970 if none is. A
        GET per document after it, and a LIST per thousand."""
        after = ""
        while keys := self._keys(PUBLISHED, **({"StartAfter": after} if after else {})):
            for key in keys:
                for batch in reversed(self._batches(key)):
                    if batch in line and covers(ends, batch.ends):
                        return batch.published
            after = keys[-1]
        return time_of(0)

    def _batches(self, key: str) -> list[Batch]:
        answer = self._client.get_object(Bucket=self._bucket, Key=key)
        return batches_in(json.loads(answer["Body"].read()))

    def _keys(self, prefix: str, **options: Any) -> list[str]:
        """Those that begin with ``prefix``, at most a thousand."""
        answer = self._client.list_objects_v2(
            Bucket=self._bucket, Prefix=f"{self._prefix}{prefix}", **options
        )
        return [found["Key"] for found in answer.get("Contents", [])]

    def _put(self, key: str, document: Mapping[str, Any]) -> None:
        body = json.dumps(document, separators=(",", ":")).encode()
        # One that is there is an earlier attempt's, without an answer or before a crash: the key names the
        # same batches.
        put_once(self._client, f"s3://{self._bucket}/{self._prefix}{key}", body)
