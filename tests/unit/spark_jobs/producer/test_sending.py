"""Rows into records: keys, what is left out, and a failure that ends the attempt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from sluice.config.platform_sections.kafka import Kafka
from sluice.config.sending_rules import SendingRules
from sluice.core.offsets.deduplication import LoadedRows
from sluice.core.offsets.ranges import OffsetRanges
from spark_jobs.common.producer import sending
from spark_jobs.common.producer.sending import NotSent, Sending, SendingRefused
from tests.support.raising import raising

A, B = "a" * 16, "b" * 16
RULES = SendingRules(100_000, "d")


class Producer:
    """librdkafka with a queue of ``room`` records, of which each poll delivers all, or fails the first."""

    room = 10
    error: int | None = None

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.queue: list[tuple[Any, ...]] = []
        self.delivered: list[tuple[Any, ...]] = []
        made.append(self)

    def produce(self, topic: str, value: bytes | None, key: bytes, partition: int, headers: Any) -> None:
        if len(self.queue) >= self.room:
            raise BufferError
        self.queue.append((topic, partition, key, value, headers))

    def poll(self, seconds: float) -> None:
        if self.error is not None and self.queue:
            self.settings["on_delivery"](KafkaError(self.error), None)
            self.queue.pop(0)
        self.delivered += self.queue
        self.queue.clear()

    def flush(self, seconds: float) -> int:
        left = len(self.queue)
        self.poll(seconds)
        return left

    def purge(self) -> None:
        self.queue.clear()


made: list[Producer] = []


@pytest.fixture(autouse=True)
def producer(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made.clear()
    sending._topic.cache_clear()
    monkeypatch.setattr(sending, "Producer", Producer)
    yield
    sending._topic.cache_clear()


def rows(*given: tuple[str, int, int, int | None, bytes | None]) -> pa.RecordBatch:
    names = ("source_id", "row", "target_partition", "sequence", "value")
    kinds = (pa.string(), pa.int64(), pa.int32(), pa.int64(), pa.binary())
    columns = zip(*given, strict=True)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names)


def send(*batches: pa.RecordBatch, **given: Any) -> dict[str, tuple[int, int]]:
    how = Sending(Kafka("b:1"), "t", RULES, **{"sent": LoadedRows(), **given})
    return {source: (counts.rows, counts.rejected) for source, counts in how.send(batches).items()}


def test_a_row_has_its_key_its_partition_and_the_headers() -> None:
    batch = rows((A, 0, 2, 0, b"x"), (A, 1, 0, 0, None), (B, 7, 1, 3, b""))
    assert send(batch, headers=(("h", b"1"),), withheld=frozenset({B})) == {A: (2, 0), B: (1, 0)}
    headers = [("h", b"1")]
    assert made[0].delivered == [
        ("t", 2, f"{A}:0:0".encode(), b"x", headers),
        ("t", 0, f"{A}:1:0".encode(), None, headers),
        ("t", 1, f"{B}!7:3".encode(), b"", headers),
    ]


def test_what_was_sent_and_what_is_rejected_is_left_out_and_counted() -> None:
    batch = rows((A, 0, 0, 0, b"a"), (A, 1, 1, 0, b"b"), (A, 2, 0, None, None), (A, 4, 0, 1, b"c"))
    sent = LoadedRows({A: OffsetRanges.of({0: [(0, 1)]}), B: OffsetRanges.of({1: [(0, 9)]})})
    assert send(batch, sent=sent) == {A: (4, 1)}
    assert [record[2] for record in made[0].delivered] == [f"{A}:1:0".encode(), f"{A}:4:1".encode()]


def test_a_full_queue_makes_the_task_wait_and_keeps_the_order() -> None:
    many = [(A, row, 0, row, b"x") for row in range(35)]
    assert send(rows(*many[:20]), rows(*many[20:])) == {A: (35, 0)}
    assert [record[2] for record in made[0].delivered] == [f"{A}:{row}:{row}".encode() for row in range(35)]


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (KafkaError._MSG_TIMED_OUT, NotSent),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, SendingRefused),
    ],
)
def test_a_record_that_is_not_delivered_fails_the_task(
    monkeypatch: pytest.MonkeyPatch, error: int, raised: type[Exception]
) -> None:
    monkeypatch.setattr(Producer, "error", error)
    with raising(raised, "topic t: not all records were sent"):
        send(rows((A, 0, 0, 0, b"x")))
    assert not made[0].queue


def test_a_refused_login_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def poll(self: Producer, seconds: float) -> None:
        self.settings["error_cb"](KafkaError(KafkaError._AUTHENTICATION))

    monkeypatch.setattr(Producer, "poll", poll)
    with raising(SendingRefused, "topic t: not all records were sent", "[kafka]"):
        send(rows((A, 0, 0, 0, b"x")))


def test_nothing_more_is_sent_of_a_source_that_breaks_off() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield rows((A, 0, 0, 0, b"x"))
        # Not delivered yet.
        made[0].queue.append(("t", 0, b"", b"", None))
        raise OSError("broke off")

    with raising(OSError, "broke off"):
        Sending(Kafka("b:1"), "t", RULES, LoadedRows()).send(broken())
    assert not made[0].queue


def test_no_batch_is_larger_than_the_topic_takes() -> None:
    send(rows((A, 0, 0, 0, b"x")))
    assert made[0].settings["message.max.bytes"] == made[0].settings["batch.size"] == 100_000
    assert made[0].settings["enable.idempotence"] is True
