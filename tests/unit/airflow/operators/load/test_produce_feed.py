"""A load's step over a feed: it waits for what the stream's producer sends, from where the load began."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from sluice.airflow.operators.load.produce_feed import ProduceFeedOperator
from sluice.airflow.triggers.arrived import ArrivedTrigger
from sluice.clients.kafka.admin import TopicDescription
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.processes.restarts import RestartHistory
from sluice.core.processes.status import ProcessState, ProcessStatus
from sluice.ledger import keys
from sluice.loads.planning import plan as plans
from sluice.loads.sending import produced
from tests.support.raising import raising
from tests.support.steps import NewTables, given, ledger, triggered

URL = "http://127.0.0.1:9/replay"
PROGRAM = "stream-wiki_changes-producer"
REACHED = {"outcome": "reached", "reason": "6 of 6 events arrived", "arrived": 6, "ends": {"0": 9, "1": 2}}


class World:
    """A topic, a ledger, and the runtime and the history of the producer."""

    def __init__(self, state: ProcessState = ProcessState.EXITED) -> None:
        self.ledger = ledger("wiki_changes")
        self.stream = "wiki_changes.producer"
        self.offsets = {0: 5, 1: 0}
        self.state = state
        self.suspend: dict[str, Any] | None = None
        self.restarts = RestartHistory()
        self.started: list[str] = []
        self.platform = SimpleNamespace(feeds={"wiki_changes": URL})
        self.kafka = self.runtime = self.lake = self

    def ends(self, topic: str) -> dict[int, int]:
        assert topic == "wiki-changes"
        return self.offsets

    def describe(self, topic: str) -> TopicDescription:
        return TopicDescription("t1", len(self.offsets))

    def heads(self, *tables: str) -> dict[str, Any]:
        return {}

    def status(self, program: str) -> ProcessStatus:
        return ProcessStatus(program, self.state)

    def start(self, program: str) -> bool:
        self.started.append(program)
        self.state = ProcessState.RUNNING
        return True

    def tail(self, program: str) -> list[str]:
        return ["the feed: ConnectError: refused; connecting again in 1.0 s"]

    def suspended(self) -> dict[str, Any] | None:
        return self.suspend

    def restart_history(self, *_: Any) -> RestartHistory:
        return self.restarts

    def record(self, kind: str, *_: Any) -> None:
        assert kind == "start"

    def operator(self, stream: str = "wiki_changes") -> ProduceFeedOperator:
        made = ProduceFeedOperator(task_id="produce", stream=stream)
        made.__dict__ |= {
            "tables": NewTables(),
            "platform_hook": self,
            "ledger": self.ledger,
            "history": self,
        }
        return made

    def execute(self, run: str = "r", dag_run: Any = None, **params: Any) -> Any:
        values = {"events": 6, "minutes": 3, **params}
        return self.operator().execute(given(run_id=run, params=values, dag_run=dag_run))

    def waits(self, run: str = "r", **params: Any) -> ArrivedTrigger:
        """An attempt that waits: for what."""
        with pytest.raises(TaskDeferred) as deferred:
            self.execute(run, **params)
        assert isinstance(deferred.value.trigger, ArrivedTrigger)
        return deferred.value.trigger

    def resume(self, event: dict[str, Any], run: str = "r") -> dict[str, Any]:
        return self.operator().resume(given(run_id=run), event)

    def offsets_of(self, run: str) -> OffsetRanges:
        return produced.offsets_of_all(produced.of_run(self.ledger, run))

    def is_settled(self, run: str = "r") -> bool:
        return not any(produced.pending(self.ledger, plans.plan_of(self.ledger, run)))


def test_it_starts_the_producer_waits_and_records_the_offsets_that_the_next_steps_find() -> None:
    world = World()
    trigger = world.waits()
    assert world.started == [PROGRAM]
    assert (trigger.start_offsets, trigger.events, trigger.topic_id) == ({"0": 5, "1": 0}, 6, "t1")
    made = world.resume(REACHED)
    assert made == {
        "topic": "wiki-changes", "records": 6, "sources": 1, "sent_by_earlier_runs": 0, "verified_before": 0,
        "reverted": 0, "plan": world.ledger.uri(keys.run_key("r", "plan")),
        "produced": world.ledger.uri(keys.run_key("r", "produced")),
    }  # fmt: skip
    (source,) = plans.plan_of(world.ledger, "r")["sources"]
    assert (source["kind"], source["feed"]) == ("feed", URL)
    (document,) = produced.of_run(world.ledger, "r")["sources"].values()
    assert document["ranges"] == {"0": [5, 9], "1": [0, 2]}


def test_a_run_id_of_a_run_that_airflow_deleted_waits_for_no_events_of_then() -> None:
    world = World()
    world.waits()
    with raising(AirflowFailException, "SLU-306", "run id 'r'", "another run id"):
        world.execute(dag_run=triggered(31))


def test_a_producer_that_runs_is_left_alone() -> None:
    world = World(ProcessState.RUNNING)
    world.waits()
    assert world.started == []


def test_another_attempt_begins_where_the_first_did_and_ends_where_the_first_that_ended_well_did() -> None:
    world = World()
    world.waits()
    world.offsets = {0: 8, 1: 1}
    trigger = world.waits(max_quarantined_percent=50)
    assert (trigger.start_offsets, trigger.events) == ({"0": 5, "1": 0}, 6)
    first = world.resume(REACHED)
    assert world.resume(REACHED | {"ends": {"0": 19, "1": 2}}) == first
    assert world.execute() == first, "nothing is left to wait for"


@pytest.mark.parametrize(
    ("params", "data"), [({"events": 999}, ("events", "6", "999")), ({"minutes": 9}, ("minutes", "3", "9"))]
)
def test_a_run_id_that_is_used_again_for_other_events_is_refused(
    params: dict[str, Any], data: tuple[str, ...]
) -> None:
    world = World()
    world.waits()
    world.resume(REACHED)
    with raising(AirflowFailException, "SLU-306", "'r'", *data):
        world.execute(**params)


def test_runs_have_offsets_of_their_own() -> None:
    world = World()
    world.waits()
    world.offsets = {0: 8, 1: 1}
    assert world.waits("r2").start_offsets == {"0": 8, "1": 1}
    world.resume(REACHED)
    world.resume(REACHED, "r2")
    assert world.offsets_of("r2") == OffsetRanges.of({0: [(8, 9)], 1: [(1, 2)]})
    first, second = (plans.plan_of(world.ledger, run)["sources"] for run in ("r", "r2"))
    assert first[0]["source_id"] != second[0]["source_id"]


def test_fewer_events_are_enough_when_the_time_is_up() -> None:
    world = World()
    world.waits(events=1000)
    assert world.resume(REACHED | {"outcome": "timed out"})["records"] == 6


def test_a_partition_that_was_added_counts_from_its_first_offset() -> None:
    world = World()
    world.waits()
    world.resume(REACHED | {"ends": {"0": 9, "1": 2, "2": 4}})
    assert world.offsets_of("r").partitions[2].pairs() == ((0, 4),)


# Red. What the trigger saw, and whether another attempt could see something else.

RED: dict[str, tuple[dict[str, Any], type[AirflowException], tuple[str, ...]]] = {
    "no events": ({"outcome": "timed out", "reason": "0 of 6", "arrived": 0, "ends": {"0": 5, "1": 0}},
        AirflowFailException, ("no events", "0 of 6", URL, "ConnectError: refused")),
    "a producer that is down": ({"outcome": "permanent", "reason": f"{PROGRAM} is FATAL", "arrived": 2},
        AirflowFailException, (f"{PROGRAM} is FATAL", "ConnectError: refused")),
    "Kafka is away": ({"outcome": "timed out", "reason": "no answer"}, AirflowException, ("no answer", URL)),
}  # fmt: skip


@pytest.mark.parametrize(("event", "kind", "data"), RED.values(), ids=RED.keys())
def test_what_is_no_good_end_is_red_and_records_nothing(
    event: dict[str, Any], kind: type[AirflowException], data: tuple[str, ...]
) -> None:
    world = World()
    world.waits()
    with raising(AirflowException, *data) as caught:
        world.resume(event)
    assert type(caught.value) is kind
    assert not world.is_settled()
    world.waits()
    assert world.resume(REACHED)["records"] == 6, "another attempt goes on"


def test_a_suspended_producer_is_not_started_and_that_is_said() -> None:
    world = World()
    world.suspend = {"who": "kim", "at": "noon", "reason": "the wiki moves"}
    with raising(AirflowFailException, "producer", "wiki_changes", "kim since noon: the wiki moves"):
        world.execute()
    assert world.started == []
    # Meanwhile.
    with raising(AirflowFailException, "kim since noon"):
        world.resume({"outcome": "permanent", "reason": f"{PROGRAM} is STOPPED"})


def test_the_feeds_own_servers_are_not_asked_in_nobodys_name() -> None:
    world = World()
    world.platform.feeds.clear()
    with raising(AirflowFailException, "https://stream.wikimedia.org"):
        world.execute()
    assert world.started == []


def test_a_stream_without_a_feed_is_refused() -> None:
    with raising(AirflowFailException, "'nyc_taxi'"):
        World().operator("nyc_taxi").execute(given(run_id="r", params={}))


def test_a_topic_that_ends_before_the_load_began_is_refused() -> None:
    world = World()
    world.waits()
    with raising(AirflowFailException, "partition 0", "at 3"):
        world.resume(REACHED | {"ends": {"0": 3, "1": 9}})
    assert world.ledger.get(keys.run_key("r", "plan")) is not None
    assert not world.is_settled()
