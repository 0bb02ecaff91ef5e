"""Waiting for a feed's events: when there are enough of them, and what ends the waiting before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from sluice.airflow.triggers.arrived import ArrivedTrigger
from sluice.clients.kafka.admin import TopicDescription
from sluice.core.errors import ClientError, Missing, Unreachable
from sluice.core.processes.status import ProcessState, ProcessStatus
from tests.support.supervision import connect

Offsets = dict[int, int] | ClientError


class Topic:
    """Answers with these offsets, in turn; the last again and again."""

    def __init__(self, *offsets: Offsets, topic_id: str = "t1") -> None:
        self.offsets, self.id = list(offsets), topic_id

    def ends(self, topic: str) -> dict[int, int]:
        assert topic == "wiki-changes"
        answer = self.offsets.pop(0) if len(self.offsets) > 1 else self.offsets[0]
        if isinstance(answer, ClientError):
            raise answer
        return answer

    def describe(self, topic: str) -> TopicDescription:
        return TopicDescription(self.id, 2)


def made(**more: Any) -> ArrivedTrigger:
    values: dict[str, Any] = {
        "stream": "wiki_changes", "deadline": 1e12, "poll_interval": 0.0, "grace": 30.0,
        "component": "producer", "start_offsets": {"0": 5}, "events": 6, "topic_id": "t1",
    }  # fmt: skip
    return ArrivedTrigger(**(values | more))


def fire(
    topic: Topic,
    state: Callable[[], ProcessState] = lambda: ProcessState.RUNNING,
    clock: Callable[[], float] = lambda: 0.0,
    **more: Any,
) -> dict[str, Any]:
    trigger = made(**more)
    trigger.clock = clock
    runtime = SimpleNamespace(status=lambda program: ProcessStatus(program, state()))
    connect(trigger, SimpleNamespace(kafka=topic, runtime=runtime))

    async def first() -> dict[str, Any]:
        payload: dict[str, Any] = (await anext(trigger.run())).payload
        return payload

    return asyncio.run(first())


def test_it_fires_when_so_many_came_in_all_partitions_together() -> None:
    # Partition 1 was added meanwhile.
    event = fire(Topic({0: 5}, {0: 9, 1: 1}, {0: 9, 1: 3}))
    assert event == {
        "outcome": "reached", "reason": "7 of 6 events arrived", "arrived": 7, "ends": {"0": 9, "1": 3},
    }  # fmt: skip


def test_a_producer_that_restarts_is_waited_for() -> None:
    states = iter([ProcessState.RUNNING, ProcessState.EXITED, ProcessState.STARTING])
    topic = Topic({0: 7}, {0: 8}, {0: 8}, {0: 20})
    assert fire(topic, lambda: next(states))["outcome"] == "reached"


def test_one_that_stays_down_is_not() -> None:
    event = fire(Topic({0: 7}), lambda: ProcessState.FATAL, grace=0.0)
    assert event["outcome"] == "permanent"
    assert "stream-wiki_changes-producer is FATAL" in event["reason"]


def test_at_the_deadline_it_tells_what_arrived() -> None:
    event = fire(Topic({0: 7}), deadline=0.0)
    assert (event["outcome"], event["arrived"], event["ends"]) == ("timed out", 2, {"0": 7})


def test_kafka_may_be_away_and_what_was_seen_before_counts() -> None:
    away = Unreachable("no answer from k:9092")
    assert fire(Topic(away, {0: 11}))["outcome"] == "reached"
    never = fire(Topic(away), deadline=0.0)
    assert (never["outcome"], "ends" in never, "k:9092" in never["reason"]) == ("timed out", False, True)

    clock = iter([0.0, 0.0, 10.0, 10.0])
    later = fire(Topic({0: 7}, away), clock=lambda: next(clock), deadline=5.0)
    assert (later["outcome"], later["ends"], "k:9092" in later["reason"]) == ("timed out", {"0": 7}, True)


def test_a_topic_that_was_recreated_or_deleted_ends_it_at_once() -> None:
    for topic in (Topic({0: 90}, topic_id="t2"), Topic(Missing("no topic"))):
        event = fire(topic)
        assert event["outcome"] == "permanent"
        assert "'wiki-changes'" in event["reason"]


def test_a_trigger_goes_on_elsewhere() -> None:
    path, kwargs = made().serialize()
    assert path == f"{ArrivedTrigger.__module__}.{ArrivedTrigger.__qualname__}"
    assert ArrivedTrigger(**kwargs).serialize() == (path, kwargs)
