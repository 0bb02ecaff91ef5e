"""Rows between the tasks that read them and those that write their partitions; no Spark."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from spark_jobs.common.consumer.direct import shuffle
from spark_jobs.common.consumer.direct import task as tasks
from spark_jobs.common.consumer.direct.rejected import RejectedPart
from spark_jobs.common.consumer.direct.shuffle import sent, written
from spark_jobs.common.consumer.direct.task import Result
from tests.support.direct_batches import Ranges, account, job, task
from tests.support.memory_s3 import MemoryS3
from tests.support.numbered import OTHER, SOURCE, key, piece

WRITERS = 3
LETTERS = "abcdefg"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> MemoryS3:
    found = MemoryS3()
    monkeypatch.setattr(tasks, "client", lambda _: found.as_client())
    return found


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch, s3: MemoryS3) -> None:
    """Two partitions, each with rows of all letters in two pieces, and of two sources."""
    pieces = {
        partition: [
            piece(
                [(key(n, n + first, source), f"{n}:{letter}".encode()) for n, letter in enumerate(LETTERS)],
                first,
            )
            for first, source in ((0, SOURCE), (100, OTHER))
        ]
        for partition in (0, 1)
    }
    monkeypatch.setattr(tasks, "reader", lambda _: Ranges(pieces))


def by_writer(*partitions: int) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {number: [] for number in range(WRITERS)}
    for partition in partitions:
        for number, one in sent(job("text"), task(partition), WRITERS):
            found[number].append(one)
    return found


@pytest.mark.usefixtures("reading")
def test_a_partition_goes_to_the_same_writer_from_all_tasks() -> None:
    places: dict[Any, set[int]] = {}
    for number, those in by_writer(0, 1).items():
        for one in those:
            if not isinstance(one, Result):
                places.setdefault(one[0], set()).add(number)
    assert set(places) == {(letter,) for letter in LETTERS}
    assert all(len(numbers) == 1 for numbers in places.values())
    assert len(set.union(*places.values())) > 1, "more than one writes"


@pytest.mark.usefixtures("reading")
def test_rows_that_wait_are_sent_together_and_when_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    def streams() -> list[int]:
        rows = [one[1] for _, one in sent(job("text"), task(0), WRITERS) if not isinstance(one, Result)]
        return [pa.ipc.open_stream(one).read_all().num_rows for one in rows]

    assert streams() == [2] * len(LETTERS)
    monkeypatch.setattr(shuffle, "WAITING_BYTES", 1)
    assert streams() == [1] * len(LETTERS) * 2


@pytest.mark.usefixtures("reading")
def test_writers_write_all_rows_in_one_file_of_each_partition(s3: MemoryS3) -> None:
    results = [result for those in by_writer(0, 1).values() for result in written(job("text"), those)]
    files = [file for result in results for file in result.files]
    assert sorted(file.partition for file in files) == [(("text", letter),) for letter in LETTERS]
    rows = [
        (row["_kafka_partition"], row["_kafka_offset"], row["_source_id"], row["text"], file.partition[0][1])
        for file in files
        for row in parquet.read_table(
            io.BytesIO(s3.objects["lake", file.uri.removeprefix("s3://lake/")])
        ).to_pylist()
    ]
    assert sorted(rows) == sorted(
        (partition, first + n, source, letter, letter)
        for partition in (0, 1)
        for first, source in ((0, SOURCE), (100, OTHER))
        for n, letter in enumerate(LETTERS)
    )
    seen = [result for result in results if result.accounts]
    assert [[partition for partition, _ in result.accounts] for result in seen] == [[0], [1]]
    assert all(not result.files and result.runs for result in seen), "what a task saw passes as it is"


@pytest.mark.usefixtures("s3")
def test_without_a_good_row_only_what_was_seen_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "reader", lambda _: Ranges({0: [piece([(None, b"x")], 0)]}))
    those = [one for _, one in sent(job("text"), task(0), WRITERS)]
    (result,) = written(job("text"), those)
    assert (result.files, result.rejected.count, result.accounts) == ((), 1, ((0, account(0, 1)),))


@pytest.mark.usefixtures("s3")
def test_a_writer_without_rows_passes_results_on() -> None:
    seen = Result((), RejectedPart(), (), ((4, account(0, 1)),))
    assert list(written(job("text"), [seen, seen])) == [seen, seen]
    assert list(written(job("text"), [])) == []
