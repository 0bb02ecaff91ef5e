"""A batch's rows: read, decoded and written by tasks, committed by the driver."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from sluice.clients.catalogs.vended import vended
from sluice.config.platform import Platform
from sluice.config.stream import StreamSpec
from sluice.core.decoding.decoder import RecordDecoder
from sluice.core.offsets.deduplication import joined
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.record_batches.account import Account
from sluice.core.schema_versions.offsets import joined_ids
from sluice.core.schema_versions.table_columns import arrow_schema
from sluice.core.tables.summary import BATCH_ID, LEADER_EPOCHS
from sluice.core.tables.without_record import WithoutRecord
from spark_jobs.common.consumer.decoded_rows import Decode
from spark_jobs.common.consumer.direct.batch import DirectBatches
from spark_jobs.common.consumer.direct.follower import Follower
from spark_jobs.common.consumer.direct.own_decode import OwnDecode
from spark_jobs.common.consumer.direct.task import Duplicates, Job, Result
from spark_jobs.common.lake.clock import now_ms
from spark_jobs.common.lake.data_files.parquet_file import DataFile
from spark_jobs.common.lake.data_files.partitioned import Layout
from spark_jobs.common.lake.keep_without_record import keep
from spark_jobs.common.lake.quarantine import MAX_CHARACTERS
from spark_jobs.common.lake.written.written_batch import WrittenBatch

if TYPE_CHECKING:
    from spark_jobs.common.consumer.writer import StreamWriter


class DirectSource:
    """The batches of one stream, for its writer."""

    def __init__(
        self,
        spark: SparkSession,
        platform: Platform,
        spec: StreamSpec,
        decoding: RecordDecoder | Decode,
        follower: Follower | None = None,
    ) -> None:
        """``decoding``: a decoder, or the stream's own function; ``follower``: has the decoder instead, of a
        table that may follow its records' schemas."""
        self._spark, self._platform, self._spec = spark, platform, spec
        self._decoder: RecordDecoder | None = None if callable(decoding) else decoding
        self._follower = follower
        self._own = OwnDecode(spark, decoding) if callable(decoding) else None
        self._known: tuple[str | None, ...] = ()
        self._batches: DirectBatches | None = None

    def __call__(self, writer: StreamWriter) -> DirectRows:
        # If writers before it published nothing, what is in the batch may end its process: not the driver's.
        is_safe = writer.has_published or not writer.follows_a_failure
        return DirectRows(
            self._current(writer),
            writer.state.leader_epochs,
            in_driver=is_safe,
            follow=self._followed if self._follower else None,
        )

    def _followed(self, writer: StreamWriter, schema_ids: frozenset[int]) -> DirectBatches | None:
        """The batches with what these schemas add; None if that is nothing."""
        assert self._follower is not None
        return self._current(writer) if self._follower.follow(writer, schema_ids) else None

    def _current(self, writer: StreamWriter) -> DirectBatches:
        # At each batch: a catalog that is restored, or a table that is altered, has other columns and ids.
        table, quarantine = writer.table, writer.quarantine.table
        known = (
            writer.state.topic_id,
            *(str((one.schema(), one.location(), one.partitions())) for one in (table, quarantine)),
            writer.written_schema(),
            str(sorted(self._follower.impossible)) if self._follower else "",
        )
        if self._batches is None or known != self._known:
            if self._follower:
                self._decoder = self._follower.decoder(writer)
            self._known, self._batches = known, DirectBatches(self._spark, self._job(writer), self._own)
        return self._batches

    def _job(self, writer: StreamWriter) -> Job:
        """No I/O."""
        table, quarantine = writer.table, writer.quarantine.table
        return Job(
            self._platform.kafka,
            self._platform.s3,
            self._spec.topic.name,
            str(writer.state.topic_id),
            Layout(arrow_schema(table.schema()), f"{table.location()}/data/", tuple(self._spec.partitions)),
            Layout(arrow_schema(quarantine.schema()), f"{quarantine.location()}/data/"),
            self._decoder,
            vended(self._platform),
        )


class DirectRows:
    """The rows of one batch, to be written as often as needed: they are read and decoded each time.

    ``epochs``: partition -> the leader epoch of the newest record, as far as known; after :meth:`write`.
    """

    def __init__(
        self,
        batches: DirectBatches,
        epochs: Mapping[int, int],
        *,
        in_driver: bool = True,
        follow: Callable[[StreamWriter, frozenset[int]], DirectBatches | None] | None = None,
    ) -> None:
        """``in_driver``: a small batch is decoded there; ``follow``: makes the table follow schemas, and has
        the batches then."""
        self._batches, self._before, self._in_driver = batches, dict(epochs), in_driver
        self._follow = follow
        self.epochs: dict[int, int] = dict(epochs)

    def write(
        self,
        writer: StreamWriter,
        ranges: OffsetRanges,
        summary: Mapping[str, str],
        duplicates: Duplicates | None = None,
        *,
        is_small: bool,
    ) -> WrittenBatch:
        """Stage the good records of ``ranges`` in a snapshot with ``summary``, and the others in the
        quarantine; ``duplicates`` are rejected, as far as known. Raises what ``DirectBatches.run`` raises,
        and the writer's ``stage_files``."""
        while True:
            began = now_ms()
            results = self._batches.run(
                ranges, self._before, duplicates, is_small=is_small, in_driver=self._in_driver
            )
            # Before anything of the batch is staged: its columns are on `main` first. Each round adds some.
            followed = self._followed(writer, results)
            if followed is None:
                break
            self._batches = followed
        without = without_record(results)
        self.epochs = last_epochs(self._before, [one for result in results for one in result.accounts])
        files = [file for result in results for file in result.files]
        kept = keep(writer.client, writer.table.documents(), f"{writer.branch}-{summary[BATCH_ID]}", without)
        said = kept.properties() | {LEADER_EPOCHS: json.dumps(self.epochs)}
        added = writer.stage_files(files, {**summary, **said}, began)
        staged: list[str] = []
        rejected_files: list[DataFile] = []
        rejected = [result.rejected for result in results]
        malformed = sum(part.malformed for part in rejected)
        if count := sum(part.count for part in rejected):
            newest = max((part.newest for part in rejected if part.newest is not None), default=None)
            writer.commit_staged()
            before, after = writer.rejections(count, summary, malformed)
            rejected_files = self._batches.quarantine_files(results)
            staged = writer.quarantine.stage(
                rejected_files,
                writer.branch,
                before,
                after,
                str(newest)[:MAX_CHARACTERS] if newest else "",
            )
        return WrittenBatch(
            list(added),
            staged,
            writer.offset_reader,
            malformed,
            without.offsets,
            joined(run for result in results for run in result.runs),
            {one.uri: one.offsets for one in (*files, *rejected_files) if one.offsets is not None},
            joined_ids(result.schemas for result in results),
        )

    def _followed(self, writer: StreamWriter, results: Iterable[Result]) -> DirectBatches | None:
        found = frozenset[int]().union(*(result.unfollowed for result in results))
        return self._follow(writer, found) if found and self._follow else None


def last_epochs(before: Mapping[int, int], accounts: Iterable[tuple[int, Account]]) -> dict[int, int]:
    """Partition -> the leader epoch of the record before the next range, as far as known.

    ``accounts``: of a batch, in any order. Without the partitions whose last offsets are absent: those may
    have had a later epoch, and a broker compares what it is told with that.
    """
    last: dict[int, Account] = {}
    for partition, account in accounts:
        if partition not in last or account.end > last[partition].end:
            last[partition] = account
    found = {partition: epoch for partition, epoch in before.items() if partition not in last}
    return found | {p: one.last_epoch for p, one in last.items() if one.last_epoch is not None}


def without_record(results: Iterable[Result]) -> WithoutRecord:
    """What the accounts of a batch say of offsets that have no record, and the records that the stream's
    declaration leaves out."""
    results = list(results)
    accounts = [one for result in results for one in result.accounts]
    of_log = (
        WithoutRecord(
            OffsetRanges({partition: account.control}),
            OffsetRanges({partition: account.aborted}),
            OffsetRanges({partition: account.absent}),
            evidence=account.evidence,
        )
        for partition, account in sorted(accounts, key=lambda one: one[1].evidence)
    )
    declared = (WithoutRecord(skipped=result.skipped) for result in results if result.skipped)
    return WithoutRecord.joined(chain(of_log, declared))
