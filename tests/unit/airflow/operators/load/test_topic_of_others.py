"""Steps of a load of a topic of others: it is looked at, and its offsets are pinned."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.airflow.operators.load.topic_of_others import CheckTopicOperator, PlanTopicOperator
from sluice.clients.kafka.broker_topics import TopicDiff
from sluice.config.sections.topic import PROGRESS_TOPIC, Topic
from sluice.core.errors import Refused
from tests.support.others import NAME, OthersStream, at
from tests.support.raising import raising
from tests.support.steps import given


@pytest.fixture
def stream(tmp_path: Path) -> OthersStream:
    made = OthersStream(tmp_path)
    made.kafka.send(0, 10, 70)
    made.publish()
    return made


def step(kind: type[Any], stream: OthersStream) -> Any:
    made = kind(task_id="step", stream=stream.spec.name)
    made.__dict__ |= {"platform_hook": stream, "spec": stream.spec, "ledger": stream.ledger}
    return made


def run(
    kind: str, begin: datetime | None = None, end: datetime | None = None, after: datetime | None = None
) -> Any:
    of_run = SimpleNamespace(run_type=kind, run_id="r", run_after=after or datetime.now(UTC))
    interval = {"data_interval_start": begin, "data_interval_end": end}
    return given(run_id=f"r-{kind}", params={}, dag_run=of_run, **interval)


def test_the_topic_is_looked_at_and_nothing_of_it_is_provisioned(
    stream: OthersStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.kafka.configs = {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}
    provisioned: list[str] = []

    def provision(topic: Topic) -> TopicDiff:
        provisioned.append(topic.name)
        return TopicDiff(topic.name)

    topics = SimpleNamespace(provision=provision)
    monkeypatch.setattr(OthersStream, "topics", topics, raising=False)
    found = step(CheckTopicOperator, stream).work(given(run_id="r"))
    assert (found["topic"], found["partitions"], found["cleanup_policy"]) == (NAME, 1, "compact")
    (remark,) = found["remarks"]
    assert "compacted away" in remark
    assert provisioned == []
    # Sluice's own, for the progress of queries.
    query: Any = SimpleNamespace(window=None)
    stream.spec = replace(stream.spec, queries={"q": query})
    step(CheckTopicOperator, stream).work(given(run_id="r"))
    assert provisioned == [PROGRESS_TOPIC.name]


@pytest.mark.parametrize("kind", ["scheduled", "backfill"])
def test_a_scheduled_run_is_of_its_interval(stream: OthersStream, kind: str) -> None:
    found = step(PlanTopicOperator, stream).work(run(kind, at(0), at(60)))
    assert (found["topic"], found["records"], found["sources"]) == (NAME, 1, 1)


def test_a_run_that_a_person_triggers_is_of_all_that_came(stream: OthersStream) -> None:
    """Airflow gives it the last interval, which was not asked for."""
    planning = step(PlanTopicOperator, stream)
    assert planning.work(run("manual", at(0), at(60)))["records"] == 2
    assert planning.submitted["plan"].endswith("/runs/r-manual/plan.json")


def test_a_scheduled_run_without_an_interval_is_refused(stream: OthersStream) -> None:
    with raising(Refused, "scheduled", "nyc_taxi_load"):
        step(PlanTopicOperator, stream).work(run("scheduled"))


def test_a_run_id_of_a_run_that_airflow_deleted_verifies_no_offsets_of_then(stream: OthersStream) -> None:
    planning = step(PlanTopicOperator, stream)
    planning.work(run("manual"))
    with raising(Refused, "run id 'r-manual'", "another run id"):
        planning.work(run("manual", after=datetime.now(UTC) + timedelta(days=31)))
