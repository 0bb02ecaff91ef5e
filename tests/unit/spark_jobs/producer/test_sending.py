"""Rows into records: keys, what is left out, and a failure that ends the attempt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from sluice.config.platform_sections.kafka import Kafka
from sluice.config.sending_rules import SendingRules
from sluice.core.offsets.deduplication import LoadedRows
from sluice.core.offsets.ranges import OffsetRanges
from spark_jobs.common.producer import sending
from spark_jobs.common.producer.sending import NotSent, NotTaken, Sending, SendingRefused
from tests.support.raising import raising

A, B = "a" * 16, "b" * 16
RULES = SendingRules(100_000, "d")


class Producer:
    """librdkafka with a queue of ``room`` records: a call that waits delivers one, or fails it with
    ``error``."""

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

    def poll(self, seconds: float) -> int:
        if not (seconds and self.queue):
            return 0
        record = self.queue.pop(0)
        if self.error is None:
            self.delivered.append(record)
        else:
            self.settings["on_delivery"](KafkaError(self.error), None)
        return 1

    def flush(self, seconds: float) -> int:
        self.poll(seconds)
        return len(self.queue)

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


def test_each_value_has_its_frame_and_what_has_none_stays_without() -> None:
    batch = rows((A, 0, 2, 0, b"x"), (A, 1, 0, 0, None), (A, 2, 1, 0, b""))
    assert send(batch, frame=b"\0\0\0\0\7") == {A: (3, 0)}
    assert [record[2:4] for record in made[0].delivered] == [
        (f"{A}:0:0".encode(), b"\0\0\0\0\7x"),
        (f"{A}:1:0".encode(), None),
        (f"{A}:2:0".encode(), b"\0\0\0\0\7"),
    ]


def test_what_was_sent_and_what_is_rejected_is_left_out_and_counted() -> None:
    batch = rows((A, 0, 0, 0, b"a"), (A, 1, 1, 0, b"b"), (A, 2, 0, None, None), (A, 4, 0, 1, b"c"))
    sent = LoadedRows({A: OffsetRanges.of({0: [(0, 1)]}), B: OffsetRanges.of({1: [(0, 9)]})})
    assert send(batch, sent=sent) == {A: (4, 1)}
    assert [record[2] for record in made[0].delivered] == [f"{A}:1:0".encode(), f"{A}:4:1".encode()]


def test_a_full_queue_makes_the_task_wait_and_keeps_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [(A, row, 0, row, b"x") for row in range(35)]
    # More than a step of Python's values.
    monkeypatch.setattr(sending, "_STEP", 7)
    assert send(rows(*many[:20]), rows(*many[20:])) == {A: (35, 0)}
    assert [record[2] for record in made[0].delivered] == [f"{A}:{row}:{row}".encode() for row in range(35)]


@pytest.mark.parametrize("count", [1, 12], ids=["at the end", "at a full queue"])
@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (KafkaError._MSG_TIMED_OUT, NotSent),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, SendingRefused),
        (KafkaError.MSG_SIZE_TOO_LARGE, NotTaken),
    ],
)
def test_a_record_that_is_not_delivered_fails_the_task(
    monkeypatch: pytest.MonkeyPatch, error: int, raised: type[Exception], count: int
) -> None:
    monkeypatch.setattr(Producer, "error", error)
    many = rows(*[(A, row, 0, row, b"x") for row in range(count)])
    with raising(raised, "topic t: not all records were sent", KafkaError(error).name()):
        send(many)
    assert not made[0].queue


def test_the_reason_of_a_lost_connection_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def flush(self: Producer, seconds: float) -> int:
        for code in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            self.settings["error_cb"](KafkaError(code, f"said {code}"))
        return self.poll(seconds)

    monkeypatch.setattr(Producer, "flush", flush)
    monkeypatch.setattr(Producer, "error", KafkaError._MSG_TIMED_OUT)
    with raising(NotSent, f"(said {KafkaError._TRANSPORT})"):
        send(rows((A, 0, 0, 0, b"x")))


def test_an_error_that_confluents_callback_raises_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def flush(self: Producer, seconds: float) -> int:
        denied = KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))
        raise SystemError("returned a result with an exception set") from denied

    monkeypatch.setattr(Producer, "flush", flush)
    with raising(SendingRefused, "CLUSTER_AUTHORIZATION_FAILED"):
        send(rows((A, 0, 0, 0, b"x")))


def test_a_refused_login_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def poll(self: Producer, seconds: float) -> int:
        self.settings["error_cb"](KafkaError(KafkaError._AUTHENTICATION))
        return 0

    monkeypatch.setattr(Producer, "poll", poll)
    with raising(SendingRefused, "topic t: not all records were sent", "[kafka]"):
        send(rows((A, 0, 0, 0, b"x")))


def test_a_fatal_error_ends_the_task_by_its_name_and_the_next_one_has_another_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fatal(self: Producer, *_: Any, **__: Any) -> None:
        raise KafkaException(KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER))

    with monkeypatch.context() as patched:
        patched.setattr(Producer, "produce", fatal)
        with raising(NotSent, "OUT_OF_ORDER_SEQUENCE_NUMBER"):
            send(rows((A, 0, 0, 0, b"x")))
    assert send(rows((A, 0, 0, 0, b"x"))) == {A: (1, 0)}
    assert [len(one.delivered) for one in made] == [0, 1]


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
    assert made[0].settings["acks"] == "all"
    assert 1024 * made[0].settings["queue.buffering.max.kbytes"] > 2 * 100_000
