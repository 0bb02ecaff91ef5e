"""A producer's transactions: when it commits, what it waits for, and how it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from sluice.config import streams
from sluice.config.platform_sections.kafka import Kafka
from spark_jobs.common.feed import run, transaction
from spark_jobs.common.feed.client import Frame
from spark_jobs.common.feed.event import Event, Source
from spark_jobs.common.feed.position import PositionUnknown, SavedPosition, Tail
from spark_jobs.common.feed.sender import Sender
from spark_jobs.common.feed.transaction import TRANSACTION_SECONDS, EpochEnded, Undelivered
from spark_jobs.common.spark.failures import Fenced
from tests.support.raising import raising

SPEC = streams.load("wiki_changes")
assert SPEC.feed is not None
FEED = SPEC.feed
URL, NAME = "https://feed.test/stream", "feed.test/stream"
KAFKA = Kafka("localhost:1")
EVENTS = 7


class Broker:
    """librdkafka's producer, with one partition. ``fails``: request -> its errors, one for each call;
    ``room``: records that its queue takes."""

    def __init__(self) -> None:
        self.fails: dict[str, list[KafkaError]] = {}
        self.room = 10**6
        self.refuses: KafkaError | None = None
        self.queue: list[Callable[[KafkaError | None, object], None]] = []
        self.offset = 0
        self.calls: list[str] = []

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.fails.get(name):
            raise KafkaException(self.fails[name].pop(0))

    def init_transactions(self, _: float) -> None:
        self._call("init")

    def begin_transaction(self) -> None:
        self._call("begin")

    def produce(self, topic: str, *_: object, on_delivery: Any, **__: object) -> None:
        if len(self.queue) >= self.room and topic == SPEC.topic.name:
            raise BufferError
        self._call("produce")
        self.queue.append(on_delivery)

    def flush(self, _: float) -> int:
        for answer in self.queue:
            answer(self.refuses, SimpleNamespace(partition=lambda: 0, offset=lambda: self.offset))
            self.offset += 1
        self.queue.clear()
        return 0

    def commit_transaction(self, _: float) -> None:
        self.flush(0)
        self._call("commit")

    def abort_transaction(self, _: float) -> None:
        self._call("abort")

    def poll(self, _: float) -> int:
        return 0

    def purge(self, **_: object) -> None:
        self.queue.clear()


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr(transaction, "Producer", lambda *_, **__: made)
    return made


@pytest.fixture
def sender(broker: Broker) -> Sender:
    made = Sender(KAFKA, SPEC.name, SPEC.topic, EVENTS)
    made.begin(SavedPosition("one", NAME, ends={0: 0}))
    return made


def send(sender: Sender, *numbers: int) -> None:
    for number in numbers:
        sender.send(Event(f"e{number}"), "x", f"p{number}", pytest.fail)


def commit(sender: Sender, with_ids: bool = False) -> bool:
    return sender.commit(5.0, lambda: True, with_ids=with_ids)


def test_events_and_position_are_one_transaction(broker: Broker, sender: Sender) -> None:
    send(sender, 1, 2)
    sender.skip("p3")
    assert commit(sender)
    assert broker.calls == ["begin", "produce", "produce", "produce", "commit"]
    saved = sender.saved
    assert (saved.position, saved.next_sequence, saved.read_at) == ("p3", 3, 5.0)
    # Behind the second event is the marker.
    assert (saved.ends, saved.ids_sequence, sender.unsaved_ids) == ({0: 3}, 0, 2)
    assert commit(sender, with_ids=True)
    assert (sender.saved.ids_sequence, sender.saved.ids_ends, sender.unsaved_ids) == (2, {0: 3}, 0)


def test_a_commit_is_due_a_while_after_the_first_event_or_when_it_is_full(sender: Sender) -> None:
    assert not sender.wait(0.0, 0.0), "nothing is there to commit"
    send(sender, 1)
    assert not sender.wait(0.0, 60.0)
    assert sender.wait(60.0, 0.0)
    send(sender, *range(2, EVENTS + 1))
    # One more event waits for the commit.
    last = threading.Thread(target=sender.send, args=(Event("e"), "x", "p", lambda: None), daemon=True)
    last.start()
    assert sender.wait(60.0, 60.0)
    assert sender.uncommitted == EVENTS
    assert commit(sender)
    last.join(10)
    assert (sender.uncommitted, sender.position) == (1, "p")


def test_an_event_waits_for_a_full_queue_until_it_is_told_to_end(broker: Broker, sender: Sender) -> None:
    class Stopped(Exception):
        pass

    def stop() -> None:
        raise Stopped

    broker.room = 1
    send(sender, 1)
    with pytest.raises(Stopped):
        sender.send(Event("e2"), "x", "p2", stop)
    # It may come again: it was not sent.
    assert (sender.position, sender.uncommitted) == ("p1", 1)
    assert commit(sender, with_ids=True)
    assert sender.saved.position == "p1"


def test_nothing_is_sent_once_it_is_abandoned(broker: Broker, sender: Sender) -> None:
    class Stopped(Exception):
        pass

    def stop() -> None:
        raise Stopped

    send(sender, 1)
    sender.abandon()
    assert broker.calls[-1] == "abort"
    with pytest.raises(Stopped):
        sender.send(Event("e2"), "x", "p2", stop)
    assert broker.calls.count("produce") == 1


def test_a_commit_without_an_answer_is_repeated_until_it_is_given_up(broker: Broker, sender: Sender) -> None:
    slow = KafkaError(KafkaError._TIMED_OUT, "slow", retriable=True)
    send(sender, 1)
    broker.fails["commit"] = [slow, slow]
    assert sender.commit(5.0, lambda: False, with_ids=False)
    broker.fails["commit"] = [slow]
    assert not commit(sender)
    assert sender.saved.position == "p1"


@pytest.mark.parametrize("request_", ["begin", "commit"])
@pytest.mark.parametrize("code", [KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH])
def test_a_new_epoch_is_told_apart_from_other_errors(
    broker: Broker, sender: Sender, request_: str, code: int
) -> None:
    broker.fails[request_] = [KafkaError(code, "old epoch", fatal=True)]
    with raising(EpochEnded, "old epoch"):
        commit(sender)
    broker.fails[request_] = [KafkaError(KafkaError._TIMED_OUT, "lost", txn_requires_abort=True)]
    with raising(Undelivered, "lost", SPEC.name):
        commit(sender)


def test_an_event_that_was_refused_fails_the_commit_with_its_reason(broker: Broker, sender: Sender) -> None:
    send(sender, 1)
    broker.refuses = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "denied")
    with raising(Undelivered, "denied"):
        commit(sender)
    assert "commit" not in broker.calls


@pytest.mark.parametrize(
    ("instance", "seconds", "expected", "named"),
    [
        ("another", 0.0, Fenced, "has started"),
        ("another", TRANSACTION_SECONDS + 60.0, Fenced, "has started"),
        ("own", 5.0, Fenced, "is starting"),
        ("own", TRANSACTION_SECONDS + 60.0, Undelivered, "360 s"),
    ],
)
def test_who_ended_the_epoch(
    monkeypatch: pytest.MonkeyPatch, instance: str, seconds: float, expected: type[Exception], named: str
) -> None:
    saved = SavedPosition("one", NAME, instance=instance)
    monkeypatch.setattr(run, "load_position", lambda *_: saved)
    found = run.ended(EpochEnded("old epoch", seconds), KAFKA, SPEC.name, "own")
    assert type(found) is expected
    assert named in str(found)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (EpochEnded("old epoch", TRANSACTION_SECONDS - 1.0), Fenced),
        (EpochEnded("old epoch", TRANSACTION_SECONDS + 1.0), Undelivered),
        (Undelivered("Message timed out"), Undelivered),
    ],
)
def test_a_fenced_producer_does_not_fence_its_successor_while_the_position_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, error: EpochEnded | Undelivered, expected: type[Exception]
) -> None:
    def hang(*_: object) -> None:
        raise TimeoutError("a transaction of another feed is open")

    monkeypatch.setattr(run, "load_position", hang)
    assert type(run.ended(error, KAFKA, SPEC.name, "own")) is expected


def test_a_client_that_gave_up_may_have_a_successor(monkeypatch: pytest.MonkeyPatch) -> None:
    error = Undelivered("Message timed out")
    saved = SavedPosition("one", NAME, instance="own")
    monkeypatch.setattr(run, "load_position", lambda *_: saved)
    assert run.ended(error, KAFKA, SPEC.name, "own") is error
    assert isinstance(run.ended(error, KAFKA, SPEC.name, "earlier"), Fenced)

    def away(*_: object) -> None:
        raise TimeoutError("no answer")

    monkeypatch.setattr(run, "load_position", away)
    assert run.ended(error, KAFKA, SPEC.name, "own") is error


class Client:
    """A feed of EVENTS events that stays open."""

    def __init__(self, *given: Any) -> None:
        self._stop: threading.Event = given[-1]

    def events(self, _: str | None) -> Iterator[Frame]:
        for number in range(1, EVENTS + 1):
            yield Frame("message", f"e{number}", f"p{number}", None)
        self._stop.wait()

    def cut(self) -> None:
        pass


def test_ids_are_saved_now_and_then_for_what_retention_deletes(
    broker: Broker, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "Client", Client)
    monkeypatch.setattr(run, "COMMIT_SECONDS", 0.0)
    monkeypatch.setattr(run.HeartbeatSender, "send", lambda *_, **__: True)
    source, begin = Source(lambda data, _: Event(data), str), SavedPosition("one", NAME, read_at=time.time())
    producer = run.FeedProducer(SPEC, FEED, URL, KAFKA, source, begin, sender)
    producer.ids_seconds = 0
    stop = threading.Event()
    done = threading.Thread(target=producer.run_until, args=[stop], daemon=True)
    done.start()
    deadline = time.monotonic() + 10
    while sender.saved.ids_sequence < EVENTS and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (sender.saved.position, sender.saved.ids_sequence) == (f"p{EVENTS}", EVENTS)
    stop.set()
    done.join(10)
    assert not done.is_alive()


def test_records_that_a_later_producer_cut_off_are_no_failure_of_this_one(
    broker: Broker, sender: Sender
) -> None:
    """librdkafka drops what it has not sent, and says why behind that."""
    send(sender, 1)
    broker.refuses = KafkaError(KafkaError._PURGE_QUEUE)
    broker.fails["begin"] = [KafkaError(KafkaError._FENCED)]
    with raising(EpochEnded, "_FENCED"):
        commit(sender)


def test_an_error_that_the_client_does_not_set_is_asked_for(
    broker: Broker, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flush(_: float) -> int:
        raise SystemError("<method 'flush'> returned NULL without setting an exception")

    send(sender, 1)
    monkeypatch.setattr(broker, "flush", flush)
    broker.fails["begin"] = [KafkaError(KafkaError._FENCED)]
    with raising(EpochEnded, "_FENCED"):
        commit(sender)
    broker.fails["begin"] = [KafkaError(KafkaError._STATE)]
    with raising(SystemError, "returned NULL"):
        sender._transactions._serve(lambda: flush(0))


def test_an_unknown_position_that_a_later_producer_has_saved_meanwhile_is_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later = SavedPosition("one", NAME, ends={0: 3}, instance="later")
    answers: list[SavedPosition | None] = [None, later]
    monkeypatch.setattr(run, "load_position", lambda *_: answers.pop(0))
    monkeypatch.setattr(run, "read_tail", lambda *_: Tail("one", "positions", {0: (0, 3)}))
    former: Any = SimpleNamespace(load=lambda _: None)
    with raising(Fenced, "another producer of wiki_changes has started"):
        run.find_start(SPEC, FEED, URL, KAFKA, former)
    # Nothing was saved meanwhile: what the topic has is of unknown origin.
    answers += [None, None]
    with raising(PositionUnknown):
        run.find_start(SPEC, FEED, URL, KAFKA, former)
