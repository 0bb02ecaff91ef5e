"""Removals of documents of batches, and restored catalogs: readers and writers find what they found."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from sluice.config.sections.maintenance import Maintenance
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.batches import Batch, time_of
from sluice.maintenance.expired_batches import LOST
from tests.support.batches import NOON, History, batch, with_marker, writers_log
from tests.support.maintained import DAY, MaintainedStream, aged
from tests.support.memory_s3 import MemoryS3


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


MINUTE = 60_000
HOUR = 60 * MINUTE


def ahead(*, next_writer: bool = False) -> MaintainedStream:
    """A clock was ahead by two days, and the catalog was restored to before, as the guide says.
    ``next_writer``: there is a failover before that time has come."""
    s3 = MemoryS3()
    stream = MaintainedStream(s3=s3)

    def record(some: list[Batch]) -> None:
        stream.now = max(stream.now, min(some[-1].published, time_of(NOON + 12 * 24 * HOUR)))
        for start in range(0, len(some), 10):
            writers_log(s3).record(some[start : start + 10])

    def made(number: int, writer: str, at: int) -> Batch:
        """``number``: of the offsets, in tens."""
        snapshot = number if writer == "w1_a" else 1000 + number
        return with_marker(batch(snapshot, number * 10, number * 10 + 10, writer=writer, at=NOON + at))

    stream.line = [made(n, "w1_a", n * MINUTE) for n in range(40)]
    record(stream.line)
    now = stream.now
    record([made(40 + n, "w1_a", 48 * HOUR + n * MINUTE) for n in range(20)])
    stream.now = now
    writers_log(s3).note_restore(stream.line[-20:], NOON + 2 * HOUR, "w2_b")
    again = [made(40 + n, "w2_b", 2 * HOUR + (n + 1) * MINUTE) for n in range(60)]
    record(again)
    stream.line += again
    if next_writer:
        writers_log(s3).note_restore(stream.line[-20:], NOON + 5 * HOUR, "w3_c")
        later = [made(100 + n, "w3_c", 5 * HOUR + (n + 1) * MINUTE) for n in range(20)]
        record(later)
        stream.line += later
    stream.next, stream.writer = len(stream.line), stream.line[-1].writer
    return stream


@pytest.mark.parametrize("next_writer", [False, True])
def test_what_came_after_a_clock_was_ahead_is_rolled_up(next_writer: bool) -> None:
    stream = ahead(next_writer=next_writer)
    count = len(stream.line)
    every = OffsetRanges.of({0: [(0, count * 10)]})
    expected = _markers(stream)
    numbers = {one.snapshot_id for one in stream.line[40:]}
    for _ in range(4):
        stream.publish(40)
        assert stream.batch_log().without_record(every).offsets == expected, "before any of it goes"
        lost = {one.batch.snapshot_id for one in stream.batch_log().newest(10_000) if one.is_lost}
        # Newer ones than of `main` are not listed.
        assert lost == (set(range(40, 60)) if stream.now > time_of(NOON + 50 * HOUR) else set())
        for one in stream.line[40:count:9]:
            found = stream.batch_log().holding(0, one.ends[0] - 5)
            assert found is not None
            assert found.snapshot_id == one.snapshot_id
        stream.verify()
        stream.note()
    for _ in range(8):
        stream.day(40)
        assert stream.batch_log().without_record(every).offsets == expected
    left = stream.batch_log().recorded({*numbers, *range(40, 60)}, time_of(0))
    assert not left, "the lost ones are gone, too"


def test_what_is_outside_of_the_line_stays_if_nothing_of_it_has_the_offsets() -> None:
    """As after a restore of which the document does not say which writer found it."""
    stream = ahead()
    for place in [one for one in stream.s3.objects if "/restored/" in one[1]]:
        bucket, key = place
        stream.s3.objects[bucket, key.replace("w2_b", "other")] = stream.s3.objects.pop(place)
    for _ in range(12):
        result = stream.day(40)
    until = time_of(NOON + 48 * HOUR)
    again = [one.snapshot_id for one in stream.line[40:] if one.published < until]
    assert result["kept"][LOST] == 2 + math.ceil(len(again) / 10)
    assert stream.batch_log().recorded(again, time_of(0)).keys() == set(again)


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
