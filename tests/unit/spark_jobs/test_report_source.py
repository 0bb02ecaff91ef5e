"""Which snapshots are news to a report, and which batch a row is of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.common.iceberg import Snapshot
from spark_jobs.common.report_source import Batch, News, edges, news


class History:
    """Snapshots of ``main``; the next one's id is one more."""

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []
        self._ids = count(1)
        self._end = 0

    def add(self, operation: str = "append", rows: int = 0, **said: str) -> int:
        summary = {f"sluice.{key}": value for key, value in said.items()}
        if rows:
            summary["added-records"] = str(rows)
        snapshot = Snapshot(next(self._ids), 1000 * len(self.snapshots), operation, summary)
        self.snapshots.append(snapshot)
        return snapshot.id

    def batch(self, records: int = 5, rows: int | None = None, operation: str = "append") -> int:
        begin, self._end = self._end, self._end + records
        ranges, ends = json.dumps({"0": [begin, self._end]}), json.dumps({"0": self._end})
        rows = records if rows is None else rows
        return self.add(operation, rows, kind="batch", ranges=ranges, ends=ends)

    def news(self, counted: int | None) -> News | None:
        return news(reversed(self.snapshots), counted)


def ids(found: News | None) -> list[int]:
    assert found is not None
    return [batch.snapshot_id for batch in found.batches]


def test_a_table_without_batches_has_no_news() -> None:
    history = History()
    assert history.news(None) is None
    history.add(kind="genesis")
    history.add(kind="takeover")
    history.add("replace", 7)
    assert history.news(None) is None


def test_the_first_time_everything_is_counted() -> None:
    history = History()
    history.add(kind="genesis")
    first, second = history.batch(), history.batch()
    history.add("replace", 10)
    found = history.news(None)
    assert found is not None
    assert (found.head.id, found.after, found.rebuild) == (second, None, "nothing was counted yet")
    assert ids(found) == [first, second]
    assert found.batches[1].ranges == {0: (5, 10)}
    assert found.ends == {0: 10}


def test_then_what_came_since() -> None:
    history = History()
    first = history.batch()
    assert history.news(first) is None
    history.add(kind="takeover")
    history.add("replace", 3)
    assert history.news(first) is None
    second = history.batch()
    history.add("replace", 3)
    third = history.batch()
    history.add(kind="takeover")
    found = history.news(first)
    assert found is not None
    assert (found.head.id, found.after, found.rebuild) == (third, first, None)
    assert ids(found) == [second, third]


def test_a_batch_of_which_all_is_in_quarantine_is_news() -> None:
    history = History()
    first = history.batch()
    second = history.batch(rows=0)
    found = history.news(first)
    assert found is not None
    assert (ids(found), found.rebuild, found.ends) == ([second], None, {0: 10})


def test_what_takes_rows_away_asks_for_counting_anew() -> None:
    history = History()
    first = history.batch()
    taken = history.add("delete")
    found = history.news(first)
    assert found is not None
    assert (found.head.id, found.after) == (taken, None)
    assert found.rebuild == f"snapshot {taken} (delete) took rows away"
    assert ids(found) == [first], "the counted one too"
    assert history.news(taken) is None, "once"
    second = history.batch()
    assert ids(history.news(taken)) == [second]
    history.add("overwrite", 4)
    third = history.batch()
    found = history.news(second)
    assert found is not None
    assert found.head.id == third
    assert "(overwrite) took rows away" in str(found.rebuild)
    assert ids(found) == [first, second, third]


def test_a_batch_that_replaces_rows_does_too() -> None:
    history = History()
    first = history.batch()
    history.batch(operation="overwrite")
    found = history.news(first)
    assert found is not None
    assert "took rows away" in str(found.rebuild)


def test_rows_of_no_batch_do_too() -> None:
    history = History()
    first = history.batch()
    foreign = history.add(rows=3)
    found = history.news(first)
    assert found is not None
    assert found.rebuild == f"snapshot {foreign} (append) appended rows that are of no batch"
    assert (found.head.id, ids(found)) == (foreign, [first])


def test_and_so_does_a_counted_snapshot_that_is_gone() -> None:
    history = History()
    first = history.batch()
    found = history.news(99)
    assert found is not None
    assert (found.rebuild, ids(found)) == ("snapshot 99 is gone from main", [first])


def test_history_is_read_only_as_far_as_needed() -> None:
    history = History()
    counted = history.batch()
    history.batch()
    for _ in range(3):
        history.add(kind="takeover")
    read = []

    def watched() -> Iterator[Snapshot]:
        for snapshot in reversed(history.snapshots):
            read.append(snapshot.id)
            yield snapshot

    assert news(watched(), counted) is not None
    assert read == [5, 4, 3, 2, 1]
    read.clear()
    history.add(kind="takeover")
    assert news(watched(), 5) is None
    assert read == [6, 5]


def place(partition: int, offset: int, batches: list[Batch]) -> list[int]:
    """The batches that a join by equality of partition and bucket finds."""
    bits, pieces = edges(batches)
    return [
        edge.batch
        for edge in pieces
        if edge.partition == partition and edge.bucket == offset >> bits and edge.start <= offset < edge.until
    ]


@given(
    sizes=st.lists(
        st.dictionaries(st.integers(0, 2), st.integers(0, 70), max_size=3), min_size=1, max_size=8
    ),
    start=st.integers(0, 200),
)
def test_every_offset_is_of_one_batch(sizes: list[dict[int, int]], start: int) -> None:
    ends = dict.fromkeys(range(3), start)
    batches: list[Batch] = []
    expected: dict[tuple[int, int], int] = {}
    for number, counts in enumerate(sizes):
        ranges = {}
        for partition, size in counts.items():
            ranges[partition] = (ends[partition], ends[partition] + size)
            expected |= {(partition, o): number for o in range(*ranges[partition])}
            ends[partition] += size
        batches.append(Batch(number, ranges, {}))
    for (partition, offset), number in expected.items():
        assert place(partition, offset, batches) == [number]
    for partition, end in ends.items():
        assert place(partition, end, batches) == []
        assert place(partition, start - 1, batches) == []
    assert len(edges(batches)[1]) <= 3 * max(sum(map(len, sizes)), 1)
