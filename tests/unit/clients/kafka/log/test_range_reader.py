"""Every offset of a range is accounted for, or the read fails and names it. The broker is made by hand."""

from __future__ import annotations

from typing import cast

import pytest

from sluice.clients.kafka.log import fetching
from sluice.clients.kafka.log.brokers import Brokers
from sluice.clients.kafka.log.fetching import LogTruncated, OffsetsDeleted, TopicRecreated, TransactionOpen
from sluice.clients.kafka.log.range_reader import Epochs, RangeReader
from sluice.clients.kafka.log.responses import Fetched, Moving, TopicLeaders
from sluice.core.errors import Missing, Refused, Unreachable
from sluice.core.offsets.ranges import IntervalSet
from sluice.core.record_batches.account import OffsetsMissing
from sluice.core.record_batches.codecs import BatchTooLarge
from sluice.core.record_batches.header import DamagedBatch
from tests.support.kafka_log import EPOCH, ID, Log, made, offsets, reading
from tests.support.raising import raising
from tests.support.record_batches import ABORT, COMMIT, Made, Record, joined, marker


@pytest.mark.parametrize(("begin", "end"), [(0, 9), (1, 8), (3, 4), (5, 9), (2, 2), (4, 8)])
def test_exactly_the_range(begin: int, end: int) -> None:
    log = Log([made(0, 1), made(2, 3, 4), made(5), made(6, 7, 8)])
    read = reading(log, begin, end)
    with raising(ValueError, "not read to its end"):
        read.account  # noqa: B018
    assert offsets(read) == list(range(begin, end))
    account = read.account
    assert account.records.count == end - begin
    assert not account.absent
    assert not account.control
    assert account.leader_epoch == account.last_epoch == (EPOCH if begin < end else None)


def test_the_epoch_of_what_was_read_goes_with_the_next_fetch() -> None:
    log = Log([made(n) for n in range(6)])
    list(reading(log, 0, 6, last_epoch=1))
    assert log.fetches == [(0, 1), (2, EPOCH), (4, EPOCH)]


def test_a_batch_of_more_than_the_setting_allows_is_not_read() -> None:
    batch = Made((Record(0, value=bytes(9_000)),), "zstd")
    assert len(list(reading(Log([batch], max_batch_bytes=10_000), 0, 1))) == 1
    with raising(BatchTooLarge, "offsets 0 to 0: more than 9000 bytes"):
        list(reading(Log([batch], max_batch_bytes=9_000), 0, 1))


def test_what_was_asked_for_ahead_is_not_asked_for_again() -> None:
    log = Log([made(n) for n in range(3)])
    read = reading(log, 0, 3, last_epoch=1)
    for _ in range(2):
        read.ask_ahead()
    assert log.fetches == [(0, 1)]
    assert offsets(read) == [0, 1, 2]
    assert log.fetches == [(0, 1), (2, EPOCH)]
    reading(log, 2, 2).ask_ahead()
    assert len(log.fetches) == 2, "there is nothing to ask for"


def test_markers_and_aborted_transactions_are_seen() -> None:
    log = Log(
        [
            made(0, producer=7),
            made(1, producer=8),
            made(2),
            marker(3, 7, ABORT),
            made(4, producer=7),
            marker(5, 8, COMMIT),
            marker(6, 7, COMMIT),
        ],
        aborted=((7, 0),),
        size=9,
    )
    read = reading(log, 0, 7)
    assert offsets(read) == [1, 2, 4]
    account = read.account
    assert (str(account.records), str(account.control), str(account.aborted), str(account.absent)) == (
        "[1,3),[4,5)",
        "[3,4),[5,7)",
        "[0,1)",
        "(empty)",
    )


def test_what_compaction_took_is_recorded_with_what_explains_it() -> None:
    batches = [made(0, 3), Made((), base_offset=4, last_offset=5), made(9)]
    read = reading(Log(batches, policy="compact,delete"), 0, 10)
    assert offsets(read) == [0, 3, 9]
    assert str(read.account.absent) == "[1,3),[4,9)"
    assert read.account.evidence.startswith("compacted: cleanup.policy=compact,delete, observed 20")
    read = reading(Log(batches), 0, 10)
    with raising(OffsetsMissing, "offsets [1,3),[4,9) are not there", "cleanup.policy=delete"):
        list(read)
    with pytest.raises(ValueError, match="not read"):
        read.account  # noqa: B018


def test_a_range_may_end_where_nothing_is() -> None:
    read = reading(Log([made(0), made(9)], policy="compact"), 0, 5)
    assert offsets(read) == [0]
    assert str(read.account.absent) == "[1,5)"
    assert (read.account.leader_epoch, read.account.last_epoch) == (EPOCH, None)


# -1 is an error of the broker itself, 6 another leader, 78 one that is not ready.
@pytest.mark.parametrize("error", [-1, 6, 78, Moving("broken connection")])
def test_a_leader_that_moves_is_waited_for(error: int | Exception) -> None:
    log = Log([made(n) for n in range(5)], errors=[error, error, 0, error])
    assert offsets(reading(log, 0, 5)) == [0, 1, 2, 3, 4]
    assert log.waited > 0


def test_no_progress_ends_with_the_last_reason() -> None:
    log = Log([made(0)], errors=[Moving("broken connection")] * 1_000_000)
    with raising(Unreachable, "broken connection"):
        list(reading(log, 0, 1))


@pytest.mark.parametrize(
    ("log", "kind", "words"),
    [
        (Log([made(5)], begin=5), OffsetsDeleted, "offset 2 was deleted, the log begins at 5"),
        (Log([made(0)]), LogTruncated, "offset 2 is behind the log's end 1"),
        (
            Log([made(0, 1, 2), made(3, 4, producer=4)], last_stable=2),
            TransactionOpen,
            "before offset 2 is open",
        ),
        (Log([made(0, 1)]), Unreachable, "nothing came from offset 2 on"),
        (Log([made(2)], errors=[87]), Refused, "InvalidRecord"),
        (Log([made(2), made(3)], ids=["another"]), TopicRecreated, "its id is another"),
        (Log([made(2), made(3)], ids=[ID, "another"]), TopicRecreated, "its id is another"),
        (Log([made(2), made(3)], damage=lambda data: data[:60]), DamagedBatch, "no whole batch"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_what_ends_a_read(log: Log, kind: type[Exception], words: str) -> None:
    read = reading(log, 2, 4)
    with raising(kind, words):
        list(read)
    with pytest.raises(ValueError, match="not read"):
        read.account  # noqa: B018


def test_batches_that_end_before_the_offset_are_no_progress() -> None:
    stale = joined([made(0), made(1)])
    with raising(DamagedBatch, "end before offset 2"):
        list(reading(Log([made(2), made(3)], damage=lambda _: stale), 2, 4))


def test_a_log_that_diverged_is_named() -> None:
    log = Log([made(2), made(3)])

    def answer() -> Fetched:
        return Fetched(0, b"", 4, 4, (), (2, 1))

    log.fetch = lambda *_: answer  # type: ignore[method-assign]
    with raising(LogTruncated, "offset 1 was read with leader epoch 3", "epoch 2 ends at 1"):
        list(reading(log, 2, 4, last_epoch=3))


def test_a_topic_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log([made(0)])

    def describe(topic: str, node: int | None = None) -> TopicLeaders:
        raise Missing(f"topic {topic!r} does not exist")

    monkeypatch.setattr(log, "describe", describe)
    monkeypatch.setattr(fetching, "MISSING_SECONDS", 0.2)
    with raising(Missing, "'t' does not exist"):
        list(reading(log, 0, 1))


def test_what_lies_between_is_neither_decoded_nor_explained() -> None:
    bomb = Made((Record(3, value=bytes(70 << 20)),), "zstd")
    log = Log([made(0, 1), bomb, made(6), made(9, 10), made(11)], size=9)
    wanted = IntervalSet.of([(1, 2), (6, 7), (10, 11)])
    read = RangeReader(cast("Brokers", log), "t", ID, patience=0.02).read(0, wanted)
    assert offsets(read) == [1, 6, 10]
    assert read.account.records == wanted
    with raising(DamagedBatch, "more than"):
        list(reading(log, 0, 4))


def test_what_is_behind_the_range_is_not_looked_at() -> None:
    log = Log([made(0, 1), made(2)], size=2, damage=lambda data: data[:-1] + b"x")
    assert offsets(reading(log, 0, 2)) == [0, 1]
    with raising(DamagedBatch, "the checksum of the batch at offset 2"):
        list(reading(log, 0, 3))


def test_a_record_that_was_written_after_the_plan_is_another_log() -> None:
    log = Log([made(0), made(1), made(2)])
    reader = RangeReader(cast("Brokers", log), "t", ID)
    assert offsets(reader.read(0, IntervalSet.of([(0, 3)]), Epochs(highest=EPOCH))) == [0, 1, 2]
    with raising(LogTruncated, f"offset 0 was there under leader epoch {EPOCH - 1}"):
        list(reader.read(0, IntervalSet.of([(0, 3)]), Epochs(highest=EPOCH - 1)))


def test_many_small_transactions_are_one_piece() -> None:
    log = Log([b for n in range(0, 40, 2) for b in (made(n, producer=1), marker(n + 1, 1, COMMIT))], size=99)
    read = reading(log, 0, 40)
    assert [len(piece) for piece in read] == [20]
    assert read.account.control.count == 20


def test_a_topic_that_a_broker_does_not_know_yet() -> None:
    log, answers = Log([made(0)]), [Missing("not yet"), Moving("no leader")]
    describe = log.describe

    def describing(topic: str, node: int | None = None) -> TopicLeaders:
        if answers:
            raise answers.pop(0)
        return describe(topic, node)

    log.describe = describing  # type: ignore[method-assign]
    assert offsets(reading(log, 0, 1)) == [0]
