"""The producer of a feed as it runs, against a real Kafka and PostgreSQL: whatever fails, each event once."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import cast

import pytest

from sluice.core.processes import exits
from spark_jobs.common.feed.client import Activity, Client, Frame
from spark_jobs.common.feed.event import Event
from spark_jobs.common.feed.position import SavedPosition
from spark_jobs.common.feed.sender import Sender
from spark_jobs.wiki_changes.events import rewind
from tests.support.faulty_replay import MALFORMED, FaultyReplay
from tests.support.feeding import FEED, PARTITIONS, SPEC, TOPIC, Feeding, Record, murmur2, wait_for
from tests.support.services import Services

SEED = 20261121
Feed = Callable[..., Feeding]


def numbers(replay: FaultyReplay, records: list[Record], events: range) -> list[int]:
    """Which event of the replayed stream each record is."""
    known = {replay.feed.event_id(n): n for n in events if replay.anomaly(n) not in MALFORMED}
    malformed = {replay.payload(n).encode(): n for n in events if replay.anomaly(n) in MALFORMED}
    return [known[r.event_id] if r.event_id in known else malformed[r.value] for r in records]


def assert_exactly_once(replay: FaultyReplay, records: list[Record], events: range) -> None:
    """Every event is in the topic once, as it was sent; those of one wiki in one partition and in order."""
    found = numbers(replay, records, events)
    assert sorted(found) == [n for n in events if replay.anomaly(n) != "canary"]
    sequences = [record.sequence for record in records]
    assert len(set(sequences)) == len(sequences)
    newest: dict[bytes, tuple[int, int]] = {}
    for n, record in zip(found, records, strict=True):
        assert record.value == replay.payload(n).encode()
        is_malformed = replay.anomaly(n) in MALFORMED
        assert record.key == (None if is_malformed else json.loads(replay.feed.data(n))["wiki"].encode())
        if record.key is not None:
            partition, before = newest.get(record.key, (record.partition, -1))
            assert (partition, before < n) == (record.partition, True)
            newest[record.key] = (record.partition, n)


@pytest.mark.exhaustive
@pytest.mark.parametrize("rounds", [1, pytest.param(4, marks=pytest.mark.exhaustive)])
def test_kills_at_random_moments(feed: Feed, services: Services, rounds: int) -> None:
    draw = random.Random(SEED)  # noqa: S311
    total = 10_000 * rounds
    with FaultyReplay(rate=0, total=total, retry_ms=100) as replay:

        def sends_more(than: int) -> Callable[[], bool]:
            return lambda: bool(replay.status()["frames"] > than)

        replay.set_faults(cut_every=1_000, cut="half", anomaly_every=97)
        feeding = feed(replay.url)
        for moment in ("whenever", "backpressured", "kafka stands") * rounds:
            producer, sent = feeding.start(), replay.status()["frames"]
            if moment == "whenever":
                time.sleep(draw.uniform(0.3, 2.5))
            else:
                wait_for("events", sends_more(sent), pause=0.01)
                time.sleep(draw.uniform(0, 0.2))
            if moment == "kafka stands":
                services.signal("kafka", signal.SIGSTOP)
                time.sleep(draw.uniform(0.05, 0.3))
            producer.kill()
            if moment == "kafka stands":
                time.sleep(draw.uniform(0, 0.3))
                services.signal("kafka", signal.SIGCONT)
        assert feeding.count() < total, "all was sent before the last kill"
        replay.clear_faults()
        producer = feeding.start()
        assert_exactly_once(replay, feeding.finish(producer, total), range(total))


@pytest.mark.exhaustive
def test_whatever_a_connection_does_and_whatever_comes(feed: Feed) -> None:
    with FaultyReplay(rate=0, total=5_000, retry_ms=50) as replay:
        replay.set_faults(anomaly_every=7, canary_every=50, cut_every=400, cut="end", repeat=30)
        feeding = feed(replay.url)
        wanted = sum(replay.anomaly(n) != "canary" for n in range(5_000))
        producer = feeding.start()
        for cut in ("end", "drop", "half", "half_end", "reset"):
            answered = len(replay.requests)
            replay.set_faults(cut=cut, cut_every=150)
            wait_for(f"two cuts: {cut}", partial(lambda before: len(replay.requests) > before + 1, answered))
        replay.set_faults(cut_every=0, bytes_per_second=200_000)
        sent = replay.status()["frames"]
        wait_for("slow events", lambda: replay.status()["frames"] > sent + 20, pause=0.01)
        replay.set_faults(cut_every=10, cut_times=1, refuse=3, retry_after=1, bytes_per_second=0)
        wait_for("three refusals", lambda: [a.status for a in replay.requests].count(503) == 3)
        records = feeding.finish(producer, wanted)
        assert_exactly_once(replay, records, range(5_000))
        assert len(records) == wanted
        keyed = [record for record in records if record.key is not None]
        assert [record.partition for record in keyed] == [murmur2(r.key or b"") % PARTITIONS for r in keyed]
        assert {request.user_agent for request in replay.requests} == {FEED.user_agent}


class Read:
    """What a client reads, in a thread of its own."""

    def __init__(self, url: str, read_timeout_seconds: float) -> None:
        self.stop = threading.Event()
        self.activity = Activity()
        # Tests need not wait for a whole second.
        seconds = cast(int, read_timeout_seconds)
        declared = replace(FEED, user_agent="Sluice/test", read_timeout_seconds=seconds)
        self.client = Client(url, declared, rewind, self.activity, self.stop)
        self.frames: list[Frame] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for frame in self.client.events(None):
            self.frames.append(frame)

    def end(self) -> None:
        self.stop.set()
        self.client.cut()
        self._thread.join(5)
        assert not self._thread.is_alive(), "cut did not wake it"


@pytest.mark.parametrize("fault", [{"silence_seconds": 1000.0}, {"cut": "hang", "cut_every": 100}])
def test_a_silent_connection_is_given_up_and_one_that_lives_is_not(fault: dict[str, object]) -> None:
    with FaultyReplay(rate=200, retry_ms=50, keep_alive_seconds=0.2, from_start=True) as replay:
        read = Read(replay.url, read_timeout_seconds=0.5)
        wait_for("events", lambda: len(read.frames) > 10)
        replay.set_faults(**fault)
        wait_for("another connection", lambda: len(replay.requests) >= 2)
        assert "ReadTimeout" in read.activity.error
        replay.clear_faults()
        # More than one connection brings before it hangs: what hung when it was healed is given up by then.
        got = len(read.frames)
        wait_for("more events", lambda: len(read.frames) > got + 150)
        asked, began = len(replay.requests), time.monotonic()
        replay.set_faults(bytes_per_second=2_000)
        wait_for("what takes longer than a silence may", lambda: time.monotonic() - began > 3 * 0.5)
        assert len(replay.requests) == asked, "slow is not silent"
        read.end()
        positions = [frame.position for frame in read.frames]
        assert len(set(positions)) == len(positions), "nothing twice"


def test_who_waits_for_a_silent_feed_is_woken_by_a_stop() -> None:
    with FaultyReplay(rate=0, total=3) as replay:
        read = Read(replay.url, read_timeout_seconds=600)
        wait_for("the events", lambda: len(read.frames) == 3)
        read.end()


def test_the_later_producer_goes_on_and_the_earlier_one_ends(feed: Feed) -> None:
    with FaultyReplay(rate=300, from_start=True) as replay:
        feeding = feed(replay.url)
        first = feeding.start()
        wait_for("records", feeding.count)
        second = feeding.start()
        assert first.ends() == exits.FENCED, first.log
        said = first.log.splitlines()[-1]
        assert "SLU-501" in said
        assert f"another producer of {SPEC.name}" in said
        wait_for("more records", lambda: feeding.count() > 600)
        assert second.process.poll() is None
        second.stop()
        records = feeding.records()
        assert_exactly_once(replay, records, range(len(records)))


@pytest.mark.exhaustive
def test_two_that_start_at_once_end_with_one(feed: Feed) -> None:
    with FaultyReplay(rate=300, from_start=True) as replay:
        feeding = feed(replay.url)
        both = [feeding.start(), feeding.start()]
        wait_for("one end", lambda: any(one.process.poll() is not None for one in both))
        (ended,) = (one for one in both if one.process.poll() is not None)
        assert ended.ends() == exits.FENCED, ended.log
        (left,) = (one for one in both if one is not ended)
        records = feeding.finish(left, feeding.count() + 300)
        assert_exactly_once(replay, records, range(len(records)))


@pytest.mark.parametrize("stopped_seconds", [3.0, pytest.param(330.0, marks=pytest.mark.exhaustive)])
def test_a_suspended_producer_sends_nothing_when_it_resumes(
    feed: Feed, services: Services, stopped_seconds: float
) -> None:
    """It has events in its queue, and a transaction that is open."""
    with FaultyReplay(rate=1_000, from_start=True, retry_ms=100) as replay:
        feeding = feed(replay.url)
        zombie = feeding.start()
        wait_for("records", lambda: feeding.count() > 500, pause=0.02)
        # Kafka stands still for a moment, so that its queue fills.
        services.signal("kafka", signal.SIGSTOP)
        time.sleep(0.3)
        zombie.send(signal.SIGSTOP)
        services.signal("kafka", signal.SIGCONT)
        successor = feeding.start()
        count = feeding.count()
        wait_for("the successor's records", lambda: feeding.count() > count + 1_000)
        time.sleep(stopped_seconds)
        zombie.send(signal.SIGCONT)
        assert zombie.ends() == exits.FENCED, zombie.log
        count = feeding.count()
        records = feeding.finish(successor, count + 1_000)
        assert_exactly_once(replay, records, range(len(records)))


@pytest.mark.exhaustive
def test_a_producer_that_was_suspended_alone_resumes(feed: Feed) -> None:
    """The broker has aborted its transaction: no other producer was there, so its runtime starts it again."""
    with FaultyReplay(rate=1_000, from_start=True, retry_ms=100) as replay:
        feeding = feed(replay.url)
        producer = feeding.start()
        wait_for("records", lambda: feeding.count() > 500, pause=0.02)
        # Most moments are within a transaction.
        producer.send(signal.SIGSTOP)
        time.sleep(330)
        producer.send(signal.SIGCONT)
        assert producer.ends() == 1, producer.log
        assert "SLU-509" in producer.log.splitlines()[-1]
        records = feeding.finish(feeding.start(), feeding.count() + 1_000)
        assert_exactly_once(replay, records, range(len(records)))


def test_a_kill_within_a_transaction_leaves_nothing_of_it(feed: Feed) -> None:
    with FaultyReplay(rate=500, from_start=True, retry_ms=100) as replay:
        feeding = feed(replay.url)
        producer = feeding.start()
        wait_for("records", feeding.count, pause=0.02)

        def is_within() -> bool:
            """Whether the topic has records behind those that are committed, and their markers."""
            producer.send(signal.SIGSTOP)
            saved = feeding.saved()
            assert saved is not None
            if feeding.end() > sum(saved.ends.values()) + 20:
                return True
            producer.send(signal.SIGCONT)
            return False

        wait_for("a transaction", is_within, pause=0.3)
        producer.kill()
        records = feeding.finish(feeding.start(), feeding.count() + 1_000)
        assert_exactly_once(replay, records, range(len(records)))
        # No number is missing, so none is of a record that is not committed.
        assert sorted(record.sequence for record in records) == [*range(1, len(records) + 1)]


@pytest.mark.exhaustive
def test_a_feed_knows_where_it_was_whatever_hides_or_empties_its_topic(
    feed: Feed, services: Services
) -> None:
    with FaultyReplay(rate=0, total=3_000, retry_ms=100) as replay:
        feeding = feed(replay.url)
        replay.set_faults(bytes_per_second=400_000)
        # Stopped and killed in turns; other programs' records fill the tail of each partition.
        for end in ("stop", "kill", "stop"):
            producer, before = feeding.start(), feeding.count()
            wait_for("records", partial(lambda than: feeding.count() > than + 200, before), pause=0.02)
            getattr(producer, end)()
            feeding.write_foreign(3_000)
        # It reads on, and is stopped; then retention deletes all.
        producer, before = feeding.start(), feeding.count()
        wait_for("records", lambda: feeding.count() > before + 50, pause=0.02)
        producer.stop()
        own = feeding.records()
        feeding.delete_records()
        replay.clear_faults()
        producer = feeding.start()
        # What was sent is not yet committed.
        wait_for("all events", lambda: feeding.count() >= 3_000 or producer.process.poll() is not None)
        producer.stop()
        assert_exactly_once(replay, [*own, *feeding.records()], range(3_000))

        # The topic is made again: what was saved is another topic's, and no one has to guess.
        feeding.recreate_topic()
        producer = feeding.start()
        assert producer.ends() == exits.CONFIGURATION
        said = producer.log.splitlines()[-1]
        assert "SLU-309" in said
        finding = said.split('finding = "')[1][:8]
        feeding.declare(f'[{SPEC.name}.feed.resume]\nfinding = "{finding}"\nposition = "saved"\n')
        producer = feeding.start()
        wait_for("a decision", lambda: "connected position=" in producer.log)
        assert f'"finding": "{finding}"' in producer.log
        producer.stop()
        assert feeding.records() == []
        # It held once.
        feeding.recreate_topic()
        assert feeding.start().ends() == exits.CONFIGURATION


def test_it_sends_heartbeats_while_its_source_is_away(feed: Feed) -> None:
    with FaultyReplay(rate=100, from_start=True, seed=7) as replay:
        feeding, port, start = feed(replay.url), replay.port, replay.feed.start
        producer = feeding.start_thread()

        def heartbeat_in(state: str, detail: str = "") -> Callable[[], bool]:
            def observed() -> bool:
                found = feeding.heartbeat()
                return found is not None and found[0]["state"] == state and detail in found[0]["detail"]

            return observed

        wait_for("a heartbeat", heartbeat_in("streaming"))
    gone = time.time()
    # At first it says how the connection ended.
    wait_for("connecting", heartbeat_in("connecting", "refused"))
    first = feeding.heartbeat()
    wait_for("another heartbeat", lambda: feeding.heartbeat() != first)
    second = feeding.heartbeat()
    assert first is not None
    assert second is not None
    (earlier, _), (later, ends) = first, second
    assert later["at"] > earlier["at"]
    assert later["pid"] == os.getpid()
    assert gone - 5 < later["since"] / 1000 <= gone + 1
    assert "refused" in later["detail"]
    assert sum(ends.values()) == feeding.end() > 0
    with FaultyReplay(rate=100, from_start=True, seed=7, port=port, start=start) as replay:
        wait_for("a heartbeat", heartbeat_in("streaming"), 90)
        producer.end()
        records = feeding.records()
        assert_exactly_once(replay, records, range(len(records)))


# Longer than the client's own timeouts, and shorter.
@pytest.mark.parametrize("down_seconds", [0.5, pytest.param(12.0, marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_it_waits_while_kafka_stands_still_and_while_it_is_down(
    feed: Feed, services: Services, down_seconds: float
) -> None:
    total = 20_000
    with FaultyReplay(rate=0, total=total, retry_ms=100) as replay:
        feeding = feed(replay.url, max_in_flight=500)
        # Else half of them are sent before the first commit is seen.
        replay.set_faults(bytes_per_second=4_000_000)
        producer = feeding.start()
        wait_for("records", feeding.count, pause=0.02)
        services.signal("kafka", signal.SIGSTOP)
        before, last_sent = replay.status()["sent"], -1

        def stands() -> bool:
            nonlocal last_sent
            earlier, last_sent = last_sent, replay.status()["sent"]
            return bool(last_sent == earlier)

        wait_for("an end of what is read ahead", stands, pause=1)
        services.signal("kafka", signal.SIGCONT)
        # What is read ahead is bounded; what the network holds is the server's.
        assert last_sent - before < total // 2
        count = feeding.count()
        assert count < total // 2
        wait_for("more records", lambda: feeding.count() > count, pause=0.02)
        replay.set_faults(bytes_per_second=2_000_000)
        services.crash("kafka", seconds=down_seconds)
        assert feeding.count() < total, "all was sent before it crashed"
        assert_exactly_once(replay, feeding.finish(producer, total), range(total))


def test_a_topic_that_is_not_there_is_said(feed: Feed) -> None:
    feeding = feed("http://127.0.0.1:9/v2/stream/recentchange")
    admin = feeding.admin()
    admin.delete_topics([TOPIC])[TOPIC].result(20)
    wait_for("the topic's end", lambda: TOPIC not in admin.list_topics(timeout=10).topics)
    producer = feeding.start()
    assert producer.ends() == 1
    said = producer.log.splitlines()[-1]
    assert "SLU-203" in said
    assert "provision_topic" in said


def test_what_is_too_long_for_the_topic_is_cut_and_says_so(feed: Feed, services: Services) -> None:
    feeding = feed("http://127.0.0.1:9/v2/stream/recentchange")
    # The topic of the test has the broker's limit, as a topic without a config of its own.
    topic = SPEC.topic.__class__(TOPIC, PARTITIONS)
    sender = Sender(services.stack.platform("producer").kafka, SPEC.name, topic, 10)
    sender.fence(lambda: False)
    sender.begin(SavedPosition("id", "f"))
    texts = ["x" * (2 << 20), "x" * sender.max_bytes, "short"]
    for text in texts:
        sender.send(Event(text[:1] + str(len(text)), key="k"), text, None, lambda: None)
    deadline = time.monotonic() + 30
    assert sender.commit(time.time(), lambda: time.monotonic() > deadline, with_ids=True)
    records = feeding.records()
    assert [record.value for record in records] == [text.encode()[: sender.max_bytes] for text in texts]
    assert [record.headers.get("original-size") for record in records] == [b"2097152", None, None]
    assert sum(sender.saved.ends.values()) == feeding.end() == 4
    sender.abandon()
