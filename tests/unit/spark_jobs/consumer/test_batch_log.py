"""What the writer records of its batches, at what cost."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError

from sluice.core.tables.batches import time_of
from sluice.ledger.batch_log import PUBLISHED, RESTORED, Line, Restore, restore_of
from tests.support.batches import LOCATION, NOON, batch, writers_log
from tests.support.memory_s3 import MemoryS3

FOLDER = LOCATION.removeprefix("s3://lake/") + "/batches/"


def keys(s3: MemoryS3, prefix: str) -> list[str]:
    return [key for _, key in s3.objects if key.startswith(FOLDER + prefix)]


def test_ten_batches_cost_one_put_and_a_failover_one_more() -> None:
    s3 = MemoryS3()
    batches = [batch(n, n, n + 1, writer="w1_a" if n < 4 else "w2_b") for n in range(14)]
    writers_log(s3).record(batches[4:])
    assert s3.requests == {"PUT": 1}
    writers_log(s3).record(batches)
    assert s3.requests["PUT"] == 3
    assert len(keys(s3, PUBLISHED)) == 2, "what another attempt has recorded is not there twice"


def test_a_refusal_is_no_recording() -> None:
    s3 = MemoryS3()
    s3.refuse_puts = ["AccessDenied"]
    with pytest.raises(ClientError):
        writers_log(s3).record([batch(1, 0, 1)])


def test_a_failover_without_a_restored_catalog_writes_nothing() -> None:
    s3 = MemoryS3()
    writers_log(s3).note_restore([], NOON, "w1_a")
    batches = [batch(n, n, n + 1) for n in range(12)]
    writers_log(s3).record(batches[:10])
    s3.requests.clear()
    writers_log(s3).note_restore(batches[5:], NOON, "w2_a")
    assert s3.requests == {"LIST": 2}


def test_a_restored_catalog_is_recorded_once_and_later_than_what_it_lost() -> None:
    s3 = MemoryS3()
    batches = [batch(n, n, n + 1) for n in range(10)]
    writers_log(s3).record(batches)
    # By a machine whose clock is behind.
    writers_log(s3).note_restore(batches[:5], NOON - 60_000, "w2_b")
    later = [batch(n, n, n + 1, writer="w2_b") for n in range(20, 32)]
    writers_log(s3).record(later[:10])
    writers_log(s3).note_restore([*batches[:5], *later], NOON + 60_000, "w3_c")
    (key,) = keys(s3, RESTORED)
    assert restore_of(key) == Restore(time_of(NOON + 9001), time_of(NOON + 4000), "w2_b")
    assert json.loads(s3.objects["lake", key])["writer"] == "w2_b"


def test_batches_that_a_managed_catalog_has_expired_are_not_lost_to_a_restore() -> None:
    """None of its snapshots is left, and the ends of ``main`` cover the newest recorded batch."""
    s3 = MemoryS3()
    batches = [batch(n, n, n + 1) for n in range(10)]
    writers_log(s3).record(batches)
    writers_log(s3).note_restore([], NOON + 60_000, "w2_b", batches[-1].ends)
    assert not keys(s3, RESTORED)
    writers_log(s3).note_restore([], NOON + 60_000, "w2_b", batches[-2].ends)
    assert len(keys(s3, RESTORED)) == 1


def test_a_restore_of_a_managed_catalog_that_keeps_no_batch_loses_those_behind_its_ends() -> None:
    s3 = MemoryS3()
    batches = [batch(n, n, n + 1) for n in range(30)]
    for first in range(0, 30, 10):
        writers_log(s3).record(batches[first : first + 10])
    writers_log(s3).note_restore([], NOON + 60_000, "w2_b", batches[14].ends)
    (key,) = keys(s3, RESTORED)
    assert restore_of(key) == Restore(time_of(NOON + 60_000), batches[14].published, "w2_b")
    # The next one begins with those that the first has not lost.
    writers_log(s3).note_restore([], NOON + 70_000, "w3_c", batches[24].ends)
    later = max(filter(None, map(restore_of, keys(s3, RESTORED))), key=lambda one: one.at)
    assert later == Restore(time_of(NOON + 70_000), batches[14].published, "w3_c")
    writers_log(s3).note_restore([], NOON + 80_000, "w4_d", {0: 0})
    later = max(filter(None, map(restore_of, keys(s3, RESTORED))), key=lambda one: one.at)
    assert later.newest == time_of(0), "the state before the first batch"


def test_a_failover_before_the_time_of_a_restore_is_recorded_behind_it() -> None:
    """Lost batches are of a clock that was ahead: what the next writer publishes is not lost with them."""
    s3 = MemoryS3()
    batches = [batch(n, n, n + 1) for n in range(10)]
    writers_log(s3).record(batches)
    writers_log(s3).record([batch(n, n, n + 1, at=NOON + 900_000 + n) for n in range(10, 20)])
    writers_log(s3).note_restore(batches, NOON + 60_000, "w2_b")
    again = [batch(n, n - 90, n - 89, writer="w2_b", at=NOON + 60_000 + n) for n in range(100, 110)]
    writers_log(s3).record(again)
    # The ends of `main` cover the newest batch by its time, which is a lost one.
    for _ in range(2):
        writers_log(s3).note_restore(again, NOON + 70_000, "w3_c", again[-1].ends)
    found = sorted(filter(None, map(restore_of, keys(s3, RESTORED))), key=lambda one: one.at)
    assert found == [
        Restore(time_of(NOON + 900_020), batches[-1].published, "w2_b"),
        Restore(time_of(NOON + 900_021), again[-1].published, "w3_c"),
    ]
    line = Line.of(found)
    assert all(one in line for one in (*batches, *again))
    assert batch(200, 20, 21, writer="w3_c", at=NOON + 80_000) in line
    assert batch(10, 10, 11, at=NOON + 900_010) not in line
