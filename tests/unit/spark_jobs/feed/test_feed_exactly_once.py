"""Kills at every moment, against a model of the topic: each event once, one key's order held.

The model's broker takes what is sent to a partition in order, and when the producer is killed each
partition holds some prefix of what was sent to it: more than was acknowledged, less than was sent.
"""

from __future__ import annotations

import random
from collections import Counter
from zlib import crc32

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.common.feed.event import Event
from spark_jobs.common.feed.reader import RecentIds
from spark_jobs.common.feed.resume import StreamPosition, stream_position, tail_of
from spark_jobs.common.feed.sender import record_headers
from spark_jobs.common.feed.window import Entry, Window

PARTITIONS = 3
MOST = 8
EVENTS = 150
KEYS = 7


def partition_of(key: int) -> int:
    return crc32(b"%d" % key) % PARTITIONS


class Broker:
    """``began``: the event with which the first producer began that got a record into the topic."""

    def __init__(self) -> None:
        self.began = 0
        self.log: list[list[tuple[int, StreamPosition]]] = [[] for _ in range(PARTITIONS)]
        self.sent: list[list[tuple[int, StreamPosition, Entry]]] = [[] for _ in range(PARTITIONS)]

    def take(self, partition: int, settle: bool, window: Window) -> None:
        """Append the oldest record that was sent there; its producer learns of it, or not yet."""
        if self.sent[partition]:
            n, said, entry = self.sent[partition].pop(0)
            self.log[partition].append((n, said))
            if settle:
                window.acknowledge(entry)

    def tail(self, depth: int) -> list[StreamPosition]:
        return [said for log in self.log for _, said in log[-depth:]]


def run_process(broker: Broker, steps: int, draw: random.Random, new: int, depth: int = MOST + 2) -> bool:
    """One producer until it is killed after so many steps; whether it came to the feed's end first.
    ``new``: the event with which it begins where it has nothing to resume from."""
    tail = tail_of(broker.tail(depth), {}, "feed")
    window = Window(MOST, tail.resume)
    sequence = tail.next_sequence
    recent_ids = RecentIds(1_000, tail.ids)
    # A position is the number of the event behind which it is; now and then a few come again. None does that
    # came before anybody listened: its order among the others would mean nothing.
    if tail.resume is None:
        broker.began = n = new
    else:
        n = max(broker.began, int(tail.resume) + 1 - draw.randrange(3))
    unlearned: list[Entry] = []
    for _ in range(steps):
        if n >= EVENTS and not any(broker.sent):
            return True
        if n < EVENTS and draw.random() < 0.6 and window.has_room(0):
            key = (n * 7919) % KEYS
            if not recent_ids.is_duplicate(str(n)):
                headers = record_headers(Event(str(n)), sequence, "feed", window.resume_position(str(n)))
                sequence += 1
                said = stream_position(headers)
                assert said is not None
                broker.sent[partition_of(key)].append((n, said, window.add(str(n))))
            else:
                window.skip(str(n))
            n += 1
        else:
            # One partition is slower than the others.
            partition = draw.choice([0, 1, 1, 1, 2, 2, 2])
            is_conclusive = draw.random() < 0.8 and not unlearned
            before = broker.sent[partition][:1]
            broker.take(partition, is_conclusive, window)
            if before and not is_conclusive:
                unlearned.append(before[0][2])
            if unlearned and draw.random() < 0.5:
                window.acknowledge(unlearned.pop(0))
    for partition in range(PARTITIONS):
        for _ in range(draw.randrange(len(broker.sent[partition]) + 1)):
            broker.take(partition, False, window)
        broker.sent[partition].clear()
    return False


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_each_event_once_and_in_order_whatever_is_killed(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311
    broker = Broker()
    for began in range(12):
        run_process(broker, draw.randrange(1, 60), draw, new=5 * began)
    assert run_process(broker, 10**6, draw, new=60)
    counted = Counter(n for log in broker.log for n, _ in log)
    assert set(counted.values()) == {1}, {n: often for n, often in counted.items() if often > 1}
    # What came before the first that is in the topic, came before anybody listened.
    assert sorted(counted) == list(range(min(counted), EVENTS))
    for log in broker.log:
        for key in range(KEYS):
            of_key = [n for n, _ in log if (n * 7919) % KEYS == key]
            assert of_key == sorted(of_key)
