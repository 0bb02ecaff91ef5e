"""The topic of a load is provisioned as declared, and only if it takes the producer's events."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

from sluice.airflow.operators.load.provision import ProvisionTopicOperator
from sluice.clients.kafka.broker_topics import TopicDiff
from sluice.clients.s3.objects import Bucket
from sluice.config.sections.topic import PROGRESS_TOPIC, Topic
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.loads.sending.topic import TIMESTAMP_BOUNDS
from sluice.loads.written import inventory
from tests.support import rides
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising
from tests.support.steps import NewTables, given


def test_a_load_s_topic_gets_the_bounds_beside_what_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    topics: list[Topic] = []

    def note(topic: Topic) -> TopicDiff:
        topics.append(topic)
        return TopicDiff(topic.name)

    monkeypatch.setattr(inventory, "record_before", lambda *_: None)
    step = ProvisionTopicOperator(task_id="provision_topic", stream="nyc_taxi")
    # A table that a load has made.
    lake = SimpleNamespace(position=lambda table: SimpleNamespace(ends={}))
    hook = SimpleNamespace(topics=SimpleNamespace(provision=note), lake=lake)
    step.__dict__ |= {"platform_hook": hook, "tables": NewTables(), "ledger": None}
    step.work(given(run_id="r"))
    declared = step.spec.topic
    assert topics == [replace(declared, config=declared.config | TIMESTAMP_BOUNDS), PROGRESS_TOPIC]


def test_a_declared_schema_is_registered_under_the_topics_subject(monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[tuple[str, str]] = []

    def register(subject: str, text: str) -> int:
        registered.append((subject, text))
        return 7

    monkeypatch.setattr(inventory, "record_before", lambda *_: None)
    step = ProvisionTopicOperator(task_id="provision_topic", stream="nyc_taxi")
    topics = SimpleNamespace(provision=lambda topic: TopicDiff(topic.name))
    lake = SimpleNamespace(position=lambda table: SimpleNamespace(ends={}))
    hook = SimpleNamespace(topics=topics, lake=lake, registry=SimpleNamespace(register=register))
    step.__dict__ |= {"platform_hook": hook, "tables": NewTables(), "ledger": None}
    step.work(given(run_id="r"))
    assert registered == []
    declared = replace(step.spec, topic=replace(step.spec.topic, registry=True))
    step.__dict__["spec"] = declared
    step.work(given(run_id="r"))
    assert registered == [("nyc-avro-topic-value", declared.schema_file.read_text())]


@pytest.mark.parametrize("taken", [8388608, 8388607])
def test_a_topic_that_takes_less_than_a_feeds_producer_sends_is_refused(
    taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The producer knows the declaration alone, and cuts larger events."""
    monkeypatch.setattr(inventory, "record_before", lambda *_: None)
    step = ProvisionTopicOperator(task_id="provision_topic", stream="wiki_changes")
    topics = SimpleNamespace(provision=lambda topic: TopicDiff(topic.name))
    kafka = SimpleNamespace(max_message_bytes=lambda _: taken)
    lake = SimpleNamespace(position=lambda table: None)
    step.__dict__["platform_hook"] = SimpleNamespace(topics=topics, kafka=kafka, lake=lake)
    step.__dict__ |= {"ledger": None, "tables": NewTables()}
    if taken == 8388608:
        step.work(given(run_id="r"))
        return
    with raising(Refused, "wiki-changes", "8388607", "8388608", 'Fix: declare "max.message.bytes" = 8388607'):
        step.work(given(run_id="r"))


GOOD, WRONG = "nyc_taxi/good.csv", "nyc_taxi/wrong.csv"


class FirstLoad:
    """A load of two objects, in one of which each row would be rejected. ``asked``: how often a topic was
    provisioned."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, position: Any = None, dag: str = "nyc_taxi_load"
    ) -> None:
        monkeypatch.setattr(inventory, "record_before", lambda *_: None)
        memory, self.asked = MemoryS3(), 0
        rows = [rides.taxi_ride(str(n)) for n in range(20)]
        for key, lines in ((GOOD, rows), (WRONG, [row.replace(" ", "T") for row in rows])):
            memory.objects["source", key] = "\n".join([rides.TAXI_HEADER, *lines]).encode()
        with DAG(dag, schedule=None):
            self.step = ProvisionTopicOperator(task_id="provision_topic", stream="nyc_taxi")
        hook = SimpleNamespace(
            topics=SimpleNamespace(provision=self.provision),
            lake=SimpleNamespace(position=lambda table: position),
            source=Bucket(memory.as_client(), "source"),
        )
        self.step.__dict__ |= {"platform_hook": hook, "tables": NewTables(), "ledger": None}

    def provision(self, topic: Topic) -> TopicDiff:
        self.asked += 1
        return TopicDiff(topic.name)

    def run(self, **params: Any) -> None:
        self.step.work(given(run_id="r", params=params))


@pytest.mark.parametrize(
    "params", [{}, {"source_prefix": "nyc_taxi/w"}, {"objects": [GOOD, WRONG], "source_prefix": "x"}]
)
def test_an_object_that_does_not_fit_is_refused_before_a_first_load_makes_a_table(
    params: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column keeps its type once there is a table: "declare the column as ..." would come too late."""
    load = FirstLoad(monkeypatch)
    with raising(Refused, WRONG, "each of the first 20 rows would be rejected") as caught:
        load.run(**params)
    assert (caught.value.code, load.asked) == (ErrorCode.ROWS_REJECTED, 0)


@pytest.mark.parametrize("params", [{"source_prefix": "nyc_taxi/g"}, {"objects": [GOOD]}])
def test_a_first_load_of_others_is_none_of_its_matters(
    params: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    load = FirstLoad(monkeypatch)
    load.run(**params)
    assert load.asked == 2


def test_with_a_table_objects_are_left_to_the_task_that_knows_which_are_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load = FirstLoad(monkeypatch, position=SimpleNamespace(ends={}))
    load.run()
    assert load.asked == 2


def test_files_of_an_interval_are_left_to_the_task_that_finds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    load = FirstLoad(monkeypatch, dag="nyc_taxi_backfill")
    load.run()
    assert load.asked == 2
