"""How much a range asks for, and a leader that does not know the epoch of the record before."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import pytest

from sluice.clients.kafka.log import fetching
from sluice.clients.kafka.log.brokers import OUT_OF_RANGE, Brokers
from sluice.clients.kafka.log.fetching import MISSING_SECONDS, LogTruncated
from sluice.clients.kafka.log.range_reader import Epochs, RangeReader
from sluice.clients.kafka.log.responses import Moving
from sluice.core.errors import Unreachable
from sluice.core.offsets.ranges import IntervalSet
from tests.support.kafka_log import EPOCH, ID, Log, made, offsets
from tests.support.raising import raising
from tests.support.record_batches import Made, Record

KIB = 1 << 10
MOST = 2 << 20


@dataclass
class Reader:
    """Reads ranges of one partition, by one reader."""

    log: Log
    fetch_bytes: int = MOST
    patience: float = 120

    def __post_init__(self) -> None:
        broker = cast("Brokers", self.log)
        self._reader = RangeReader(broker, "t", ID, self.fetch_bytes, self.patience)

    def read(self, begin: int, end: int, last_epoch: int = -1) -> list[int]:
        return offsets(self._reader.read(0, IntervalSet.of([(begin, end)]), Epochs(last_epoch)))

    def asked(self, begin: int, end: int) -> list[int]:
        """The sizes of the range's requests."""
        before = len(self.log.sizes)
        for _ in self._reader.read(0, IntervalSet.of([(begin, end)])):
            pass
        return self.log.sizes[before:]


def sized(offset: int, size: int) -> Made:
    """A batch of one record, of about so many bytes."""
    return Made((Record(offset, value=b"v" * size),))


@pytest.mark.parametrize(
    ("count", "expected"), [(1, 256 * KIB), (999, 256 * KIB), (1_000, MOST), (100_000, MOST)]
)
def test_the_first_request_is_small_for_few_offsets(count: int, expected: int) -> None:
    log = Log([made(*range(count))])
    assert Reader(log).asked(0, count) == [expected]


def test_later_requests_are_for_what_the_range_still_needs() -> None:
    log = Log([sized(n, 50_000) for n in range(20)], size=2)
    each = len(log.batches[0].bytes())
    first, *later = Reader(log).asked(0, 20)
    assert first == 256 * KIB
    rest = range(18, 0, -2)
    assert later == [int(left * each * 1.25) + 128 * KIB for left in rest]


def test_a_partitions_next_range_asks_by_what_the_last_one_took() -> None:
    log = Log([sized(n, 1_000 if n < 4 else 9_000) for n in range(12)], size=4)
    reader = Reader(log)
    reader.asked(0, 4)
    small, large = (len(log.batches[n].bytes()) for n in (0, 4))
    assert reader.asked(4, 6) == [int(2 * small * 1.25) + 128 * KIB]
    # As the last response had it, not the range before: what follows may be of another producer.
    assert reader.asked(8, 12) == [int(4 * large * 1.25) + 128 * KIB]


def test_what_a_response_has_behind_the_range_does_not_count() -> None:
    """A range of one offset would make the next one ask for all that the broker sends."""
    log = Log([sized(n, 5_000) for n in range(40)], size=20)
    reader, each = Reader(log), len(log.batches[0].bytes())
    reader.asked(0, 1)
    assert reader.asked(1, 11) == [int(10 * each * 1.25) + 128 * KIB]


def test_a_batch_that_begins_before_the_range_counts_with_all_its_offsets() -> None:
    log = Log([made(*range(10)), made(*range(10, 20))], size=1)
    size = len(log.batches[0].bytes())
    assert Reader(log).asked(9, 20) == [256 * KIB, int(10 * size / 10 * 1.25) + 128 * KIB]


def test_offsets_that_compaction_took_cost_nothing() -> None:
    """So many bytes to an offset, whether it has a record or not."""
    log = Log([sized(0, 1_000), sized(999, 1_000), sized(1_999, 1_000)], policy="compact")
    each = sum(len(batch.bytes()) for batch in log.batches[:2]) / 1_000
    assert Reader(log).asked(0, 2_000) == [MOST, int(1_000 * each * 1.25) + 128 * KIB]


@pytest.mark.parametrize("fetch_bytes", [64 * KIB, 300 * KIB])
def test_no_request_is_larger_than_a_response_may_be(fetch_bytes: int) -> None:
    log = Log([sized(n, 50_000) for n in range(20)])
    reader = Reader(log, fetch_bytes)
    assert max(reader.asked(0, 20)) == fetch_bytes
    assert max(reader.asked(0, 1)) <= fetch_bytes


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """Its clock goes on while a reader waits."""
    found = Log([made(n) for n in range(6)])
    monkeypatch.setattr(fetching, "time", SimpleNamespace(monotonic=lambda: 1_000 + found.waited))
    return found


def test_a_leader_that_never_knows_the_epoch_has_another_log(log: Log) -> None:
    """It answers that the offset is out of range, though it is not."""
    log.errors = [OUT_OF_RANGE] * 1_000
    with raising(LogTruncated, "topic 't', partition 0", "offset 1 was read with leader epoch 9", "Fix: "):
        Reader(log).read(2, 4, last_epoch=9)
    assert MISSING_SECONDS < log.waited < MISSING_SECONDS + 1
    assert set(log.fetches) == {(2, 9)}


@pytest.mark.parametrize("count", [1, 10])
def test_a_leader_that_knows_the_epoch_a_little_later_is_believed(log: Log, count: int) -> None:
    log.errors = [OUT_OF_RANGE] * count
    assert Reader(log).read(2, 4, last_epoch=EPOCH) == [2, 3]
    assert 0 < log.waited < MISSING_SECONDS


def test_each_request_has_its_own_patience(log: Log) -> None:
    """Three seconds twice are no six."""
    log.errors = [*[OUT_OF_RANGE] * 15, 0, *[OUT_OF_RANGE] * 15]
    assert Reader(log).read(0, 6, last_epoch=EPOCH) == [0, 1, 2, 3, 4, 5]
    assert log.waited > MISSING_SECONDS


def test_another_leader_has_time_to_learn_of_the_epoch(log: Log) -> None:
    """Between both there may be as long as an election takes."""
    log.errors = [OUT_OF_RANGE, *[Moving("broken connection")] * 50, *[OUT_OF_RANGE] * 5]
    assert Reader(log).read(2, 4, last_epoch=EPOCH) == [2, 3]
    assert log.waited > MISSING_SECONDS


def test_without_an_epoch_there_is_nothing_that_a_leader_could_not_know(log: Log) -> None:
    """The log has moved meanwhile: the fetch is repeated as long as any."""
    log.errors = [OUT_OF_RANGE] * 100
    assert Reader(log).read(2, 4) == [2, 3]
    log.errors, log.waited = [OUT_OF_RANGE] * 1_000, 0
    with raising(Unreachable, "offset 2 was out of range"):
        Reader(log).read(2, 4)
    assert log.waited > 120
