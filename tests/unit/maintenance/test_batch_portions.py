"""Documents of batches go in portions, by few at a time, until all are gone or the time is over."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterable

import pytest

from sluice.core.json_record import Document
from sluice.core.offsets.ranges import OffsetRanges
from sluice.ledger.keys import VERIFIED_TABLE
from sluice.maintenance import batch_history, batch_portions
from tests.support.maintained import aged, later, markers


def unlike_a_deletion(bucket: str, keys: Iterable[str]) -> None:
    """Asks for the keys."""
    for _ in keys:
        pass


def test_a_run_removes_all_however_many_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of a managed catalog, which has a document for each batch, or of weekly maintenance."""
    monkeypatch.setattr(batch_portions, "PORTION", 20)
    monkeypatch.setattr(batch_portions, "CHUNK", 8)
    stream = aged(days=30, batches=60)
    stream.s3.page = 7
    result = stream.remove()
    assert result["removed"] > 5 * 24
    assert "the next run goes on" not in result["result"]
    assert len(stream.objects("batches/rolled-up/")) > 5
    every = OffsetRanges.of({0: [(0, 18_000)]})
    assert stream.batch_log().without_record(every).offsets == markers(1800)
    assert stream.remove()["removed"] == 0
    stream.day(40)
    assert len(stream.objects("batches/rolled-up/")) == 2


def test_a_run_ends_in_time_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_portions, "CHUNK", 8)
    monkeypatch.setattr(batch_history, "MAX_SECONDS", 3)
    stream, times = aged(days=30, batches=60), iter(range(1000))
    monkeypatch.setattr(batch_portions.time, "monotonic", lambda: next(times))
    every, results = OffsetRanges.of({0: [(0, 18_000)]}), list[Document]()
    while not results or results[-1]["removed"]:
        results.append(stream.remove())
        assert stream.batch_log().without_record(every).offsets == markers(1800)
    assert [one["removed"] for one in results[:3]] == [24, 24, 24], "of chunks of eight"
    assert "after 3 s, and the next run goes on" in results[0]["result"]
    assert "the next run goes on" not in results[-2]["result"]


def test_a_run_that_is_killed_has_done_the_portions_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_portions, "PORTION", 16)
    stream = aged(days=30, batches=60)
    read, count = stream.s3.get_object, 0

    def killed(**given: object) -> object:
        nonlocal count
        count += "published/" in str(given["Key"])
        if count > 40:
            raise MemoryError
        return read(**given)

    monkeypatch.setattr(stream.s3, "get_object", killed)
    before = stream.objects("batches/published/")
    with pytest.raises(MemoryError):
        stream.remove()
    monkeypatch.undo()
    assert len(before) - len(stream.objects("batches/published/")) == 32
    every = OffsetRanges.of({0: [(0, 18_000)]})
    assert stream.batch_log().without_record(every).offsets == markers(1800)


def test_what_is_in_memory_does_not_grow_with_what_is_removed() -> None:
    """The table has many partitions."""
    peaks = []
    for days in (10, 20):
        stream = aged(days=days, batches=100)
        for place, body in stream.s3.objects.items():
            if "/published/" in place[1]:
                document = json.loads(body)
                for one in document["batches"]:
                    ranges, end = one["ranges"]["0"], one["end_offsets"]["0"]
                    one["ranges"] |= {str(partition): ranges for partition in range(1, 100)}
                    one["end_offsets"] |= {str(partition): end for partition in range(1, 100)}
                stream.s3.objects[place] = json.dumps(document).encode()
        stream.ledger.record_run(
            VERIFIED_TABLE,
            {
                "table_uuid": "u",
                "committed_at": stream.line[-1].published_at,
                "ends": {str(partition): 10**6 for partition in range(100)},
            },
            later(stream, 0.001),
        )
        stream.remove_objects = unlike_a_deletion  # type: ignore[method-assign]
        tracemalloc.start()
        assert stream.remove()["removed"] > 7 * days - 40
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]


def test_long_offsets_without_a_record_are_read_at_once_and_by_so_many_as_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_portions, "OFFSETS", 12)
    at_once, numbers = batch_portions.at_once, list[int]()

    def counted(items: list[object], request: Callable[[object], object]) -> list[object]:
        numbers.append(len(items))
        return at_once(items, request)

    monkeypatch.setattr(batch_portions, "at_once", counted)
    stream = aged(in_documents=True)
    stream.remove()
    assert max(numbers) == 16, "documents"
    assert numbers.count(12) > 20, "batches"
    assert stream.batch_log().without_record(OffsetRanges.of({0: [(0, 4800)]})).offsets == markers(480)
