"""The topic of a load is provisioned as declared, and only if it takes the producer's events."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from sluice.airflow.operators.load.provision import ProvisionTopicOperator
from sluice.clients.kafka.broker_topics import TopicDiff
from sluice.config.sections.topic import PROGRESS_TOPIC, Topic
from sluice.core.errors import Refused
from sluice.loads.sending.topic import TIMESTAMP_BOUNDS
from sluice.loads.written import inventory
from tests.support import lake as lakes
from tests.support.raising import raising
from tests.support.steps import NewTables, given


def test_a_load_s_topic_gets_the_bounds_beside_what_is_declared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    topics: list[Topic] = []

    def note(topic: Topic) -> TopicDiff:
        topics.append(topic)
        return TopicDiff(topic.name)

    monkeypatch.setattr(inventory, "record_before", lambda *_: None)
    step = ProvisionTopicOperator(task_id="provision_topic", stream="nyc_taxi")
    hook = SimpleNamespace(topics=SimpleNamespace(provision=note), lake=lakes.empty(tmp_path))
    step.__dict__ |= {"platform_hook": hook, "tables": NewTables(), "ledger": None}
    step.work(given(run_id="r"))
    declared = step.spec.topic
    assert topics == [replace(declared, config=declared.config | TIMESTAMP_BOUNDS), PROGRESS_TOPIC]


def test_a_declared_schema_is_registered_under_the_topics_subject(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    registered: list[tuple[str, str]] = []

    def register(subject: str, text: str) -> int:
        registered.append((subject, text))
        return 7

    monkeypatch.setattr(inventory, "record_before", lambda *_: None)
    step = ProvisionTopicOperator(task_id="provision_topic", stream="nyc_taxi")
    topics = SimpleNamespace(provision=lambda topic: TopicDiff(topic.name))
    registry = SimpleNamespace(register=register)
    hook = SimpleNamespace(topics=topics, lake=lakes.empty(tmp_path), registry=registry)
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
