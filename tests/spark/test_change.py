"""Changes of a stream's table on real services: replayed, reverted, redone, and out of quarantine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import date
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.snapshots import change_files, recovered, table_diff
from sluice.clients.s3.requests import connect, read_json
from sluice.config.platform_sections.lake import CATALOG
from sluice.core.changes import published as named_changes
from sluice.core.changes.plan import Action, ChangePlan
from sluice.core.changes.result import ChangeResult, RemovedRecord
from sluice.core.decoding.identity import identity
from sluice.core.offsets.offset_set import OffsetSet
from sluice.core.offsets.quarantine import WITHHELD_REASON
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.rejection import Share
from sluice.core.offsets.sources import WITHHELD_MARK
from sluice.core.tables.rewrites import Rewrites
from sluice.core.tables.summary import CHANGE_ID
from sluice.ledger.batches import BatchLog
from sluice.ledger.documents import Ledger
from sluice.maintenance.reconciliation.history.foreign_files import ForeignFiles
from sluice.maintenance.reconciliation.verified_table import Verified
from spark_jobs.common.consumer import writer as writer_module
from spark_jobs.common.consumer.direct import batch, own_decode
from spark_jobs.common.consumer.direct.rejected import RejectedPart, gathered
from spark_jobs.common.consumer.writer import StreamWriter
from spark_jobs.common.lake import writer_lease
from spark_jobs.common.lake.data_files.parquet_file import DataFile
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from spark_jobs.common.maintenance import change, leaving
from spark_jobs.common.maintenance.change import Change
from spark_jobs.common.maintenance.change_quarantine import ChangeQuarantine
from spark_jobs.common.maintenance.changed_stream import ChangeRefused
from spark_jobs.common.maintenance.compact import compact
from spark_jobs.common.maintenance.row_diff import RowsDiffer
from spark_jobs.common.maintenance.staged_change import StagedChange
from spark_jobs.common.maintenance.staged_files import CommitConflict
from tests.support.lakehouse import Stream
from tests.support.raising import raising
from tests.support.services import Services

A, B = "a" * 16, "b" * 16
_numbers = count()


class Changing(Stream):
    """A stream whose records beginning with ``bad`` are rejected until :attr:`is_fixed`."""

    is_fixed = False

    def writer(self, kind: Callable[..., StreamWriter] = StreamWriter) -> StreamWriter:
        writer = super().writer(kind)
        writer.rows_of = self.rows_of(self.decode)
        return writer

    def decode(self, rows: DataFrame) -> DataFrame:
        text = F.col("value").cast("string")
        unreadable = F.when(F.hex("value").startswith("626164FF"), F.unhex(F.lit("FF")).cast("string"))
        reason = unreadable.when(text.startswith("bad"), F.lit("it is bad"))
        found = F.lit(None).cast("string") if self.is_fixed else reason
        return rows.select("*", F.struct(text.alias("text")).alias("record"), found.alias("reason"))

    def send_rows(
        self, source: str, partition: int, texts: Sequence[str], first: int = 0, mark: str = ":"
    ) -> None:
        """Rows of a source, one after the other, from its row and sequence ``first`` on."""
        self.send_values(source, partition, [text.encode() for text in texts], first, mark)

    def send_values(
        self, source: str, partition: int, values: Sequence[bytes], first: int = 0, mark: str = ":"
    ) -> None:
        producer = Producer({**self.services.kafka, "linger.ms": 5, "log_level": 0})
        for number, value in enumerate(values, first):
            key = f"{source}{mark}{number}:{number}"
            producer.produce(self.spec.topic.name, value, key.encode(), partition=partition)
        assert producer.flush(30) == 0

    def publish(self) -> StreamWriter:
        """What is on the topic, by a writer of its own."""
        writer = self.writer()
        self.run(writer).stop()
        return writer

    def plan(self, run: str, action: Action, **parts: Any) -> ChangePlan:
        """With the changes that there are."""
        with closing(Lake.open(self.platform)) as lake:
            found = lake.changes(self.spec.table).count if lake.heads(self.spec.table) else 0
        return ChangePlan(run, action, self.spec.topic.name, **parts, changes=found)

    def change(self, plan: ChangePlan, kind: type[Change] = Change) -> None:
        kind(self.spark, self.platform, self.spec, lambda _: self.decode, plan).run()

    def change_of(self, run: str) -> Change:
        plan = self.plan(run, Action.REVERT)
        return Change(self.spark, self.platform, self.spec, lambda _: self.decode, plan)

    def texts(self) -> dict[tuple[int, int], str]:
        rows = self.spark.table(f"{CATALOG}.{self.spec.table}").collect()
        found = {(row["_kafka_partition"], row["_kafka_offset"]): row["text"] for row in rows}
        assert len(found) == len(rows)
        return found

    def quarantined(self) -> list[tuple[int, int, str]]:
        rows = self.spark.table(f"{CATALOG}.{self.spec.quarantine_table}").collect()
        return sorted((row["_kafka_partition"], row["_kafka_offset"], row["reason"]) for row in rows)

    def rejected(self) -> tuple[int, int, str]:
        """Records in quarantine, malformed ones so far, and the newest of these, as supervision sees it."""
        with closing(Lake.open(self.platform)) as lake:
            found = lake.position(self.spec.table, self.spec.quarantine_table)
        assert found is not None
        return found.rejected, found.malformed, found.newest_malformed

    def state(self) -> Any:
        writer = self.writer()
        writer.acquire()
        return writer.state

    def exchanged(self, change_id: str) -> tuple[tuple[int, int], tuple[int, int]]:
        """Numbers of files removed and added: by the change's snapshots, and by its result."""
        with closing(Lake.open(self.platform)) as lake:
            found = change_files.find(lake.table(self.spec.table), change_id)
        assert found is not None
        said = self.result(change_id)
        return (len(found.removed), len(found.added)), (said.files_removed, said.files_added)

    def readable(self, name: str) -> bool:
        """Whether DuckDB reads the whole table, as ``local/run sql`` does."""
        with closing(Lake.open(self.platform)) as lake:
            rows = lake.table(name).scan().to_arrow()
        try:
            duckdb.from_arrow(rows).fetchall()
        except (duckdb.Error, UnicodeDecodeError):
            return False
        return True

    def compared(self, change_id: str) -> tuple[ChangeResult, bool]:
        """A change's result, and whether the rows that stay are the same, as ``verify_change`` does it."""
        with closing(Lake.open(self.platform)) as lake:
            table = lake.table(self.spec.table)
            found, said = change_files.find(table, change_id), self.result(change_id)
            assert found is not None
            before = change_files.digest_without(table, found.removed, said.out)
            after = change_files.digest_without(table, found.added, said.published)
        return said, (before.records, before.digest) == (after.records, after.digest)

    def result(self, change_id: str) -> ChangeResult:
        with closing(Lake.open(self.platform)) as lake:
            document = change_files.document_of(lake.table(self.spec.table), change_id)
        assert document is not None
        return ChangeResult.at(document, partial(read_json, connect(self.platform.s3)))

    def delete(self, where: str, table: str = "") -> None:
        """Rows get lost: by another program, which says nothing about it."""
        self.spark.sql(f"DELETE FROM {CATALOG}.{table or self.spec.table} WHERE {where}")


def offsets(pairs: Mapping[int, tuple[int, int]]) -> OffsetRanges:
    return OffsetRanges.of({partition: [pair] for partition, pair in pairs.items()})


def again(pairs: Mapping[int, tuple[int, int]]) -> dict[str, OffsetRanges]:
    """The parts of a plan by which rows at these offsets are replayed."""
    return {"rows_out": offsets(pairs), "rows_in": offsets(pairs)}


@pytest.fixture(params=[()])
def stream(
    spark: SparkSession, services: Services, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Changing]:
    services.minio, services.postgres  # noqa: B018
    name, root = f"change_{next(_numbers)}", str(tmp_path / "checkpoints")
    made = Changing(spark, services, name, root, request.param)
    yield made
    made.stop()


def test_a_replayed_range_is_there_once_and_the_stream_goes_on_beside_it(stream: Changing) -> None:
    stream.send_rows(A, 0, [f"a{number}" for number in range(10)])
    stream.send_rows(B, 1, [f"b{number}" for number in range(10)])
    writer = stream.writer()
    running = stream.run(writer)
    before = stream.texts()
    stream.change(stream.plan("r1", Action.REPLAY, **again({0: (3, 6)})))
    assert stream.texts() == before
    exchanged, said = stream.exchanged("r1")
    assert exchanged == said == (1, 2)
    with closing(Lake.open(stream.platform)) as lake:
        rewrites = Rewrites.of(lake.table(stream.spec.table).properties)
        found = change_files.find(lake.table(stream.spec.table), "r1")
    # Named by the table in the same commit: its old files are kept until it is verified.
    assert found is not None
    assert rewrites == Rewrites(1, (found.rewrite,))
    assert found.rewrite.startswith("change-r1-")
    # The writer of the stream notices, and continues on top of it.
    stream.send_rows(A, 0, ["a10", "a11"], first=10)
    with pytest.raises(Exception, match="main is"):
        stream.await_end(running)
    stream.run(writer).stop()
    assert stream.texts() == before | {(0, 10): "a10", (0, 11): "a11"}
    assert writer.state.changes.newest == ("r1",)
    assert [summary["kind"] for summary in stream.summaries()][:3] == ["batch", "epoch-start", "change"]


@pytest.mark.exhaustive
def test_a_hole_is_filled_and_its_rows_count_as_loaded(stream: Changing) -> None:
    stream.send_rows(A, 0, [f"a{number}" for number in range(8)])
    stream.publish()
    before = stream.texts()
    stream.delete("_kafka_offset IN (2, 3)")
    assert len(stream.texts()) == 6
    stream.change(stream.plan("r1", Action.REPLAY, **again({0: (0, 8)})))
    assert stream.texts() == before
    # A producer that was believed dead sends them again.
    stream.send_rows(A, 0, ["a2", "a3"], first=2)
    stream.publish()
    assert stream.texts() == before
    assert [(p, o) for p, o, _ in stream.quarantined()] == [(0, 8), (0, 9)]


@pytest.mark.parametrize(
    "stream",
    [(), pytest.param(("truncate(1, text)",), marks=pytest.mark.exhaustive)],
    indirect=True,
)
def test_a_source_is_reverted_and_redone(stream: Changing) -> None:
    stream.send_rows(A, 0, ["a0", "a1"])
    stream.send_rows(B, 0, ["b0", "b1"])
    stream.send_rows(A, 0, ["a2"], first=2)
    stream.publish()
    before = stream.texts()
    stream.change(stream.plan("r1", Action.REVERT, sources_out=(B,)))
    gone = offsets({0: (2, 4)})
    assert stream.texts() == {place: text for place, text in before.items() if text.startswith("a")}
    assert changing_removed(stream) == gone
    stream.change(stream.plan("r2", Action.REDO, rows_in=gone))
    assert stream.texts() == before
    assert not changing_removed(stream)
    assert stream.state().changes.newest == ("r1", "r2")


def changing_removed(stream: Changing) -> OffsetRanges:
    change = stream.change_of("")
    return change.stream.removed_before(change.stream.now()).removed


def test_what_was_quarantined_is_published_when_the_decoder_is_fixed(stream: Changing) -> None:
    stream.send_rows(A, 0, ["a0", "bad1", "a2", "bad3"])
    stream.send_rows(B, 1, ["bad0"])
    stream.publish()
    assert [(p, o) for p, o, _ in stream.quarantined()] == [(0, 1), (0, 3), (1, 0)]
    stream.is_fixed = True
    stream.change(stream.plan("r1", Action.RETRY, rows_in=OffsetRanges.of({0: [(1, 2), (3, 4)]})))
    assert stream.texts() == {(0, 0): "a0", (0, 1): "bad1", (0, 2): "a2", (0, 3): "bad3"}
    assert [(p, o) for p, o, _ in stream.quarantined()] == [(1, 0)]
    assert stream.state().rejected.count == 1
    # Its rows count as loaded.
    stream.is_fixed = True
    stream.send_rows(A, 0, ["bad1"], first=1)
    stream.publish()
    assert len(stream.texts()) == 4


class Headed(Changing):
    """A stream that rejects records with a header ``v``, and when :attr:`is_fixed` takes those whose header
    and time it can read, which are then in the row."""

    def decode(self, rows: DataFrame) -> DataFrame:
        header = F.element_at("headers.value", 1).cast("string")
        said = F.concat_ws("|", F.col("value").cast("string"), header, F.unix_millis("_kafka_timestamp"))
        known = F.lit("2") if self.is_fixed else F.lit("")
        reason = F.when(F.coalesce(header, F.lit("")) > known, F.concat(F.lit("version "), header))
        return rows.select("*", F.struct(said.alias("text")).alias("record"), reason.alias("reason"))

    def send_headed(self, *versions: bytes) -> None:
        producer = Producer({**self.services.kafka, "log_level": 0})
        for number, version in enumerate(versions):
            headers: list[tuple[str, str | bytes | None]] = [
                ("v", version),
                ("more", None),
                ("\u00e4", b"\xff"),
            ]
            value, key = b"\x00body%d" % number, f"{A}:{number}:{number}"
            at = 1_700_000_000_000 + number
            producer.produce(self.spec.topic.name, value, key, 0, headers=headers, timestamp=at)
        assert producer.flush(30) == 0

    def lose(self, until: int) -> None:
        """As retention does, in partition 0."""
        place = TopicPartition(self.spec.topic.name, 0, until)
        (future,) = self._admin.delete_records([place]).values()
        assert future.result(20).low_watermark == until

    def records(self) -> list[dict[str, Any]]:
        rows = self.spark.table(f"{CATALOG}.{self.spec.quarantine_table}").orderBy("_kafka_offset").collect()
        return [
            {k: v for k, v in row.asDict(recursive=True).items() if k != "quarantined_at"} for row in rows
        ]


@pytest.fixture
def headed(spark: SparkSession, services: Services, tmp_path: Path) -> Iterator[Headed]:
    services.minio, services.postgres  # noqa: B018
    made = Headed(spark, services, f"change_{next(_numbers)}", str(tmp_path / "checkpoints"))
    yield made
    made.stop()


def test_a_record_that_the_topic_has_lost_is_read_from_the_quarantine(headed: Headed) -> None:
    headed.send_headed(b"1", b"2", b"3", b"1")
    headed.publish()
    before = headed.records()
    assert [row["reason"] for row in before] == ["version 1", "version 2", "version 3", "version 1"]
    headed.lose(3)
    headed.is_fixed = True
    plan = headed.plan("r1", Action.RETRY, rows_in=offsets({0: (0, 4)}))
    headed.change(plan)
    texts = [f"\0body{n}|{v}|{1_700_000_000_000 + n}" for n, v in ((0, 1), (1, 2), (3, 1))]
    assert headed.texts() == dict(zip([(0, 0), (0, 1), (0, 3)], texts, strict=True))
    # What is rejected again is whole, and can be tried another time.
    assert headed.records() == [before[2]]
    said = headed.result("r1")
    assert (said.recovered, said.published, said.rejected.count) == (
        offsets({0: (0, 3)}), OffsetRanges.of({0: [(0, 2), (3, 4)]}), 1,
    )  # fmt: skip
    assert "3 read from the quarantine" in said.message()


@pytest.mark.exhaustive
def test_a_lost_record_is_the_same_in_another_process_or_the_change_is_not_verified(
    headed: Headed, monkeypatch: pytest.MonkeyPatch
) -> None:
    headed.send_headed(b"1", b"9")
    headed.publish()
    with closing(Lake.open(headed.platform)) as lake:
        before = lake.table(headed.spec.quarantine_table)
        headed.lose(2)
        headed.is_fixed = True
        headed.change(headed.plan("r1", Action.RETRY, rows_in=offsets({0: (0, 2)})))
        location, name = before.metadata_location, headed.spec.quarantine_table
        table, quarantine = lake.table(headed.spec.table), lake.table(name)
        then = lake.table_at(name, location)
        assert recovered.differences(then, table, offsets({0: (0, 1)}), recovered.IDENTITY) == 0
        assert recovered.differences(then, quarantine, offsets({0: (1, 2)}), recovered.RECORD) == 0
        # An offset that is not there, and one with other bytes.
        assert recovered.differences(then, table, offsets({0: (0, 2)}), recovered.IDENTITY) == 1
        headed.spark.sql(f"UPDATE {CATALOG}.{name} SET headers = array_repeat(headers[0], 2)")
        changed = lake.table(name)
        assert recovered.differences(then, changed, offsets({0: (1, 2)}), recovered.RECORD) == 1


@pytest.mark.exhaustive
def test_a_lost_record_that_is_written_with_another_value_is_not_published(
    headed: Headed, monkeypatch: pytest.MonkeyPatch
) -> None:
    headed.send_headed(b"1")
    headed.publish()
    headed.lose(1)
    headed.is_fixed = True
    write = StagedChange.written

    def altered(staged: StagedChange, rows: DataFrame) -> Any:
        return write(staged, rows.withColumn("text", F.lit("?")) if "text" in rows.columns else rows)

    monkeypatch.setattr(StagedChange, "written", altered)
    with raising(RowsDiffer, "1 records were read from the quarantine", "nothing was published"):
        headed.change(headed.plan("r1", Action.RETRY, rows_in=offsets({0: (0, 1)})))
    assert not headed.texts()


def test_a_record_that_neither_has_is_named(headed: Headed) -> None:
    headed.send_headed(b"1", b"2")
    headed.publish()
    headed.lose(2)
    headed.delete("_kafka_offset = 1", headed.spec.quarantine_table)
    headed.is_fixed = True
    with raising(LookupError, "retention has deleted", "0=[1,2)"):
        headed.change(headed.plan("r1", Action.RETRY, rows_in=offsets({0: (0, 2)})))


@pytest.mark.exhaustive
def test_records_that_would_be_rejected_now_are_not_taken_out(stream: Changing) -> None:
    stream.is_fixed = True
    stream.send_rows(A, 0, ["a0", "bad1", "a2"])
    stream.publish()
    before = stream.texts()
    stream.is_fixed = False
    with raising(ChangeRefused, "1 records are published", "offset 1: it is bad", "nothing was changed"):
        stream.change(stream.plan("r1", Action.REPLAY, **again({0: (0, 3)})))
    assert stream.texts() == before
    assert not stream.quarantined()
    assert not stream.state().changes.count


@pytest.mark.exhaustive
def test_lost_records_that_are_rejected_now_are_in_quarantine(stream: Changing) -> None:
    stream.is_fixed = True
    stream.send_rows(A, 0, ["a0", "bad1", "a2"])
    stream.publish()
    stream.is_fixed = False
    stream.delete("_kafka_offset = 1")
    stream.change(stream.plan("r1", Action.REPLAY, **again({0: (0, 3)})))
    assert sorted(stream.texts()) == [(0, 0), (0, 2)]
    assert stream.quarantined() == [(0, 1, "it is bad")]
    assert stream.state().rejected.count == 1


@pytest.mark.exhaustive
def test_a_row_that_is_elsewhere_already_is_rejected(stream: Changing) -> None:
    stream.send_rows(A, 0, ["a0", "a1"])
    stream.send_rows(A, 0, ["a1"], first=1)
    stream.publish()
    assert [(p, o) for p, o, _ in stream.quarantined()] == [(0, 2)]
    stream.change(stream.plan("r1", Action.RETRY, rows_in=offsets({0: (2, 3)})))
    assert len(stream.texts()) == 2
    assert [(p, o) for p, o, _ in stream.quarantined()] == [(0, 2)]


def test_a_corrected_file_is_withheld_and_replaces_the_older_one_in_one_commit(stream: Changing) -> None:
    stream.send_rows(A, 0, ["a0", "a1", "a2"])
    stream.send_rows(B, 0, ["b0", "bad1", "b2"], mark=WITHHELD_MARK)
    stream.publish()
    assert sorted(stream.texts().values()) == ["a0", "a1", "a2"]
    assert stream.quarantined() == [(0, 3, WITHHELD_REASON), (0, 4, "it is bad"), (0, 5, WITHHELD_REASON)]
    coming = OffsetRanges.of({0: [(3, 4), (5, 6)]})
    plan = stream.plan("r1", Action.REPLACE, sources_out=(A,), rows_in=coming, reverts=(A,), withheld=True)
    stream.change(plan)
    assert stream.texts() == {(0, 3): "b0", (0, 5): "b2"}
    assert stream.quarantined() == [(0, 4, "it is bad")]
    state = stream.state()
    assert (state.rejected.count, state.changes.newest) == (1, ("r1",))
    assert [summary["kind"] for summary in stream.summaries()].count("change") == 1
    # Published now: read again as any row.
    stream.change(stream.plan("r2", Action.REPLAY, **again({0: (3, 4)})))
    assert stream.texts() == {(0, 3): "b0", (0, 5): "b2"}
    # A producer that was believed dead sends a copy, and the stream withholds it.
    stream.send_rows(B, 0, ["b0"], mark=WITHHELD_MARK)
    stream.publish()
    assert stream.texts() == {(0, 3): "b0", (0, 5): "b2"}
    stream.change(stream.plan("r3", Action.RETRY, rows_in=offsets({0: (6, 7)})))
    assert stream.texts() == {(0, 3): "b0", (0, 5): "b2"}
    stream.change(stream.plan("r4", Action.REVERT, sources_out=(B,), reverts=(B,)))
    assert not stream.texts()
    stream.change(stream.plan("r5", Action.REDO, rows_in=coming, redoes=("r4",), withheld=True))
    assert stream.texts() == {(0, 3): "b0", (0, 5): "b2"}
    # A lost one comes again, as others of its source are there.
    stream.delete("_kafka_offset = 3")
    stream.change(stream.plan("r6", Action.REPLAY, **again({0: (3, 4)})))
    assert stream.texts() == {(0, 3): "b0", (0, 5): "b2"}


def test_a_load_of_which_all_is_withheld_is_reverted_so_that_its_file_can_be_loaded_again(
    stream: Changing,
) -> None:
    """Else, once the topic has lost its records, the same bytes would never come."""
    stream.send_rows(A, 0, ["a0"])
    stream.send_rows(B, 0, ["b0"], mark=WITHHELD_MARK)
    stream.publish()
    stream.change(stream.plan("r1", Action.REVERT, sources_out=(B,), reverts=(B,)))
    assert sorted(stream.texts().values()) == ["a0"]
    assert stream.state().changes.newest == ("r1",)
    with closing(Lake.open(stream.platform)) as lake:
        changes = lake.changes(stream.spec.table)
    read = partial(read_json, connect(stream.platform.s3))
    assert ChangeResult.at(changes.removed_address, read).reverted_sources == {B}


@pytest.mark.exhaustive
def test_malformed_records_are_told_from_those_that_are_rejected_on_purpose(stream: Changing) -> None:
    stream.send_rows(A, 0, ["a0", "bad1", "a2"])
    stream.send_rows(B, 0, ["b0", "b1"], mark=WITHHELD_MARK)
    writer = stream.writer()
    running = stream.run(writer)
    assert stream.rejected() == (3, 1, "partition 0, offset 1: it is bad")
    # Duplicates, in a batch that rejects nothing else.
    stream.send_rows(A, 0, ["a0"])
    running.query.processAllAvailable()
    assert stream.rejected() == (4, 1, "partition 0, offset 1: it is bad")
    stream.send_rows(B, 1, ["bad0", "bad1"], first=2)
    running.query.processAllAvailable()
    assert stream.rejected() == (6, 3, "partition 1, offset 1: it is bad")
    assert writer.state.rejected.malformed == 3
    running.stop()
    # The next writer's first snapshot does not know those of the newest batch; its first batch does.
    assert stream.publish().state.rejected.malformed == 3
    assert stream.rejected()[:2] == (6, 3)
    stream.is_fixed = True
    stream.change(stream.plan("r1", Action.RETRY, rows_in=offsets({0: (1, 2)})))
    assert stream.rejected()[:2] == (5, 3), "a change lowers what is in quarantine, not what was rejected"
    stream.is_fixed = False
    stream.send_rows("c" * 16, 0, ["bad0"])
    stream.publish()
    assert stream.rejected()[:2] == (6, 4)


@pytest.mark.exhaustive
def test_withheld_records_stay_withheld_when_they_are_replayed_or_tried_again(stream: Changing) -> None:
    stream.send_rows(A, 0, ["a0", "a1"])
    stream.send_rows(B, 0, ["b0", "bad1"], mark=WITHHELD_MARK)
    stream.publish()
    assert stream.quarantined() == [(0, 2, WITHHELD_REASON), (0, 3, "it is bad")]
    # Lost from the quarantine, and pasted into a replay.
    stream.delete("_kafka_offset = 2", stream.spec.quarantine_table)
    stream.change(stream.plan("r1", Action.REPLAY, **again({0: (1, 3)})))
    assert stream.quarantined() == [(0, 2, WITHHELD_REASON), (0, 3, "it is bad")]
    # The decoder takes it now: an action replace finds it by its reason.
    stream.is_fixed = True
    stream.change(stream.plan("r2", Action.RETRY, rows_in=offsets({0: (3, 4)})))
    assert stream.quarantined() == [(0, 2, WITHHELD_REASON), (0, 3, WITHHELD_REASON)]
    assert sorted(stream.texts().values()) == ["a0", "a1"]
    assert stream.state().changes.newest == ("r1", "r2")
    stream.send_rows(A, 0, ["a2"], first=2)
    stream.publish()
    assert sorted(stream.texts().values()) == ["a0", "a1", "a2"]


@pytest.mark.exhaustive
def test_a_change_is_gone_after_both_tables_were_restored_to_before_it(stream: Changing) -> None:
    stream.send_rows(A, 0, ["a0", "a1"])
    stream.send_rows(B, 0, ["b0", "bad1"], mark=WITHHELD_MARK)
    stream.publish()
    tables = stream.spec.table, stream.spec.quarantine_table
    before = {name: stream.metadata_location(name) for name in tables}
    rejected = stream.quarantined()
    coming = {"rows_in": offsets({0: (2, 3)}), "withheld": True}
    stream.change(stream.plan("r1", Action.REPLACE, sources_out=(A,), reverts=(A,), **coming))
    stream.send_rows("c" * 16, 1, ["c0", "bad1"])
    stream.publish()
    assert sorted(stream.texts().values()) == ["b0", "c0"]
    # As docs/operating.md says: what came since is read from the topic again.
    for name, location in before.items():
        stream.restore_catalog(location, name)
    stream.publish()
    assert sorted(stream.texts().values()) == ["a0", "a1", "c0"]
    assert stream.quarantined() == [*rejected, (1, 1, "it is bad")]
    assert not stream.state().changes.count
    stream.change(stream.plan("r2", Action.REPLACE, sources_out=(A,), reverts=(A,), **coming))
    assert sorted(stream.texts().values()) == ["b0", "c0"]
    assert stream.quarantined() == [*rejected[1:], (1, 1, "it is bad")]


@pytest.mark.exhaustive
def test_a_source_is_not_closed_any_more_after_a_restore_to_before_its_change(
    stream: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though what it closed is recorded beside the table, which no restore reaches."""
    monkeypatch.setattr(writer_module, "RECORD_INTERVAL", 1)
    stream.send_rows(A, 0, ["a0", "a1"])
    stream.send_rows(B, 1, ["b0"], mark=WITHHELD_MARK)
    stream.publish()
    before = {
        name: stream.metadata_location(name) for name in (stream.spec.table, stream.spec.quarantine_table)
    }
    parts = {"sources_out": (A,), "reverts": (A,), "closes": (A,), "rows_in": offsets({1: (0, 1)})}
    stream.change(stream.plan("r1", Action.REPLACE, **parts, withheld=True))
    stream.send_rows("c" * 16, 0, ["c0"])
    stream.publish()
    assert sorted(stream.texts().values()) == ["b0", "c0"]
    for name, location in before.items():
        stream.restore_catalog(location, name)
    stream.publish()
    stream.send_rows(A, 0, ["a2"], first=2)
    stream.publish()
    assert sorted(stream.texts().values()) == ["a0", "a1", "a2", "c0"]


def as_before(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Without a look at the values, for a text of the file."""
    named = dict(zip(rows.schema.names, rows.columns, strict=True))
    said = named["reason"].cast(pa.binary()).to_pylist()
    named["reason"] = pa.array([one and one.decode(errors="replace") for one in said], pa.string())
    return pa.RecordBatch.from_pydict(named | identity(named["key"]).columns(named["_kafka_offset"]))


def gathered_as_before(parts: Iterable[RejectedPart], *more: Any) -> list[DataFile]:
    """With the reason of offset 3 as it was said."""

    def spoiled(few: bytes) -> bytes:
        rows = pa.ipc.open_stream(few).read_all().combine_chunks()
        raw = [
            b"\xff" if at == 3 else text.encode()
            for at, text in zip(rows["_kafka_offset"].to_pylist(), rows["reason"].to_pylist(), strict=True)
        ]
        said = pa.array(raw, pa.binary()).view(pa.string())
        rows = rows.set_column(rows.schema.get_field_index("reason"), "reason", said)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows)
        return bytes(sink.getvalue())

    return gathered([replace(part, few=spoiled(part.few)) for part in parts if part.few], *more)


def test_single_records_go_out_of_table_and_quarantine_that_no_reader_can_read(
    stream: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.send_values(A, 0, [b"a0", b"\xff1", b"bad2", b"bad\xff", b"a4"])
    stream.send_rows(B, 1, ["b0"])
    with monkeypatch.context() as earlier:
        # They were published before such records were rejected, and reasons printable.
        earlier.setattr(own_decode, "assessed", as_before)
        earlier.setattr(batch, "gathered", gathered_as_before)
        stream.publish()
    assert stream.readable(stream.spec.table) is stream.readable(stream.spec.quarantine_table) is False
    going = OffsetRanges.of({0: [(1, 2), (3, 4)]})
    stream.change(stream.plan("r1", Action.REMOVE, rows_out=going))
    assert stream.texts() == {(0, 0): "a0", (0, 4): "a4", (1, 0): "b0"}
    assert stream.quarantined() == [(0, 2, "it is bad")]
    assert stream.readable(stream.spec.table) is stream.readable(stream.spec.quarantine_table) is True
    assert stream.state().rejected.count == 1
    result, kept = stream.compared("r1")
    assert kept
    assert (result.out, result.rows_out, result.removed) == (going, 2, going)
    assert result.records == [RemovedRecord(0, 1, A, 1), RemovedRecord(0, 3, A, 3)]
    # A producer that was believed dead sends a copy of what went.
    stream.send_rows(A, 0, ["a1"], first=1)
    stream.publish()
    assert stream.texts() == {(0, 0): "a0", (0, 4): "a4", (1, 0): "b0"}
    # Nor does the copy come that is in quarantine by now.
    stream.change(stream.plan("copy", Action.REPLAY, **again({0: (4, 6)})))
    assert stream.texts() == {(0, 0): "a0", (0, 4): "a4", (1, 0): "b0"}
    assert [place[:2] for place in stream.quarantined()] == [(0, 2), (0, 5)]
    # One of the quarantine alone; and back, as it is decoded by now.
    stream.change(stream.plan("r2", Action.REMOVE, rows_out=offsets({0: (2, 3)})))
    assert [place[:2] for place in stream.quarantined()] == [(0, 5)]
    stream.is_fixed = True
    stream.change(stream.plan("r3", Action.REDO, rows_in=offsets({0: (2, 3)})))
    assert stream.texts() == {(0, 0): "a0", (0, 2): "bad2", (0, 4): "a4", (1, 0): "b0"}
    assert changing_removed(stream) == going


@pytest.mark.exhaustive
def test_a_revert_of_offsets_that_a_restored_catalog_does_not_have_is_refused(stream: Changing) -> None:
    stream.send_rows(A, 0, ["a0", "a1"])
    stream.publish()
    before = stream.metadata_location(stream.spec.table)
    stream.send_rows(B, 0, ["b0", "b1"])
    stream.publish()
    # As of a feed's load: by its offsets.
    plan = stream.plan("r1", Action.REVERT, rows_out=offsets({0: (2, 4)}), reverts=(B,))
    stream.restore_catalog(before, stream.spec.table)
    with raising(ChangeRefused, "0=[2,4) is not published by the stream", "once the stream has published"):
        stream.change(plan)
    assert not stream.state().changes.count
    stream.publish()
    stream.change(plan)
    assert sorted(stream.texts().values()) == ["a0", "a1"]


def meanwhile(do: Callable[[], None]) -> type[Change]:
    """A change before whose first commit something happens."""

    class Meanwhile(Change):
        done = False

        def _publish(self, *parts: Any) -> None:
            if not self.done:
                self.done = True
                do()
            super()._publish(*parts)

    return Meanwhile


def compact_own(stream: Changing) -> None:
    assert compact(stream.spark, stream.spec.table, date(2026, 11, 1))


def rewrite_foreign(stream: Changing) -> None:
    """As a managed catalog does by itself."""
    stream.spark.sql(
        f"CALL {CATALOG}.system.rewrite_data_files(table => '{stream.spec.table}', "
        "options => map('rewrite-all', 'true'))"
    ).collect()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "rewrite", [compact_own, pytest.param(rewrite_foreign, marks=pytest.mark.exhaustive)]
)
def test_batches_and_compactions_come_between(stream: Changing, rewrite: Callable[[Changing], None]) -> None:
    for number in range(6):
        stream.send_rows(A, 0, [f"a{number}"], first=number)
        stream.send_rows(B, 1, [f"b{number}"], first=number)
        stream.publish()
    before = stream.texts()

    def between() -> None:
        stream.send_rows(A, 0, ["a6"], first=6)
        stream.publish()
        rewrite(stream)

    stream.change(stream.plan("r1", Action.REPLAY, **again({0: (0, 3)})), meanwhile(between))
    assert stream.texts() == before | {(0, 6): "a6"}
    assert stream.state().changes.newest == ("r1",)


@pytest.mark.exhaustive
def test_files_say_which_commit_added_them_also_when_it_has_expired(
    stream: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg's own batches, changes, compactions and rewritten manifests, and another program's."""
    monkeypatch.setattr(writer_module, "RECORD_INTERVAL", 2)
    monkeypatch.setattr(writer_module, "KEEP_SNAPSHOTS", 3)
    monkeypatch.setattr(writer_lease, "EXPIRY_INTERVAL", 2)
    rows = count()

    def publish(batches: int) -> None:
        running = stream.run(stream.writer())
        for _ in range(batches):
            number = next(rows)
            stream.send_rows(A, 0, [f"a{number}"], first=number)
            running.query.processAllAvailable()
        running.stop()

    def foreign(earlier: Verified) -> dict[int | None, list[str]]:
        with closing(Lake.open(stream.platform)) as lake:
            table = lake.table(stream.spec.table)
            diff = table_diff.diff(table, None)
            assert diff is not None
            files = ForeignFiles(
                Ledger(stream.services.minio, "s3://warehouse/ledger", stream.spec.name),
                lambda: BatchLog.open(connect(stream.platform.s3), table),
            )
            expired = {one.snapshot_id for one in diff.added} - {
                snapshot.snapshot_id for snapshot in table.metadata.snapshots
            }
            assert len(expired) > 4, "no snapshot has expired: nothing was tested"
            return files.since(table, diff.added, earlier)

    publish(1)
    with closing(Lake.open(stream.platform)) as lake:
        snapshot = lake.table(stream.spec.table).current_snapshot()
        assert snapshot is not None
        at = snapshot.snapshot_id, snapshot.sequence_number or 0, snapshot.timestamp_ms
    earlier = Verified(stream.spec.table, "", *at, 0, "", None, None, {}, OffsetSet(), OffsetSet())
    publish(4)
    assert compact(stream.spark, stream.spec.table, date(2026, 11, 1))
    publish(5)
    stream.change(stream.plan("r1", Action.REPLAY, **again({0: (6, 7)})))
    publish(6)
    assert foreign(earlier) == {}
    stream.spark.sql(f"UPDATE {CATALOG}.{stream.spec.table} SET text = 'x' WHERE _kafka_offset = 9")
    updated = next(IcebergTable(stream.spark, stream.spec.table).snapshots(MAIN)).id
    assert [*foreign(earlier)] == [updated]
    publish(6)
    assert updated not in [one.id for one in IcebergTable(stream.spark, stream.spec.table).snapshots(MAIN)]
    assert [(number, len(paths)) for number, paths in foreign(earlier).items()] == [(updated, 1)]


class Counted:
    """A function, and how often it was called."""

    def __init__(self, call: Callable[..., Any], before: Callable[[], None] = lambda: None) -> None:
        self.call, self.before, self.calls = call, before, list[Any]()

    def __call__(self, *parts: Any) -> Any:
        self.calls.append(parts)
        self.before()
        return self.call(*parts)

    def method(self) -> Callable[..., Any]:
        return lambda *parts: self(*parts)


@pytest.mark.exhaustive
def test_a_change_of_a_stream_that_rejects_with_every_batch_reads_and_writes_once(
    stream: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And health counts what it takes out of the quarantine."""
    stream.send_rows(A, 0, ["bad0", "a1", "bad2", "a3"])
    stream.publish()
    numbers = count(4)

    def between() -> None:
        if len(published.calls) <= 3:
            stream.send_rows(A, 0, [f"bad{(number := next(numbers))}"], first=number)
            stream.publish()

    published = Counted(StagedChange.publish, between)
    records, written = Counted(leaving.removed_records), Counted(StagedChange.written)
    monkeypatch.setattr(StagedChange, "publish", published.method())
    monkeypatch.setattr(StagedChange, "written", written.method())
    monkeypatch.setattr(leaving, "removed_records", records)
    stream.change(stream.plan("r1", Action.REMOVE, rows_out=offsets({0: (0, 2)})))
    assert len(published.calls) == 4
    assert stream.texts() == {(0, 3): "a3"}
    assert [place[1] for place in stream.quarantined()] == [2, 4, 5, 6]
    assert stream.result("r1").records == [RemovedRecord(0, 1, A, 1), RemovedRecord(0, 0, A, 0)]
    assert len(records.calls) == 2, "the table's and the quarantine's"
    names = [parts[0]._name for parts in written.calls]
    assert names == [stream.spec.table, stream.spec.quarantine_table], "the rows that stay"
    with closing(Lake.open(stream.platform)) as lake:
        found = lake.position(stream.spec.table, stream.spec.quarantine_table)
    assert found is not None
    assert (found.rejected, found.malformed) == (4, 5)
    assert found.counters[-1].since(found.counters[0]) == Share(4, 6)


@pytest.mark.exhaustive
def test_a_change_that_never_comes_first_says_to_stop_the_stream(
    stream: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.send_rows(A, 0, ["a0", "a1"])
    stream.publish()
    monkeypatch.setattr(change, "MAX_PUBLISHES", 2)
    monkeypatch.setattr(change, "MAX_STAGINGS", 1)
    monkeypatch.setattr(StagedChange, "publish", lambda *_: False)
    with raising(CommitConflict, f"{stream.spec.name}_stream with action stop", "clear apply_change"):
        stream.change(stream.plan("r1", Action.REPLAY, **again({0: (0, 1)})))


@pytest.mark.exhaustive
def test_a_published_change_that_neither_a_snapshot_nor_the_newest_names_is_not_made_again(
    stream: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a running stream the snapshots expire that are between it and the newest."""
    monkeypatch.setattr(named_changes, "KEEP_IDS", 1)
    monkeypatch.setattr(writer_module, "RECORD_INTERVAL", 1)

    def publish(number: int) -> None:
        stream.send_rows(A, 0, [f"a{number}"], first=number)
        stream.publish()

    publish(0)
    first = stream.plan("r1", Action.REPLAY, **again({0: (0, 1)}))
    stream.change(first)
    publish(1)
    stream.change(stream.plan("r2", Action.REPLAY, **again({0: (0, 1)})))
    # Rows of a batch are recorded with a later one, and do not need its snapshot then.
    running = stream.run(stream.writer())
    for number in range(2, 5):
        stream.send_rows(A, 0, [f"a{number}"], first=number)
        running.query.processAllAvailable()
    running.stop()
    table = IcebergTable(stream.spark, stream.spec.table)
    kept = list(table.snapshots(MAIN))
    changes = [one.summary.get(CHANGE_ID) for one in kept]
    gap = kept[len(changes) - changes[::-1].index("r2") : changes.index("r1")]
    table.change_refs({MAIN: table.head(MAIN)}, {}, [one.id for one in gap])
    table.refresh()
    assert "r1" not in [one.summary.get(CHANGE_ID) for one in table.snapshots(MAIN)]
    stream.change(first)
    found = stream.change_of("r1").stream.now().changes
    assert (found.count, found.newest) == (2, ("r2",))


def test_of_two_changes_at_once_one_is_made(stream: Changing) -> None:
    stream.send_rows(A, 0, ["bad0", "a1"])
    stream.publish()
    stream.is_fixed = True
    plans = [stream.plan(run, Action.RETRY, rows_in=offsets({0: (0, 1)})) for run in ("r1", "r2")]
    with raising(ChangeRefused, "1 changes are published", "planned after 0", "trigger a new run"):
        stream.change(plans[0], meanwhile(lambda: stream.change(plans[1])))
    assert stream.texts() == {(0, 0): "bad0", (0, 1): "a1"}
    assert stream.state().changes.newest == ("r2",)


@pytest.mark.exhaustive
def test_a_copy_that_the_stream_publishes_meanwhile_is_not_doubled(stream: Changing) -> None:
    stream.send_rows(A, 0, ["bad0", "a1"])
    stream.publish()
    stream.is_fixed = True
    plan = stream.plan("r1", Action.RETRY, rows_in=offsets({0: (0, 1)}))

    def between() -> None:
        # A producer that was believed dead sends it; after a failover, a rejected row is not known.
        stream.send_rows(A, 0, ["bad0"])
        stream.publish()

    stream.change(plan, meanwhile(between))
    assert stream.texts() == {(0, 1): "a1", (0, 2): "bad0"}
    assert [(p, o) for p, o, _ in stream.quarantined()] == [(0, 0)]


@pytest.mark.exhaustive
def test_rows_of_a_reverted_source_that_come_meanwhile_go_too(stream: Changing) -> None:
    stream.send_rows(A, 0, ["a0"])
    stream.send_rows(B, 0, ["b0", "b1"])
    stream.publish()

    def between() -> None:
        stream.send_rows(B, 0, ["b2"], first=2)
        stream.publish()

    stream.change(stream.plan("r1", Action.REVERT, sources_out=(B,), reverts=(B,)), meanwhile(between))
    assert stream.texts() == {(0, 0): "a0"}
    assert changing_removed(stream) == offsets({0: (1, 4)})


@pytest.mark.exhaustive
def test_the_quarantine_is_not_compacted_while_a_change_is_staged_there(
    stream: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        stream.send_rows(A, 0, [f"a{number}", "bad1", "bad2"], first=3 * number)
        stream.publish()
    stream.is_fixed = True
    publish, quarantine = StagedChange.publish, stream.spec.quarantine_table

    def between(staged: StagedChange, *parts: Any) -> bool:
        with raising(CommitConflict, "exchanges files, of a change that is not published yet"):
            compact(stream.spark, quarantine, date(2026, 11, 1), ())
        return publish(staged, *parts)

    monkeypatch.setattr(StagedChange, "publish", between)
    stream.change(stream.plan("r1", Action.RETRY, rows_in=offsets({0: (1, 2)})))
    assert len(stream.texts()) == 7
    assert (0, 1, "it is bad") not in stream.quarantined()
    assert stream.state().rejected.count == len(stream.quarantined()) == 11
    assert compact(stream.spark, quarantine, date(2026, 11, 1), ())


@pytest.mark.exhaustive
def test_a_quarantine_is_not_compacted_of_which_a_change_removes_whole_files(
    stream: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        stream.send_rows(A, 0, [f"bad{number}"], first=number)
        stream.publish()
    stream.is_fixed = True
    quarantine = stream.spec.quarantine_table
    publish = StagedChange.publish

    def between(*parts: Any) -> bool:
        # The change's branch there removes two files and adds none: Iceberg calls that a delete.
        with raising(CommitConflict, "of a change that is not published yet"):
            compact(stream.spark, quarantine, date(2026, 11, 1), ())
        return publish(*parts)

    monkeypatch.setattr(StagedChange, "publish", between)
    stream.change(stream.plan("r1", Action.RETRY, rows_in=offsets({0: (0, 2)})))
    assert len(stream.texts()) == 2
    assert [offset for _, offset, _ in stream.quarantined()] == [2, 3, 4, 5, 6]


def test_killed_before_or_after_its_commit_it_is_made_once(
    stream: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.send_rows(A, 0, ["a0", "bad1", "a2"])
    stream.publish()
    stream.is_fixed = True
    plan = stream.plan("r1", Action.RETRY, rows_in=offsets({0: (1, 2)}))
    publish = StagedChange.publish

    def killed_before(*parts: Any) -> bool:
        raise KeyboardInterrupt

    def killed_after(*parts: Any) -> bool:
        assert publish(*parts)
        raise KeyboardInterrupt

    for dies in (killed_before, killed_after):
        monkeypatch.setattr(StagedChange, "publish", dies)
        with pytest.raises(KeyboardInterrupt):
            stream.change(plan)
    assert len(stream.texts()) == 3
    assert len(stream.quarantined()) == 1
    monkeypatch.setattr(StagedChange, "publish", publish)
    stream.change(plan)
    assert len(stream.texts()) == 3
    assert not stream.quarantined()
    assert stream.state().changes.newest == ("r1",)
    assert not stream.state().rejected.count


@pytest.mark.exhaustive
def test_an_attempt_that_was_suspended_before_its_publish_does_not_alter_the_result(
    stream: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It finds the quarantine without the records that its other attempt took out, and publishes nothing."""
    stream.send_rows(A, 0, ["a0", "bad1", "a2"])
    stream.publish()
    plan = stream.plan("r1", Action.REMOVE, rows_out=offsets({0: (0, 2)}))
    stage = ChangeQuarantine.stage_change

    def suspended(quarantine: ChangeQuarantine, *parts: Any) -> Any:
        monkeypatch.setattr(ChangeQuarantine, "stage_change", stage)
        stream.change(plan)
        return stage(quarantine, *parts)

    monkeypatch.setattr(ChangeQuarantine, "stage_change", suspended)
    stream.change(plan)
    assert stream.texts() == {(0, 2): "a2"}
    assert not stream.quarantined()
    assert stream.state().changes.newest == ("r1",)
    assert stream.result("r1").removed == plan.rows_out


@pytest.mark.exhaustive
def test_of_a_source_that_was_sent_in_part_and_replaced_no_later_row_is_published(stream: Changing) -> None:
    """Its producer was believed dead, and sends the rest after the change."""
    stream.send_rows(A, 0, ["a0", "a1", "a2"])
    stream.send_rows(B, 1, [f"b{number}" for number in range(5)], mark=WITHHELD_MARK)
    stream.publish()
    assert sorted(stream.texts().values()) == ["a0", "a1", "a2"]
    parts = {"sources_out": (A,), "reverts": (A,), "closes": (A,), "rows_in": offsets({1: (0, 5)})}
    stream.change(stream.plan("r1", Action.REPLACE, **parts, withheld=True))
    corrected = {(1, number): f"b{number}" for number in range(5)}
    assert stream.texts() == corrected
    # Also for later writers, of which each reads what earlier ones have published and recorded.
    for number in range(3):
        stream.send_rows(A, 0, [f"a{number + 3}"], first=number + 3)
        stream.publish()
        assert stream.texts() == corrected
    later = [(p, o) for p, o, reason in stream.quarantined() if reason.startswith("duplicate: ")]
    assert later == [(0, 3), (0, 4), (0, 5)]
