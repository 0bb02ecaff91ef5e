"""Removals of documents of batches, and restored catalogs: readers and writers find what they found."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sluice.config.sections.maintenance import Maintenance
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.batches import Batch, time_of
from tests.support.batches import NOON, History, batch, writers_log
from tests.support.maintained import DAY, MaintainedStream, aged


def test_what_a_restored_catalog_lost_lately_stays_and_says_nothing_later() -> None:
    stream = aged(days=4)
    # Back to the first day; its successor reads all of it again, in other batches without a marker.
    lost, stream.line = stream.line[40:], stream.line[:40]
    writers_log(stream.s3).note_restore(stream.line[-20:], round(stream.now.timestamp() * 1000) + 1, "w2_b")
    again = [
        batch(1000 + n, 400 + n * 10, 410 + n * 10, writer="w2_b", at=lost[-1].published_at + n + 2)
        for n in range(120)
    ]
    for start in range(0, 120, 10):
        writers_log(stream.s3).record(again[start : start + 10])
    stream.line += again
    stream.next = 160
    numbers = {one.snapshot_id for one in lost}
    left = []
    for _ in range(12):
        stream.day(40)
        left.append(len(stream.batch_log().recorded(numbers, time_of(0))))
    assert (left[2], left[-1]) == (len(lost), 0)
    every = OffsetRanges.of({0: [(0, 100_000)]})
    expected = [(n * 10 + 9, n * 10 + 10) for n in (*range(40), *range(160, 640))]
    assert stream.batch_log().without_record(every).offsets == OffsetRanges.of({0: expected})


@pytest.mark.parametrize("seed", range(12))
def test_removal_changes_nothing_for_readers_and_writers(seed: int) -> None:
    """Whatever crashed and was restored: gaps are explained as before, and a writer finds what it found."""
    history = History(seed, has_markers=True)
    for _ in range(150):
        history.step()
    stream = MaintainedStream(Maintenance(restore_horizon_days=1, history_days=3), history.s3)
    stream.line, stream.now = history.main.line, time_of(history.now)
    if not stream.line:
        return
    every = OffsetRanges.of({0: [(0, 10_000)]})
    assert stream.batch_log().without_record(every).offsets == _markers(stream)
    kept = history.random.sample(stream.line, min(3, len(stream.line)))
    for _ in range(8):
        history.now += DAY // timedelta(milliseconds=1)
        history.publish()
        stream.line, stream.now = history.main.line, time_of(history.now)
        stream.note()
    for found in stream.states.values():
        found += [one.snapshot_id for one in kept]
    stream.verify()
    untouched = dict(stream.s3.objects)
    result = stream.remove()
    assert result["removed"] + sum(result["kept"].values()) > 0
    assert stream.batch_log().without_record(every).offsets == _markers(stream)
    since = stream.now - 3 * DAY
    assert stream.batch_log().newest(20, since) == _with(stream, untouched).batch_log().newest(20, since)
    assert stream.batch_log().recorded([one.snapshot_id for one in kept], time_of(0)).keys() == {
        one.snapshot_id for one in kept
    }
    for back in (0, 3, 6):
        main = stream.line[: len(stream.line) - back][-40:]
        assert _restored(stream.s3.objects, main) == _restored(untouched, main)


def _markers(stream: MaintainedStream) -> OffsetRanges:
    return OffsetRanges.of({0: [(one.ends[0] - 1, one.ends[0]) for one in stream.line]})


def _with(stream: MaintainedStream, objects: dict[tuple[str, str], bytes]) -> MaintainedStream:
    other = MaintainedStream(stream.maintenance)
    other.s3.objects, other.line = objects, stream.line
    return other


def _restored(objects: dict[tuple[str, str], bytes], main: list[Batch]) -> set[str]:
    """What a writer that finds this ``main`` records of restored catalogs."""
    other = MaintainedStream()
    other.s3.objects = dict(objects)
    writers_log(other.s3).note_restore(main, NOON * 2, "w99_z")
    return set(other.objects("batches/restored/"))
