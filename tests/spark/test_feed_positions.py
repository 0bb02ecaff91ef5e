"""A feed's position in its topic: moved from PostgreSQL once, and never guessed if it was lost."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Producer

from local.replay import frames
from local.services import postgres
from sluice.config.sections.topic import POSITIONS_TOPIC
from sluice.core.processes import exits
from spark_jobs.common.feed.former import Former, lock_key
from spark_jobs.common.feed.position import SavedPosition
from spark_jobs.common.feed.records import EVENT_ID, FEED, POSITION, SEQUENCE, ids_key, position_key
from spark_jobs.common.kafka.offsets import Topic
from tests.spark.test_feed import assert_exactly_once, numbers
from tests.support.faulty_replay import FaultyReplay
from tests.support.feeding import NAME, PARTITIONS, TOPIC, Feeding, ProducerProcess, murmur2, wait_for
from tests.support.services import Services

# As release 0.1.0 made its table and wrote into it.
CREATE = """
create table if not exists sluice_feed_positions (
  stream text primary key, position text not null, ids text not null, saved_at timestamptz not null
)"""
SAVE = """
insert into sluice_feed_positions (stream, position, ids, saved_at) values (%s, %s, coalesce(%s, '[]'), now())
on conflict (stream) do update set position = excluded.position, saved_at = excluded.saved_at,
  ids = excluded.ids"""
Feed = Callable[..., Feeding]


def position_of(replay: FaultyReplay, number: int) -> str:
    """The feed's position behind an event."""
    return frames.sse_id(replay.feed, number)


class Earlier:
    """A producer of release 0.1.0: its records on the topic, and its row."""

    def __init__(self, feeding: Feeding, replay: FaultyReplay) -> None:
        self.feeding, self.replay = feeding, replay
        self.name = "127.0.0.1/v2/stream/recentchange"
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self.tail_starts = dict(self.ends)

    def send(self, events: range) -> None:
        """Without a transaction."""
        producer = Producer({**self.feeding.services.kafka, "log_level": 0})
        for number in events:
            data = self.replay.feed.data(number)
            key = json.loads(data)["wiki"].encode()
            headers: list[tuple[str, str | bytes | None]] = [
                (EVENT_ID, self.replay.feed.event_id(number).encode()),
                (SEQUENCE, b"%d" % (number + 1)),
                (FEED, self.name.encode()),
                (POSITION, position_of(self.replay, max(number - 3, 0)).encode()),
            ]
            partition = murmur2(key) % PARTITIONS
            producer.produce(TOPIC, data.encode(), key, partition, headers=headers)
            self.ends[partition] += 1
        assert producer.flush(30) == 0

    def save(self, acknowledged: int, *, with_ids: bool) -> None:
        """Up to this event, which has a number one less than its sequence."""
        row: dict[str, Any] = {
            "topic_id": self.topic_id(),
            "feed": self.name,
            "position": position_of(self.replay, acknowledged - 1),
            "acknowledged": acknowledged,
            "next_sequence": acknowledged + 1,
            "first_sequence": 1,
            "ends": self.ends,
            "tail_starts": self.tail_starts,
            "read_at": time.time(),
            "ids_sequence": acknowledged if with_ids else 0,
            "decision": None,
        }
        ids = [self.replay.feed.event_id(number) for number in range(acknowledged)] if with_ids else []
        with postgres.cursor(self.feeding.services.stack.context, "lake") as cursor:
            cursor.execute("set role lake_writer")
            cursor.execute(CREATE)
            cursor.execute(SAVE, (NAME, json.dumps(row, sort_keys=True), json.dumps(ids)))

    def topic_id(self) -> str:
        return Topic(self.feeding.services.stack.platform("producer").kafka, TOPIC).id()

    def rows(self) -> list[Any]:
        with postgres.cursor(self.feeding.services.stack.context, "lake") as cursor:
            cursor.execute("select stream from sluice_feed_positions where stream = %s", (NAME,))
            return list(cursor.fetchall())


@pytest.mark.parametrize("was_killed", [pytest.param(False, marks=pytest.mark.exhaustive), True])
def test_a_position_of_release_0_1_0_goes_on_once(feed: Feed, was_killed: bool) -> None:
    total = 2_000
    with FaultyReplay(rate=0, total=total, retry_ms=100) as replay:
        feeding = feed(replay.url)
        earlier = Earlier(feeding, replay)
        earlier.send(range(500))
        earlier.save(500, with_ids=not was_killed)
        if was_killed:
            # After it had saved the position last.
            earlier.send(range(500, 620))
        producer = feeding.start()
        records = feeding.finish(producer, total)
        assert_exactly_once(replay, records, range(total))
        assert "position moved from PostgreSQL" in producer.log
        assert earlier.rows() == []
        saved = feeding.saved()
        assert saved is not None
        assert not saved.is_former

        # A row that is there again is not used: neither for the position in Kafka, nor for none.
        earlier.save(500, with_ids=True)
        producer = feeding.start()
        wait_for("a start", lambda: "connected position=" in producer.log)
        producer.stop()
        assert len(feeding.records()) == total
        assert len(earlier.rows()) == 1


def test_a_producer_of_release_0_1_0_that_still_runs_is_not_joined(feed: Feed, services: Services) -> None:
    with FaultyReplay(rate=0, total=100, retry_ms=100) as replay:
        feeding = feed(replay.url, lock_seconds=1)
        earlier = Earlier(feeding, replay)
        earlier.send(range(50))
        earlier.save(50, with_ids=True)
        with postgres.cursor(services.stack.context, "lake") as cursor:
            cursor.execute("select pg_advisory_lock(%s)", (lock_key(NAME),))
            producer = feeding.start()
            assert producer.ends() == exits.FENCED, producer.log
            assert "of an earlier release" in producer.log.splitlines()[-1]
        assert_exactly_once(replay, feeding.finish(feeding.start(), 100), range(100))


@pytest.mark.exhaustive
def test_a_row_that_a_killed_start_left_is_deleted_by_the_next(feed: Feed, services: Services) -> None:
    with FaultyReplay(rate=0, total=100, retry_ms=100) as replay:
        feeding = feed(replay.url)
        earlier = Earlier(feeding, replay)
        earlier.send(range(50))
        earlier.save(50, with_ids=True)
        with closing(Former(services.stack.platform("producer"), NAME)) as former:
            saved = former.load(5)
        assert saved is not None
        save(feeding, saved)
        assert_exactly_once(replay, feeding.finish(feeding.start(), 100), range(100))
        assert earlier.rows() == []


def save(feeding: Feeding, saved: SavedPosition) -> None:
    """Write a position past the producer."""
    producer = Producer({**feeding.services.kafka, "log_level": 0})
    producer.produce(POSITIONS_TOPIC.name, saved.dump_ids().encode(), ids_key(NAME), 0)
    producer.produce(POSITIONS_TOPIC.name, saved.dump().encode(), position_key(NAME), 0)
    assert producer.flush(30) == 0


def assert_asks(feeding: Feeding, reason: str) -> None:
    producer = feeding.start()
    assert producer.ends() == exits.CONFIGURATION, producer.log
    said = producer.log.splitlines()[-1]
    assert "SLU-309" in said
    assert reason in said


@pytest.mark.exhaustive
def test_a_topic_of_positions_that_was_lost_or_restored_is_no_start(feed: Feed) -> None:
    with FaultyReplay(rate=300, from_start=True, retry_ms=100) as replay:
        feeding = feed(replay.url)
        producer = feeding.start()
        wait_for("records", feeding.count, pause=0.02)
        backup = feeding.saved()
        assert backup is not None
        wait_for("more records", partial(lambda than: feeding.count() > than + 300, feeding.count()))
        producer.stop()
        count, ended = feeding.end(), feeding.saved()
        assert ended is not None

        save(feeding, backup)
        assert_asks(feeding, "the topic of positions was restored")
        delete_positions(feeding)
        producer = feeding.start()
        assert producer.ends() == 1, producer.log
        assert "SLU-203" in producer.log.splitlines()[-1]
        feeding.make_positions_topic()
        assert_asks(feeding, "no position is saved")
        assert feeding.end() == count, "nothing was sent"

        # The newest one was kept somewhere else.
        save(feeding, ended)
        records = feeding.finish(feeding.start(), ended.next_sequence + 300)
        assert_exactly_once(replay, records, range(len(records)))


def delete_positions(feeding: Feeding) -> None:
    admin, name = feeding.admin(), POSITIONS_TOPIC.name
    admin.delete_topics([name])[name].result(20)
    wait_for("the topic's end", lambda: name not in admin.list_topics(timeout=10).topics)


# keeps_hours in seconds, and one event by which the stream's own function fails.
SCRIPT = """
import os
import sys
from spark_jobs.common.feed import position, run
from spark_jobs.wiki_changes import events

def gap(feed, read_at, now):
    return f"not heard for {now - read_at:.0f} s" if now - read_at > KEEPS else ""

position.gap = run.gap = gap
read = events.read

def failing(data, position):
    event = read(data, position)
    if event.event_id == "BAD":
        raise ValueError("an event that ends the process")
    return event

events.read = failing
sys.exit(run.run("wiki_changes"))
"""


def script(keeps: int, bad: str = "") -> str:
    return SCRIPT.replace("KEEPS", str(keeps)).replace("BAD", bad)


class Forgetting(FaultyReplay):
    """Keeps its last events only: begins with these for a client that asks for an earlier one."""

    kept_from = 0

    def forget(self, seconds: float, rate: float) -> None:
        self.kept_from = self.state.following(time.time()) - int(seconds * rate)

    def first(self, position: str | None, since: str | None, now: float) -> int:
        return max(super().first(position, since, now), self.kept_from)


def assert_says_that_events_are_missing(producer: ProducerProcess) -> None:
    assert producer.ends() == exits.CONFIGURATION, producer.log
    said = producer.log.splitlines()[-1]
    assert "SLU-309" in said
    assert "not heard for" in said


@pytest.mark.exhaustive
def test_a_producer_that_was_suspended_for_longer_than_the_feed_keeps_events(feed: Feed) -> None:
    keeps, rate = 3, 100
    with Forgetting(rate=rate, retry_ms=100) as replay:
        feeding = feed(replay.url)
        producer = feeding.start(script(keeps))
        wait_for("events", lambda: feeding.count() > 100)
        producer.send(signal.SIGSTOP)
        # Some more events wait in the socket, and then the connection's end.
        replay.set_faults(cut_every=100, cut="drop", cut_times=1)
        time.sleep(2 * keeps)
        replay.forget(keeps, rate)
        replay.clear_faults()
        producer.send(signal.SIGCONT)
        assert_says_that_events_are_missing(producer)


@pytest.mark.exhaustive
def test_a_producer_that_one_event_ends_for_longer_than_the_feed_keeps_events(feed: Feed) -> None:
    keeps, rate = 15, 50
    with Forgetting(rate=rate, retry_ms=100) as replay:
        feeding = feed(replay.url)
        producer = feeding.start(script(keeps))
        wait_for("events", lambda: feeding.count() > 50)
        producer.stop()
        last = max(numbers(replay, feeding.records(), range(60_000)))
        failing = script(keeps, replay.feed.event_id(last + 20))
        stopped = time.monotonic()
        while time.monotonic() < stopped + 2 * keeps:
            producer = feeding.start(failing)
            if producer.ends() != 1:
                break
        # The bug is corrected.
        replay.forget(keeps, rate)
        assert_says_that_events_are_missing(feeding.start(script(keeps)))
