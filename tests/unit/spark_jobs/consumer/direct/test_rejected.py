"""Rejected records, from tasks to the files of the quarantine."""

from __future__ import annotations

import io
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from sluice.core.decoding.decoder import OwnRecords
from sluice.core.offsets.quarantine import CONSUMER_STAGE, DUPLICATE, WITHHELD_REASON
from spark_jobs.common.consumer.direct import rejected
from spark_jobs.common.consumer.direct.piece import rows_of
from spark_jobs.common.consumer.direct.rejected import Newest, RejectedPart, RejectedRows, gathered
from spark_jobs.common.lake.data_files.partitioned import Layout
from tests.support.direct_batches import QUARANTINE
from tests.support.memory_s3 import MemoryS3
from tests.support.numbered import WHEN, NumberedDecoder, piece

FOLDER = "s3://lake/raw/q/data/"
LAYOUT = Layout(QUARANTINE, FOLDER)


def bad(first: int, *reasons: str, partition: int = 0, at: datetime | None = WHEN) -> pa.RecordBatch:
    """Rejected records from an offset on, for these reasons."""
    given = piece([(None, b"x")] * len(reasons), first)
    found = rows_of(given, partition, OwnRecords(NumberedDecoder())).bad
    assert found is not None
    columns = {name: found.column(name) for name in found.schema.names}
    times = pa.array([at] * len(reasons), pa.timestamp("us", tz="UTC"))
    return pa.RecordBatch.from_pydict(
        columns | {"reason": pa.array(reasons, pa.string()), "_kafka_timestamp": times}
    )


def part(s3: MemoryS3, *pieces: pa.RecordBatch, name: str = "task.parquet") -> RejectedPart:
    with RejectedRows(LAYOUT, s3.as_client(), name) as rows:
        for one in pieces:
            rows.add(one)
        return rows.upload()


def read(s3: MemoryS3, uri: str) -> list[dict[str, Any]]:
    body = s3.objects["lake", uri.removeprefix("s3://lake/")]
    return parquet.read_table(io.BytesIO(body)).to_pylist()


def test_nothing_rejected_is_nothing() -> None:
    s3 = MemoryS3()
    assert part(s3) == part(s3, bad(0, "x").slice(0, 0)) == RejectedPart()
    assert gathered([RejectedPart()], LAYOUT, s3.as_client(), "g.parquet") == []
    assert not s3.objects


def test_few_records_go_to_the_driver() -> None:
    s3 = MemoryS3()
    found = part(s3, bad(5, "one", "two\nlines"), bad(9, "three"))
    assert (found.count, found.file, s3.objects) == (3, None, {})
    rows = pa.ipc.open_stream(pickle.loads(pickle.dumps(found)).few).read_all()  # noqa: S301
    assert rows["_kafka_offset"].to_pylist() == [5, 6, 9]
    assert rows["reason"].to_pylist() == ["one", "two\\u000alines", "three"], "as every reader can show it"
    assert set(rows["stage"].to_pylist()) == {CONSUMER_STAGE}
    assert all(datetime.now(UTC) - at < timedelta(minutes=5) for at in rows["quarantined_at"].to_pylist())


def test_many_records_are_a_file_of_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those too that waited as few."""
    s3 = MemoryS3()
    first, second, third = bad(5, "one", "two"), bad(9, "three"), bad(20, "four")
    monkeypatch.setattr(rejected, "FEW_BYTES", rejected._staged(first).nbytes)
    found = part(s3, first, second, third)
    assert (found.count, found.malformed, found.few) == (4, 4, b"")
    assert found.file is not None
    assert (found.file.uri, found.file.records) == (f"{FOLDER}task.parquet", 4)
    assert [row["_kafka_offset"] for row in read(s3, found.file.uri)] == [5, 6, 9, 20]
    assert part(s3, first).file is None, "as many bytes as are few"


def test_records_that_are_rejected_on_purpose_are_not_malformed() -> None:
    later = WHEN + timedelta(days=1)
    on_purpose = bad(50, f"{DUPLICATE} this row", WITHHELD_REASON, at=later)
    found = part(MemoryS3(), bad(5, "x", f"{DUPLICATE} of 3", "is no duplicate:"), on_purpose)
    assert (found.count, found.malformed) == (5, 2)
    assert found.newest == Newest(WHEN, 0, 7, "is no duplicate:")
    assert part(MemoryS3(), on_purpose).newest is None


def test_the_newest_malformed_record_is_that_of_the_latest_time() -> None:
    later = WHEN + timedelta(seconds=1)
    pieces = [bad(5, "old"), bad(1, "new", partition=3, at=later), bad(90, "unreadable time", at=None)]
    found = part(MemoryS3(), *pieces).newest
    assert found == Newest(later, 3, 1, "new")
    assert str(found) == "partition 3, offset 1: new"
    assert str(Newest(WHEN, 0, 1, "two\n lines")).endswith("two lines")
    without = part(MemoryS3(), pieces[2]).newest
    assert without is not None
    assert without.offset == 90, "one without a time is better than none"


def test_the_few_of_all_tasks_are_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    s3 = MemoryS3()
    parts = [part(s3, bad(5, "one")), RejectedPart(), part(s3, bad(7, "two", partition=1))]
    monkeypatch.setattr(rejected, "FEW_BYTES", 0)
    parts.append(part(s3, bad(9, "three")))
    files = gathered(iter(parts), LAYOUT, s3.as_client(), "gathered.parquet")
    assert [file.uri for file in files] == [f"{FOLDER}task.parquet", f"{FOLDER}gathered.parquet"]
    rows = read(s3, files[1].uri)
    assert [(row["_kafka_partition"], row["_kafka_offset"], row["reason"]) for row in rows] == [
        (0, 5, "one"), (1, 7, "two")
    ]  # fmt: skip
    assert [row["value"] for row in rows] == [b"x"] * 2
    held = [file.offsets.to_pydict() for file in files if file.offsets is not None]
    assert held == [
        {"_kafka_partition": [0], "_kafka_offset": [9]},
        {"_kafka_partition": [0, 1], "_kafka_offset": [5, 7]},
    ], "read back before they are uploaded, since bounds tell no gaps"
    assert gathered(parts[3:], LAYOUT, s3.as_client(), "other.parquet") == files[:1]
    assert ("lake", "raw/q/data/other.parquet") not in s3.objects
