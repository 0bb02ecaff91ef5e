"""What a managed catalog does by itself to a running stream's table, by Spark's and PyIceberg's own calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.commits import ancestors
from sluice.clients.lake.reading.files import OFFSET
from sluice.clients.s3.requests import connect
from sluice.config.platform_sections.catalog import REST, SQL
from sluice.config.platform_sections.lake import BY_CATALOG, CATALOG, MAINTENANCE
from sluice.core.changes.plan import Action, ChangePlan
from sluice.core.findings import FindingName
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.storage import PLACE
from sluice.core.tables.summary import KIND
from sluice.ledger.batches import BatchLog
from sluice.ledger.documents import Ledger
from sluice.maintenance.reconciliation.table_contents import TableContents
from sluice.maintenance.reconciliation.verified_table import Verified
from spark_jobs.common.consumer.writer import StreamWriter
from spark_jobs.common.lake import state_property
from spark_jobs.common.lake.expected_refs import PREFIX
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from spark_jobs.common.lake.writer_lease import ConcurrentCommit
from spark_jobs.common.maintenance.change import Change
from spark_jobs.common.spark.failures import Fenced, Unrecoverable
from tests.support import foreign
from tests.support.lakehouse import Stream, accepting
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising

BOTH = pytest.mark.parametrize(
    "stream", [REST, pytest.param(SQL, marks=pytest.mark.exhaustive)], indirect=True
)


@pytest.fixture
def managed(stream: Stream) -> Iterator[Stream]:
    """A stream whose tables the catalog maintains, by declaration."""
    lake = replace(stream.platform.lake, maintenance=BY_CATALOG)
    stream.platform = replace(stream.platform, lake=lake)
    stream.spark.conf.set(f"{PREFIX}{MAINTENANCE}", BY_CATALOG)
    # As of a table that is made where the bucket is not listed.
    place = f"{lake.warehouse}/raw/documents_of_{stream.spec.name}"
    table = f"{CATALOG}.{stream.spec.table}"
    stream.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{PLACE}' = '{place}')")
    made = stream.writer

    def writer(kind: type[StreamWriter] = StreamWriter) -> StreamWriter:
        found = made(kind)
        for operation in ("ListObjectsV2", "ListObjectVersions"):
            event = f"before-parameter-build.s3.{operation}"
            found.client.meta.events.register(event, partial(refuse, found.table.location()))
        return found

    stream.writer = writer  # type: ignore[method-assign, assignment]
    yield stream
    stream.spark.conf.unset(f"{PREFIX}{MAINTENANCE}")


def refuse(folder: str, params: dict[str, Any], **_: Any) -> None:
    """As a bucket does that cannot be listed."""
    uri = f"s3://{params['Bucket']}/{params['Prefix']}"
    assert not uri.startswith(f"{folder}/"), f"{uri} is listed"


class Verifying:
    """The verification of the table, each time from what the one before has verified."""

    def __init__(self, stream: Stream, lake: Lake) -> None:
        self.lake, self.name = lake, stream.spec.table
        names = self.name, stream.spec.quarantine_table

        client = connect(stream.platform.s3)

        def batch_log(name: str) -> BatchLog:
            return BatchLog.open(client, lake.table(name))

        self.batch_log = batch_log
        ledger = Ledger(MemoryS3().as_client(), "s3://w/ledger", stream.spec.name)
        self.contents = TableContents(lake, *names, ledger, batch_log, is_by_catalog=True)
        self.verified: Verified | None = None

    def run(self) -> tuple[dict[FindingName, str], list[str]]:
        """Findings by their names, and notes."""
        before = self.contents.usable(self.verified, pytest.fail) if self.verified else None
        found, now = self.contents.verify(before, self.verified)
        self.verified = self.verified if found else now
        return {one.name: one.message for one in found}, list(self.contents.notes)

    def expire(self) -> None:
        """All snapshots of ``main`` but the newest, by PyIceberg."""
        table = self.lake.catalog.load_table(self.name)
        older = [snapshot.snapshot_id for snapshot in ancestors(table)][1:]
        table.maintenance.expire_snapshots().by_ids(older).commit()


@pytest.fixture
def verifying(managed: Stream) -> Iterator[Verifying]:
    with closing(Lake.open(managed.platform)) as lake:
        yield Verifying(managed, lake)


def rewrite_by_spark(stream: Stream, where: str = "true", name: str = "") -> None:
    """All files that may have such rows, of the stream's table or the one with this name."""
    stream.spark.sql(
        f"CALL {CATALOG}.system.rewrite_data_files(table => '{name or stream.spec.table}', "
        f"where => '{where}', options => map('rewrite-all', 'true'))"
    ).collect()


def leave_the_head_alone(stream: Stream, name: str) -> None:
    """As a catalog does to a table that is idle for weeks: rewrites, and every other snapshot expires, those
    of branches too. Its head and its parent were none of ours."""
    rewrite_by_spark(stream, name=name)
    rewrite_by_spark(stream, name=name)
    for branch in set(IcebergTable(stream.spark, name).branches()) - {MAIN}:
        stream.spark.sql(f"ALTER TABLE {CATALOG}.{name} DROP BRANCH `{branch}`")
    stream.spark.sql(
        f"CALL {CATALOG}.system.expire_snapshots(table => '{name}', retain_last => 1, "
        f"older_than => TIMESTAMP '{datetime.now(UTC):%F %T.%f}+00:00')"
    ).collect()
    (kept,) = IcebergTable(stream.spark, name).snapshots(MAIN)
    assert kept.summary["operation"] == "replace"


def rejecting(rows: DataFrame) -> DataFrame:
    text = F.col("value").cast("string")
    reason = F.when(text == "bad", "it is bad").cast("string")
    return rows.select("*", F.struct(text.alias("text")).alias("record"), reason.alias("reason"))


def send_rows(stream: Stream, first: int, *texts: str) -> None:
    """Rows of a source, one after the other, from its row ``first`` on, into partition 0."""
    producer = Producer({**stream.services.kafka, "log_level": 0})
    for number, text in enumerate(texts, first):
        key = f"{'a' * 16}:{number}:{number}".encode()
        producer.produce(stream.spec.topic.name, text.encode(), key, partition=0)
    assert producer.flush(30) == 0


@BOTH
def test_a_rewrite_between_batches_is_followed_and_one_under_a_publish_refuses_it(
    managed: Stream, verifying: Verifying
) -> None:
    running = managed.run(managed.writer())
    managed.send(2)
    running.query.processAllAvailable()
    assert verifying.run() == ({}, [])
    rewrite_by_spark(managed)
    managed.send(2)
    with pytest.raises(ConcurrentCommit):
        managed.await_end(running)

    class Overtaken(StreamWriter):
        def _publish(self, *arguments: Any) -> None:
            rewrite_by_spark(managed)
            super()._publish(*arguments)

    overtaken = managed.writer(Overtaken)
    with pytest.raises(ConcurrentCommit):
        managed.await_end(managed.consume(overtaken, overtaken.acquire()))
    managed.run(managed.writer())
    managed.assert_exact(4)
    found, notes = verifying.run()
    assert not found
    assert len(notes) == 2
    assert all("verified to hold the same 4 offsets, each once" in note for note in notes)


@BOTH
@pytest.mark.exhaustive
def test_a_stream_goes_on_whose_snapshots_another_client_has_expired(
    managed: Stream, verifying: Verifying
) -> None:
    running = managed.run(managed.writer())
    for _ in range(3):
        managed.send(1)
        running.query.processAllAvailable()
    running.stop()
    assert IcebergTable(managed.spark, managed.spec.table).expirable(0, 2**62) == []
    rewrite_by_spark(managed)
    running = managed.run(managed.writer())
    running.stop()
    verifying.expire()
    managed.send(1)
    managed.run(managed.writer())
    managed.assert_exact(4)
    assert verifying.run()[0] == {}
    log = verifying.batch_log(managed.spec.table)
    assert not log.restores
    assert [one.is_lost for one in log.newest(9)] == [False] * 4
    (place,) = {managed.writer().table.documents(), log.table.properties[PLACE]}
    assert place.startswith("s3://"), "not in the table's folder, which nothing else is written to"


@pytest.mark.exhaustive
@BOTH
@pytest.mark.parametrize("newest", ["batch", pytest.param("change", marks=pytest.mark.exhaustive)])
def test_an_idle_stream_goes_on_of_which_no_snapshot_is_left(
    managed: Stream, verifying: Verifying, newest: str
) -> None:
    """Its newest batch was published and not recorded: there the consumer was killed."""

    def writer() -> StreamWriter:
        found = managed.writer()
        found.rows_of = managed.rows_of(rejecting)
        return found

    before = writer()
    running = managed.run(before)
    send_rows(managed, 0, "good", "bad")
    running.query.processAllAvailable()
    vars(before)["_record"] = lambda name: None
    send_rows(managed, 2, "good")
    running.query.processAllAvailable()
    running.stop()
    rejected = {"batch": 1, "change": 0}[newest]
    if newest == "change":
        coming = OffsetRanges.of({0: [(1, 2)]})
        plan = ChangePlan("r1", Action.RETRY, managed.spec.topic.name, rows_in=coming)
        Change(managed.spark, managed.platform, managed.spec, lambda _: accepting, plan).run()
    assert verifying.run() == ({}, [])
    leave_the_head_alone(managed, managed.spec.table)
    if rejected:
        leave_the_head_alone(managed, managed.spec.quarantine_table)
    # A producer that was believed dead sends the rows again that were published last.
    send_rows(managed, 1, "bad", "good", "good")
    after = writer()
    managed.run(after)
    expected = {"batch": [0, 2, 5], "change": [0, 1, 2, 5]}[newest]
    assert managed.record_offsets() == [(0, offset) for offset in expected]
    assert after.epoch > before.epoch
    assert (after.state.rejected.count, after.state.changes.count) == (rejected + 2, 1 - rejected)
    with pytest.raises(Fenced):
        before.stage_summary({})
    found, notes = verifying.run()
    assert not found
    assert "is a rewrite of another program, and the snapshot before it has expired" in notes[0]
    assert all("expired" in note for note in notes)
    log = verifying.batch_log(managed.spec.table)
    assert not log.restores
    assert [one.is_lost for one in log.newest(9)] == [False] * 3


def test_what_the_properties_say_is_of_the_newest_snapshot_and_of_no_older_one(managed: Stream) -> None:
    writer = managed.writer()
    running = managed.run(writer)
    managed.send(1)
    running.query.processAllAvailable()
    table = IcebergTable(managed.spark, managed.spec.table)
    outdated = {**table.properties()}
    found = state_property.snapshot_in(outdated)
    assert found is not None
    assert found["snapshot-id"] == table.head(MAIN)
    assert found["summary"][KIND] == "batch"
    # Another declaration, or a version that has no such property, publishes.
    managed.spark.conf.unset(f"{PREFIX}{MAINTENANCE}")
    managed.send(1)
    running.query.processAllAvailable()
    running.stop()
    table.refresh()
    assert state_property.snapshot_in(table.properties()) is None
    managed.spark.conf.set(f"{PREFIX}{MAINTENANCE}", BY_CATALOG)
    leave_the_head_alone(managed, managed.spec.table)
    with raising(Unrecoverable, "none has the stream's state"):
        managed.writer().acquire()
    said = {name: outdated[name] for name in state_property.named_in(outdated)}
    with closing(Lake.open(managed.platform)) as lake, lake.table(managed.spec.table).transaction() as one:
        one.set_properties(said)
    with raising(Unrecoverable, "the stream has not published 0=[1,2) 1=[1,2)"):
        managed.writer().acquire()


@BOTH
def test_a_rewrite_that_loses_a_row_is_named_with_its_file(managed: Stream, verifying: Verifying) -> None:
    running = managed.run(managed.writer())
    managed.send(3)
    running.query.processAllAvailable()
    running.stop()
    verifying.run()
    table = verifying.lake.catalog.load_table(managed.spec.table)
    rows = table.scan().to_arrow()
    is_lost = pc.and_(pc.equal(rows["_kafka_partition"], 1), pc.equal(rows[OFFSET], 1))
    foreign.rewrite(table, rows.filter(pc.invert(is_lost)))
    found, _ = verifying.run()
    assert "lost 1 offsets: 1=[1,2), of s3://" in found[FindingName.FOREIGN_COMMIT]
    assert "1=[1,2)" in found[FindingName.OFFSETS_MISSING]


@BOTH
@pytest.mark.exhaustive
def test_a_query_can_begin_once_manifests_without_removed_files_are_written(
    managed: Stream, verifying: Verifying
) -> None:
    """As docs/operating.md says, of a table whose maintenance is the catalog's."""
    running = managed.run(managed.writer())
    for _ in range(2):
        managed.send(2)
        running.query.processAllAvailable()
    running.stop()
    verifying.run()
    manifests = f"CALL {CATALOG}.system.rewrite_manifests(table => '{managed.spec.table}')"
    managed.spark.sql(manifests).collect()
    rewrite_by_spark(managed, f"{OFFSET} >= 2")
    table = IcebergTable(managed.spark, managed.spec.table)

    def is_streamable() -> bool:
        managed.writer().acquire()
        table.refresh()
        return table.streamable_files(next(table.snapshots(MAIN))) is not None

    assert not is_streamable(), "a manifest lists the removed file beside one that is there"
    managed.spark.sql(manifests).collect()
    assert is_streamable()
    found, notes = verifying.run()
    assert not found
    assert len(notes) == 3
    assert all("verified to hold the same" in note for note in notes)
