"""Kills at every moment, against a model of Kafka's transactions: each event once, one key's order held.

Of a transaction all is committed, or nothing; what was sent of an aborted one takes offsets all the same.
Other programs write to the topic, retention deletes its oldest records, and the topic of positions is
restored to an earlier state.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock
from zlib import crc32

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.platform_sections.kafka import Kafka
from sluice.config.sections.feed import Feed
from sluice.config.sections.topic import POSITIONS_TOPIC, Topic
from spark_jobs.common.feed import transaction
from spark_jobs.common.feed.event import Event
from spark_jobs.common.feed.position import FeedRecord, PositionUnknown, SavedPosition, Tail, resume
from spark_jobs.common.feed.reader import RecentIds
from spark_jobs.common.feed.records import feed_record, ids_key, position_key
from spark_jobs.common.feed.sender import Sender

PARTITIONS = 3
MOST = 8
EVENTS = 150
KEYS = 7
# Steps of a producer that is not killed.
WITHOUT_END = 10**6
STREAM, NAME, TOPIC_ID = "stream", "feed", "id"
FEED = Feed("https://feed.test/", "a", "id", "e:read", max_in_flight=MOST)
# A marker, a record of another program, and one of an aborted transaction hold nothing of the feed.
Record = tuple[int, FeedRecord | None]
NOTHING: Record = (-1, None)


@dataclass
class Broker:
    """``began``: the event with which the first producer began that committed one. ``saved``: the topic of
    positions, by key. ``begins``: what retention has left of each partition."""

    began: int = 0
    log: list[list[Record]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    begins: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    saved: dict[bytes, bytes] = field(default_factory=dict)

    def write_foreign(self, draw: random.Random, most: int) -> None:
        for log in self.log:
            log.extend([NOTHING] * draw.choice([0, 0, draw.randrange(most)]))

    def retain(self, draw: random.Random) -> None:
        """Delete the oldest records, or all: retention by time does not reach into the last seconds only."""
        sequences = [said.sequence for log in self.log for _, said in log if said is not None]
        whole, kept = draw.random() < 0.5, max(sequences, default=0) - 4 * MOST
        for partition, log in enumerate(self.log):
            recent = (offset for offset, (_, said) in enumerate(log) if said and said.sequence > kept)
            end = len(log) if whole else next(recent, len(log))
            self.begins[partition] = max(self.begins[partition], end)

    def position(self) -> SavedPosition | None:
        text = self.saved.get(position_key(STREAM))
        return None if text is None else SavedPosition.parse(text, self.saved.get(ids_key(STREAM)))

    def tail(self, saved: SavedPosition | None) -> Tail:
        starts = saved.ids_ends if saved else {}
        records = [
            said
            for partition, log in enumerate(self.log)
            for said in (said for _, said in log[max(starts.get(partition, 0), self.begins[partition]) :])
            if said is not None and saved is not None
        ]
        bounds = {p: (self.begins[p], len(log)) for p, log in enumerate(self.log)}
        return Tail(TOPIC_ID, "positions", bounds, sorted(records, key=lambda record: record.sequence))

    def events(self) -> Counter[int]:
        return Counter(n for log in self.log for n, _ in log if n >= 0)


class Producer:
    """librdkafka's. ``lost``: whether the answer to the next commit is lost, and its outcome."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.lost: bool | None = None
        # Partition and record, and who is told of its offset; then with the offset.
        self.queue: list[tuple[int, Record, Callable[[None, object], None]]] = []
        self.sent: list[tuple[int, int, Record]] = []
        self.saved: dict[bytes, bytes] = {}

    def begin_transaction(self) -> None:
        assert (self.queue, self.sent, self.saved) == ([], [], {}), "the last one has not ended"

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | None,
        partition: int,
        *,
        headers: Any,
        on_delivery: Callable[[None, object], None],
    ) -> None:
        if topic == POSITIONS_TOPIC.name:
            assert not self.queue, "the offsets of the events are not known"
            self.saved[key or b""] = value
            return
        said = feed_record(headers)
        assert said is not None
        record = int(said.event_id), said
        place = crc32(key or b"") % PARTITIONS
        self.queue.append((place, record, on_delivery))

    def deliver(self) -> None:
        """Append the oldest queued record, of which no reader learns yet."""
        place, record, on_delivery = self.queue.pop(0)
        self.broker.log[place].append(NOTHING)
        offset = len(self.broker.log[place]) - 1
        self.sent.append((place, offset, record))
        on_delivery(None, SimpleNamespace(partition=lambda: place, offset=lambda: offset))

    def flush(self, _: float) -> int:
        while self.queue:
            self.deliver()
        return 0

    def commit_transaction(self, _: float) -> None:
        if self.lost is not None and not self.lost:
            raise Killed
        for place, offset, record in self.sent:
            self.broker.log[place][offset] = record
        self.end()
        self.broker.saved = self.broker.saved | self.saved
        self.sent, self.saved = [], {}
        if self.lost:
            raise Killed

    def end(self) -> None:
        """A marker in each partition."""
        for place in {place for place, _, _ in self.sent}:
            self.broker.log[place].append(NOTHING)

    def poll(self, _: float) -> int:
        return 0


class Killed(Exception):
    """Ends the process within a request."""


def run_process(broker: Broker, steps: int, draw: random.Random, new: int) -> bool:
    """One producer until it is killed after so many steps; whether it came to the feed's end first.
    ``new``: the event with which it begins where it has nothing to resume from. Raises PositionUnknown."""
    producer = Producer(broker)
    with mock.patch.object(transaction, "Producer", return_value=producer):
        sender = Sender(Kafka("localhost:1"), STREAM, Topic("events", PARTITIONS), MOST)
    saved = broker.position()
    start = resume(broker.tail(saved), saved, NAME, FEED)
    sender.begin(start)
    recent_ids = RecentIds(1_000, start.ids)
    try:
        return _produce(broker, producer, sender, steps, draw, new, recent_ids)
    except Killed:
        return False
    finally:
        # Kafka ends its transaction when the next one fences it.
        producer.end()


def _produce(
    broker: Broker,
    producer: Producer,
    sender: Sender,
    steps: int,
    draw: random.Random,
    new: int,
    recent_ids: RecentIds,
) -> bool:
    def commit(with_ids: bool) -> None:
        assert sender.commit(5.0, lambda: False, with_ids=with_ids)

    commit(True)
    # A position is the number of the event behind which it is; now and then a few come again. None does that
    # came before anybody listened: its order among the others would mean nothing.
    position = sender.position
    if position is None:
        broker.began = n = new
    else:
        n = max(broker.began, int(position) + 1 - draw.randrange(3))
    for _ in range(steps):
        if n >= EVENTS and not sender.uncommitted:
            return True
        if n < EVENTS and sender.uncommitted < MOST and draw.random() < 0.7:
            if recent_ids.is_duplicate(str(n)):
                sender.skip(str(n))
            else:
                sender.send(Event(str(n), key=str((n * 7919) % KEYS)), "x", str(n), lambda: None)
            n += 1
        elif producer.queue and draw.random() < 0.5:
            producer.deliver()
        else:
            if steps < WITHOUT_END and draw.random() < 0.1:
                producer.lost = draw.random() < 0.5
            commit(draw.random() < 0.3)
    if draw.random() < 0.3:
        # It is stopped.
        commit(True)
    return False


def assert_exactly_once(broker: Broker) -> None:
    counted = broker.events()
    assert set(counted.values()) == {1}, {n: often for n, often in counted.items() if often > 1}
    # What came before the first that is in the topic, came before anybody listened.
    assert sorted(counted) == list(range(min(counted), EVENTS))
    for log in broker.log:
        for key in range(KEYS):
            of_key = [n for n, _ in log if n >= 0 and (n * 7919) % KEYS == key]
            assert of_key == sorted(of_key)


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(seed=st.integers(0, 2**32), foreign=st.booleans())
def test_each_event_once_and_in_order_whatever_is_killed(seed: int, foreign: bool) -> None:
    draw = random.Random(seed)  # noqa: S311
    broker = Broker()
    for began in range(12):
        run_process(broker, draw.randrange(1, 60), draw, new=5 * began)
        if foreign:
            broker.write_foreign(draw, 100)
    assert run_process(broker, WITHOUT_END, draw, new=60)
    assert_exactly_once(broker)


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(seed=st.integers(0, 2**32), restores=st.booleans())
def test_each_event_once_or_the_position_is_unknown(seed: int, restores: bool) -> None:
    draw = random.Random(seed)  # noqa: S311
    broker = Broker()
    kept: list[dict[bytes, bytes]] = [{}]
    try:
        for began in range(12):
            run_process(broker, draw.randrange(1, 60), draw, new=5 * began)
            kept.append(broker.saved)
            if draw.random() < 0.4:
                broker.write_foreign(draw, 60)
            if draw.random() < 0.2:
                broker.retain(draw)
            if restores and draw.random() < 0.2:
                broker.saved = draw.choice(kept)
        assert run_process(broker, WITHOUT_END, draw, new=60)
    except PositionUnknown:
        # What was sent so far is there once, and nothing was guessed.
        counted = broker.events()
        assert max(counted.values(), default=1) == 1
        return
    assert_exactly_once(broker)
