"""A load of a feed, whose events come in transactions: each event is a row, other offsets have a reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.kafka.broker_topics import BrokerTopics
from sluice.config.sections.topic import POSITIONS_TOPIC
from sluice.ledger.documents import Ledger
from sluice.loads.planning.plan import LoadPlanner
from sluice.loads.sending import produced
from sluice.loads.sources.feed import FeedSource
from sluice.loads.verification.verify import LoadVerification
from sluice.maintenance.reconciliation.table_contents import TableContents
from spark_jobs.common.feed.event import Event
from spark_jobs.common.feed.position import SavedPosition
from spark_jobs.common.feed.sender import Sender
from tests.support.memory_s3 import MemoryS3
from tests.support.services import Services
from tests.support.task_systems import task_systems
from tests.support.wiki import DECLARED, Wiki, events

PARAMS = {"events": 1, "minutes": 1}


class Producers:
    """The stream's producers, one after another."""

    def __init__(self, wiki: Wiki) -> None:
        self.wiki = wiki
        self.saved = SavedPosition("one", "feed.test/", ends={0: 0})

    def start(self) -> Sender:
        """It fences the one before."""
        kafka = self.wiki.services.stack.platform("producer").kafka
        sender = Sender(kafka, self.wiki.spec.name, self.wiki.spec.topic, 5_000)
        sender.fence(lambda: False)
        sender.begin(self.saved)
        return sender

    def send(self, sender: Sender, count: int) -> None:
        for number, (key, body) in enumerate(events(count)):
            sender.send(Event(f"{number}", key), body.decode(), f"p{number}", lambda: None)

    def commit(self, sender: Sender) -> None:
        assert sender.commit(5.0, lambda: False, with_ids=False)
        self.saved = sender.saved


@pytest.fixture
def wiki(spark: SparkSession, services: Services, tmp_path: Path) -> Iterator[Wiki]:
    services.minio, services.postgres  # noqa: B018 - started
    made = Wiki(spark, services, "wiki_fed", str(tmp_path))
    BrokerTopics(KafkaAdmin(services.stack.platform("airflow").kafka)).provision(POSITIONS_TOPIC)
    yield made
    made.stop()


def test_markers_and_events_of_a_killed_producer_are_no_gaps(wiki: Wiki) -> None:
    producers, topic = Producers(wiki), wiki.spec.topic.name
    ledger = Ledger(MemoryS3().as_client(), "s3://w/ledger", wiki.spec.name)
    first = producers.start()
    for _ in range(3):
        producers.send(first, 100)
        producers.commit(first)
    airflow = replace(wiki.platform, kafka=wiki.services.stack.platform("airflow").kafka)
    with task_systems(airflow) as systems:
        source = FeedSource.from_now(systems.kafka, "run", topic, "https://feed.test/")
        planner = LoadPlanner.of(systems, wiki.spec, ledger, PARAMS)
        plan = planner.pin("run", PARAMS, lambda _: [source.document])
        # Sent, and never committed.
        producers.send(first, 50)
        first._transactions.flush(lambda: False)
        second = producers.start()
        producers.send(second, 200)
        producers.commit(second)
        consumer = wiki.run(wiki.writer())
        assert wiki.spark.table(f"lake.{wiki.spec.table}").count() == 500
        produced.complete(ledger, plan, systems.kafka.ends(topic))

        # The folder with its schema has the declared name.
        spec = replace(wiki.spec, name=DECLARED.name)
        load = LoadVerification.of(systems, spec, ledger, "run").verify(5.0)
        assert load.problems == [], load.problems
        found = load.result.without.to_document()
        assert found["aborted"] == 50
        # An abort and a commit, each in the partitions that had events.
        assert 2 <= found["control"] <= 2 * wiki.spec.topic.partitions
        contents = TableContents(
            systems.lake, wiki.spec.table, wiki.spec.quarantine_table, ledger, systems.batch_log
        )
        findings, _ = contents.verify(None, None)
        assert findings == []
    assert consumer.query.isActive
