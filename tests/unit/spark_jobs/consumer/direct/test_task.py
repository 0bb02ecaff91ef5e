"""What a task reads and writes, of pieces that are given."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from sluice.core.decoding.others.records import OthersRecords
from sluice.core.offsets.deduplication import LoadedRows, Run
from sluice.core.offsets.ranges import IntervalSet, OffsetRanges
from spark_jobs.common.consumer.direct import rejected
from spark_jobs.common.consumer.direct import task as tasks
from spark_jobs.common.consumer.direct.task import Duplicates, Reading
from spark_jobs.common.lake.data_files.fitting import LosesColumns
from tests.support.direct_batches import Ranges, account, job, task
from tests.support.memory_s3 import MemoryS3
from tests.support.numbered import SOURCE, NumberedDecoder, key, piece
from tests.support.raising import raising

# Its number among the task's files, and the attempt's own.
NAME = re.compile(r"s3://lake/raw/t/data/00000-[0-9a-f-]{36}\.parquet")


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> MemoryS3:
    found = MemoryS3()
    monkeypatch.setattr(tasks, "client", lambda _: found.as_client())
    return found


def test_a_task_writes_good_rows_and_says_what_it_saw(monkeypatch: pytest.MonkeyPatch, s3: MemoryS3) -> None:
    first, second = [(key(n, n), b"%d:a" % n) for n in range(3)], [(key(3, 3), b"x"), (key(4, 4), b"4:a")]
    ranges = Ranges({0: [piece(first, 0), piece(second, 3)], 1: [piece([(None, b"9:b")], 50)]})
    monkeypatch.setattr(tasks, "reader", lambda _: ranges)
    found = tasks.run(job(), task(0, 1))
    (file,) = found.files
    assert NAME.fullmatch(file.uri)
    assert file.records == 5
    assert (found.rejected.count, found.rejected.malformed) == (1, 1)
    assert found.runs == (Run(SOURCE, 0, 0, 5, 5),), "over pieces, the rejected row included"
    assert found.accounts == ((0, account(0, 5)), (1, account(50, 51)))
    assert len(s3.objects) == 1


def test_all_partitions_are_asked_for_before_one_is_read(
    monkeypatch: pytest.MonkeyPatch, s3: MemoryS3
) -> None:
    """But of two parts of one partition only the first: their requests are one behind the other."""
    ranges = Ranges({n: [piece([(None, b"1:a")], n)] for n in (0, 1)})
    monkeypatch.setattr(tasks, "reader", lambda _: ranges)
    tasks.run(job(), task(0, 0, 1))
    assert ranges.events == [("ask", 0), ("ask", 1), ("read", 0), ("read", 0), ("read", 1)]


def test_an_attempt_overwrites_nothing_of_another(monkeypatch: pytest.MonkeyPatch, s3: MemoryS3) -> None:
    """One that was lost may go on beside the one that took its place."""
    monkeypatch.setattr(tasks, "reader", lambda _: Ranges({0: [piece([(None, b"1:a"), (None, b"x")], 0)]}))
    monkeypatch.setattr(rejected, "FEW_BYTES", 0)
    results = [tasks.run(job(), task(0)) for _ in range(2)]
    uris = [file.uri for result in results for file in (*result.files, result.rejected.file) if file]
    assert len(set(uris)) == len(uris) == len(s3.objects) == 4


def test_the_offsets_of_a_file_of_several_parts_come_with_it(
    monkeypatch: pytest.MonkeyPatch, s3: MemoryS3
) -> None:
    pieces = {n: [piece([(None, b"1:a"), (None, b"2:b")], 10 * n)] for n in (0, 1)}
    monkeypatch.setattr(tasks, "reader", lambda _: Ranges(pieces))

    def offsets(*by: str, parts: tuple[int, ...]) -> list[Any]:
        files = pickle.loads(pickle.dumps(tasks.run(job(*by), task(*parts)).files))  # noqa: S301
        return [file.offsets and [tuple(row.values()) for row in file.offsets.to_pylist()] for file in files]

    assert offsets(parts=(0,)) == [None]
    assert offsets(parts=(0, 1)) == [[(0, 0), (0, 1), (1, 10), (1, 11)]]
    assert offsets("text", parts=(0, 1)) == [[(0, 0), (1, 10)], [(0, 1), (1, 11)]]


def test_a_table_that_lost_a_column_stops_the_batch(monkeypatch: pytest.MonkeyPatch, s3: MemoryS3) -> None:
    monkeypatch.setattr(tasks, "reader", lambda _: Ranges({0: [piece([(None, b"1:a")], 0)]}))
    given = job()
    lacking = given.table.schema.remove(given.table.schema.get_field_index("text"))
    with raising(LosesColumns, "lacks text,"):
        tasks.run(replace(given, table=replace(given.table, schema=lacking)), task(0))
    assert not s3.objects


def test_a_task_without_a_good_row_writes_no_file(monkeypatch: pytest.MonkeyPatch, s3: MemoryS3) -> None:
    ranges = Ranges({0: [piece([(None, None)], 0)]})
    monkeypatch.setattr(tasks, "reader", lambda _: ranges)
    for by in ((), ("text",)):
        found = tasks.run(job(*by), task(0))
        assert (found.files, found.rejected.count) == ((), 1)
    assert not s3.objects


def test_duplicates_are_found_over_the_pieces_of_a_part(
    monkeypatch: pytest.MonkeyPatch, s3: MemoryS3
) -> None:
    pieces = [piece([(key(1, 1), b"1:a")], 0), piece([(key(1, 1), b"1:a")], 1)]
    monkeypatch.setattr(tasks, "reader", lambda _: Ranges({0: pieces}))
    found = tasks.run(job(), task(0, duplicates=Duplicates(LoadedRows(), frozenset([SOURCE]))))
    assert (found.rejected.count, found.rejected.malformed, found.files[0].records) == (1, 0, 1)
    assert tasks.run(job(), task(0)).files[0].records == 2, "not asked for"


def test_there_is_no_result_before_all_was_read(monkeypatch: pytest.MonkeyPatch, s3: MemoryS3) -> None:
    monkeypatch.setattr(tasks, "reader", lambda _: Ranges({0: [piece([(None, b"1:a")], 0)] * 2}))
    reading: Any = Reading(job(), task(0))
    rows = iter(reading)
    assert isinstance(next(rows), pa.RecordBatch)
    with raising(ValueError):
        _ = reading.result
    assert sum(1 for _ in rows) == 1
    assert reading.result.accounts == ((0, account(0, 1)),)


def test_each_attempt_has_a_name_of_its_own() -> None:
    names = {tasks.file_name() for _ in range(9)}
    assert len(names) == 9
    assert all(name.endswith(".parquet") for name in names)


def test_the_part_of_a_task_is_what_is_read(monkeypatch: pytest.MonkeyPatch, s3: MemoryS3) -> None:
    ranges = Ranges({0: [], 1: []})
    monkeypatch.setattr(tasks, "reader", lambda _: ranges)
    given = task(1)
    tasks.run(job(), given)
    assert ranges.asked == [(1, IntervalSet.of([(0, 1)]), given.parts[0].epochs)]


def test_a_task_says_which_records_it_skips(monkeypatch: pytest.MonkeyPatch, s3: MemoryS3) -> None:
    decoder = OthersRecords(NumberedDecoder(), tombstones="skip")
    sent = [[b"1:a", None, None], [None, b"2:b"]]
    ranges = Ranges({0: [piece([(None, one) for one in values], 3 * n) for n, values in enumerate(sent)]})
    monkeypatch.setattr(tasks, "reader", lambda _: ranges)
    found = tasks.run(replace(job(), decoder=decoder), task(0))
    assert [file.records for file in found.files] == [2]
    assert found.rejected.count == 0
    assert found.skipped == OffsetRanges.of({0: [(1, 4)]})
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301  (its own)


def test_tasks_of_a_process_share_the_decoder_until_it_is_another_one() -> None:
    """What it has made of schemas is there for the next task: as in a worker of Spark."""
    own = job()
    content = pickle.dumps(own)
    first, second = pickle.loads(content), pickle.loads(content)  # noqa: S301
    assert first.decoder is second.decoder
    assert first.decoder is not own.decoder
    other = pickle.loads(pickle.dumps(replace(own, decoder=OthersRecords(NumberedDecoder(), None))))  # noqa: S301
    assert isinstance(other.decoder, OthersRecords)
    assert replace(other, decoder=None) == replace(own, decoder=None)
    assert pickle.loads(pickle.dumps(replace(own, decoder=None))).decoder is None  # noqa: S301
