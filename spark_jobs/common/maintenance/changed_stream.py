"""A stream's state on ``main``, for a change on top of it: read, checked, and written with the change."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from uuid import uuid4

from pyspark.sql import SparkSession

from sluice.clients.catalogs.vended import client_of
from sluice.clients.s3.requests import read_change, split
from sluice.config.platform import Platform
from sluice.config.stream import StreamSpec
from sluice.core.changes.plan import ChangePlan
from sluice.core.changes.published import CHANGE
from sluice.core.changes.result import ChangeResult
from sluice.core.error_codes import ErrorCode
from sluice.core.offsets.deduplication import LoadedRows
from sluice.core.offsets.quarantine import Rejections, malformed_out
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.rejection import BATCHES
from sluice.core.tables.rewrites import Rewrites
from sluice.core.tables.summary import (
    CHANGE_DOCUMENT,
    CHANGE_OFFSETS,
    KIND,
    MALFORMED_OUT,
    OF_WRITER,
)
from spark_jobs.common.consumer import state
from spark_jobs.common.consumer.batch_log import BatchLogWriter, record
from spark_jobs.common.consumer.followed import ending_of
from spark_jobs.common.consumer.state import StreamState
from spark_jobs.common.kafka.offsets import Topic
from spark_jobs.common.lake.followed import documents
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from spark_jobs.common.lake.loaded_rows import LoadedRowsStore
from spark_jobs.common.lake.written.read_offsets import OffsetReader


class ChangeRefused(RuntimeError):
    """The change would break what it must keep; nothing was published."""

    code = ErrorCode.CHANGE_REFUSED


class UnknownChange(ChangeRefused):
    """So many changes came later that it is not known whether this one is published."""

    code = ErrorCode.CHANGE_NOT_COMPARABLE


class ChangedStream:
    """The stream's table as its snapshots describe it; ``plan`` is of the change. For one thread."""

    def __init__(
        self,
        spark: SparkSession,
        platform: Platform,
        spec: StreamSpec,
        plan: ChangePlan,
        reader: OffsetReader,
    ) -> None:
        self.spec, self.plan, self._reader = spec, plan, reader
        self.table = IcebergTable(spark, spec.table)
        self._client = client_of(platform)
        self._is_by_catalog = platform.lake.is_maintained_by_catalog
        self._topic = Topic(platform.kafka, spec.topic.name)

    def now(self) -> StreamState:
        """As of ``main`` now."""
        self.table.refresh()
        found = state.of_main(self.table, self._reader, self._client)
        named = replace(found.changes, rewrites=Rewrites.of(self.table.properties()))
        return replace(found, changes=named)

    def recorded(self, now: StreamState) -> StreamState:
        """``now``, for a change on top of it. Where the catalog expires snapshots by itself, the newest
        batches and their loaded rows are recorded: the change's snapshot may be the only one that is left.
        Raises botocore's errors."""
        if not self._is_by_catalog or not now.unrecorded:
            return now
        place = self.table.documents()
        store, log = LoadedRowsStore(self._client, place), BatchLogWriter(self._client, place)
        record(self.table, store, log, f"change-{uuid4().hex}", now.unrecorded)
        return replace(now, recorded=now.recorded + len(now.unrecorded), unrecorded=[])

    def followed(self, digest: str) -> str:
        """The text of the schema with this digest that the table follows; empty for the declared one. Raises
        LakeFileMissing, and botocore's errors."""
        if not digest:
            return ""
        return documents.read(self._client, self.table.documents(), digest, ending_of(self.spec))

    def is_published(self, now: StreamState) -> bool:
        """Raises ChangeRefused if another change was published since this one was planned: rows that are to
        come may be there by now, or be removed on purpose; or if the stream has not published all that is to
        come or to go. Raises UnknownChange if nothing tells."""
        found = now.changes.has(self.plan.id, self.plan.changes)
        if found is None:
            raise UnknownChange(f"{self.spec.table}: {self.plan.unknown_among(now.changes)}")
        if found:
            return True
        if reason := self.plan.outdated_by(now.changes):
            raise ChangeRefused(f"{self.spec.table}: {reason}; nothing was changed. Fix: trigger a new run")
        self._check_all_published(now)
        return False

    def _check_all_published(self, now: StreamState) -> None:
        """Raise ChangeRefused if offsets of the plan are not published: also of rows that go, since the
        stream would publish them after the change."""
        published = OffsetRanges.from_ends(now.starts, now.ends)
        if beyond := self.plan.rows_in.union(self.plan.rows_out).minus(published):
            raise ChangeRefused(
                f"{self.spec.table}: {beyond} is not published by the stream: its catalog was restored since "
                "the change was planned. Fix: trigger a new run, once the stream has published them again"
            )

    def check_topic(self, now: StreamState) -> None:
        """Raise ChangeRefused if the topic is not the one that the table is of. Also after its records were
        read: if the id is the same then, they are of that topic."""
        if self.plan.rows_in and (found := self._topic.id()) != now.topic_id:
            raise ChangeRefused(
                f"topic {self.plan.topic!r} was recreated: its id is {found}, {self.spec.table} has "
                f"{now.topic_id}; nothing was changed. Fix: restore the topic, or give the stream a new table"
            )

    def removed_before(self, now: StreamState) -> ChangeResult:
        """The newest change after which rows are removed on purpose; an empty one without."""
        return ChangeResult.at(now.changes.removed_address, partial(read_change, self._client))

    def record(self, result: ChangeResult, rows: LoadedRows) -> str:
        """Write the result and the rows that came beside the table; return the address.

        The change's snapshot names the one that counts, and no other attempt writes to it: one that publishes
        nothing leaves an object that nothing names."""
        document = {**result.to_document(), state.ROWS: rows.to_json()}
        body = json.dumps(document, separators=(",", ":")).encode()
        # Two attempts may have the same head, of which one was suspended before it published. No conditional
        # put: the client sends a request whose answer was lost again, and would be refused by its own object.
        name = f"{result.id}-{self.table.head(MAIN)}-{uuid4().hex}"
        address = f"{self.table.documents()}/changes/{name}.json"
        bucket, key = split(address)
        self._client.put_object(Bucket=bucket, Key=key, Body=body, ContentType="application/json")
        return address

    def _offsets(self, now: StreamState, result: ChangeResult) -> OffsetRanges:
        """With which the change's loaded rows count. Those of closed sources only once all is published that
        is now: if the catalog is restored to before that, their records come again and are good."""
        if self.plan.closes:
            return OffsetRanges.from_ends(now.starts, now.ends)
        return result.published.bounds()

    def summary(
        self,
        now: StreamState,
        rejections: Rejections,
        result: ChangeResult,
        address: str,
        malformed: OffsetRanges,
    ) -> dict[str, str]:
        """Return the properties of the change's snapshot on top of ``now``. ``malformed``: records that leave
        the quarantine."""
        removed = address if result.removed or result.reverts else ""
        kept = [snapshot.summary for snapshot in self.table.line()]
        newest = next(summary for summary in kept if KIND in summary)
        out = malformed_out(kept, malformed, BATCHES)
        carried = {key: newest[key] for key in OF_WRITER if key in newest}
        # A record in quarantine alone was in no query's results.
        moves_rows = bool(result.files_removed or result.files_added)
        changes = now.changes.more(self.plan.id, removed, moves_rows=moves_rows)
        after = replace(now, rejected=rejections, changes=changes)
        return {
            **carried,
            **after.summary(),
            KIND: CHANGE,
            CHANGE_OFFSETS: self._offsets(now, result).to_json(),
            CHANGE_DOCUMENT: address,
            **({MALFORMED_OUT: json.dumps(out)} if out else {}),
        }
