"""Kills at every moment, against a model of the topic: each event once, one key's order held.

The model's broker takes what is sent to a partition in order, and when the producer is killed each
partition holds some prefix of what was sent to it: more than was acknowledged, less than was sent. Other
programs write to the topic, and retention deletes its oldest records.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from zlib import crc32

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.config.sections.feed import Feed
from spark_jobs.common.feed.event import Event
from spark_jobs.common.feed.position import (
    PositionUnknown,
    SavedPosition,
    Start,
    StreamPosition,
    read_starts,
    resume,
)
from spark_jobs.common.feed.progress import Progress
from spark_jobs.common.feed.reader import RecentIds
from spark_jobs.common.feed.resume import stream_position, tail_of
from spark_jobs.common.feed.run import TAIL_FACTOR
from spark_jobs.common.feed.sender import record_headers
from spark_jobs.common.feed.window import Entry, Window

PARTITIONS = 3
MOST = 8
EVENTS = 150
KEYS = 7
NAME, TOPIC_ID = "feed", "id"
FEED = Feed("https://feed.test/", "a", "id", "e:read", max_in_flight=MOST)
# A record of another program has no position.
Record = tuple[int, StreamPosition | None]


def partition_of(key: int) -> int:
    return crc32(b"%d" % key) % PARTITIONS


@dataclass
class Broker:
    """``began``: the event with which the first producer began that got a record into the topic. ``saved``:
    in PostgreSQL. ``begins``: what retention has left of each partition."""

    began: int = 0
    log: list[list[Record]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    sent: list[list[tuple[int, StreamPosition, Entry]]] = field(
        default_factory=lambda: [[] for _ in range(PARTITIONS)]
    )
    begins: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    saved: SavedPosition | None = None

    def take(self, partition: int, settle: bool, window: Window, progress: Progress) -> None:
        """Append the oldest record that was sent there; its producer learns of it, or not yet."""
        if self.sent[partition]:
            n, said, entry = self.sent[partition].pop(0)
            self.log[partition].append((n, said))
            if settle:
                progress.acknowledge(said.sequence, said.event_id, partition, len(self.log[partition]) - 1)
                window.acknowledge(entry)

    def write_foreign(self, draw: random.Random, most: int) -> None:
        for log in self.log:
            log.extend([(-1, None)] * draw.choice([0, 0, draw.randrange(most)]))

    def retain(self, draw: random.Random) -> None:
        """Delete the oldest records, or all: retention by time does not reach into the last seconds only."""
        sequences = [said.sequence for log in self.log for _, said in log if said is not None]
        whole, kept = draw.random() < 0.5, max(sequences, default=0) - 4 * MOST
        for partition, log in enumerate(self.log):
            recent = (offset for offset, (_, said) in enumerate(log) if said and said.sequence > kept)
            end = len(log) if whole else next(recent, len(log))
            self.begins[partition] = max(self.begins[partition], end)

    def start(self, limit: int) -> Start:
        bounds = {p: (self.begins[p], len(log)) for p, log in enumerate(self.log)}
        depth = TAIL_FACTOR * MOST
        starts, is_complete = read_starts(self.saved, TOPIC_ID, bounds, depth, limit)
        records = [
            replace(said, place=(p, offset))
            for p, log in enumerate(self.log)
            for offset, (_, said) in enumerate(log)
            if said is not None and offset >= starts[p]
        ]
        tail = tail_of(records, TOPIC_ID, bounds, starts, is_complete)
        return resume(tail, self.saved, NAME, FEED)

    def events(self) -> Counter[int]:
        return Counter(n for log in self.log for n, _ in log if n >= 0)


def run_process(broker: Broker, steps: int, draw: random.Random, new: int, limit: int = 10**6) -> bool:
    """One producer until it is killed after so many steps; whether it came to the feed's end first.
    ``new``: the event with which it begins where it has nothing to resume from. Raises PositionUnknown."""
    start = broker.start(limit)
    window, progress = Window(MOST, start.position), Progress(NAME, start, MOST)
    sequence = start.next_sequence
    recent_ids = RecentIds(1_000, start.ids)

    def save(with_ids: bool = False) -> None:
        saved = progress.saved(window.low_water_mark, sequence, 0, with_ids=with_ids)
        kept = broker.saved.ids if broker.saved and not with_ids else saved.ids
        broker.saved = SavedPosition.parse(saved.dump(), json.dumps(kept))

    save(with_ids=True)
    # A position is the number of the event behind which it is; now and then a few come again. None does that
    # came before anybody listened: its order among the others would mean nothing.
    if start.position is None:
        broker.began = n = new
    else:
        n = max(broker.began, int(start.position) + 1 - draw.randrange(3))
    unlearned: list[tuple[StreamPosition, int, Entry]] = []
    for _ in range(steps):
        if n >= EVENTS and not any(broker.sent):
            return True
        if n < EVENTS and draw.random() < 0.6 and window.has_room(0):
            key = (n * 7919) % KEYS
            if not recent_ids.is_duplicate(str(n)):
                headers = record_headers(Event(str(n)), sequence, NAME, window.resume_position(str(n)))
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
            before = [(said, partition, entry) for _, said, entry in broker.sent[partition][:1]]
            broker.take(partition, is_conclusive, window, progress)
            if before and not is_conclusive:
                unlearned.append(before[0])
            if unlearned and draw.random() < 0.5:
                said, partition, entry = unlearned.pop(0)
                progress.acknowledge(said.sequence, said.event_id, partition, None)
                window.acknowledge(entry)
        if draw.random() < 0.1:
            save(with_ids=draw.random() < 0.3)
    if draw.random() < 0.3:
        # It is stopped, and waits for what is under way.
        for partition in range(PARTITIONS):
            while broker.sent[partition]:
                broker.take(partition, True, window, progress)
        for said, partition, entry in unlearned:
            progress.acknowledge(said.sequence, said.event_id, partition, None)
            window.acknowledge(entry)
        save(with_ids=True)
        return False
    for partition in range(PARTITIONS):
        for _ in range(draw.randrange(len(broker.sent[partition]) + 1)):
            broker.take(partition, False, window, progress)
        broker.sent[partition].clear()
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
@given(seed=st.integers(0, 2**32), foreign=st.booleans(), forgets=st.booleans())
def test_each_event_once_and_in_order_whatever_is_killed(seed: int, foreign: bool, forgets: bool) -> None:
    draw = random.Random(seed)  # noqa: S311
    broker = Broker()
    for began in range(12):
        run_process(broker, draw.randrange(1, 60), draw, new=5 * began)
        if foreign:
            broker.write_foreign(draw, 100)
        elif forgets:
            # The topic's newest records say the same as long as nothing hides them.
            broker.saved = None
    assert run_process(broker, 10**6, draw, new=60)
    assert_exactly_once(broker)


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(seed=st.integers(0, 2**32), limit=st.sampled_from([20, 10**6]), restores=st.booleans())
def test_each_event_once_or_the_position_is_unknown(seed: int, limit: int, restores: bool) -> None:
    draw = random.Random(seed)  # noqa: S311
    broker = Broker()
    kept: list[SavedPosition | None] = [None]
    try:
        for began in range(12):
            run_process(broker, draw.randrange(1, 60), draw, new=5 * began, limit=limit)
            kept.append(broker.saved)
            if draw.random() < 0.4:
                broker.write_foreign(draw, 60)
            if draw.random() < 0.2:
                broker.retain(draw)
            if restores and draw.random() < 0.2:
                broker.saved = draw.choice(kept)
        assert run_process(broker, 10**6, draw, new=60, limit=limit)
    except PositionUnknown:
        # What was sent so far is there once, and nothing was guessed.
        counted = broker.events()
        assert max(counted.values(), default=1) == 1
        return
    assert_exactly_once(broker)
