"""A topic of others is looked at on a real broker: its configuration, and some of its records."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from local.services import kafka as broker
from local.stack.stack import wait_until
from sluice.cli.base import UsageError
from sluice.cli.topics import look as topic_look
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.kafka.log.sample import OFFSETS, places
from sluice.core.errors import Refused
from tests.support.raising import raising
from tests.support.services import Services


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    made = Services(tmp_path_factory.mktemp("services"))
    yield made
    made.stop()


@pytest.mark.parametrize(
    ("bounds", "found"),
    [
        ((5, 6), [[(5, 6)]]),
        ((0, OFFSETS), [[(0, OFFSETS)]]),
        # The three places overlap.
        ((0, 120), [[(0, 120)]]),
        ((100, 1100), [[(100, 150)], [(575, 625)], [(1050, 1100)]]),
    ],
)
def test_places_are_at_both_ends_and_in_the_middle(bounds: tuple[int, int], found: Any) -> None:
    assert [list(place.pairs()) for place in places(*bounds)] == found


def assert_waited_for(services: Services, name: str) -> None:
    """The observer sees the transaction, and whose it is once it may read the topic."""
    observer = KafkaAdmin(services.stack.platform("observer").kafka)
    assert (observer.ends(name), observer.last_stable(name)) == ({0: 42, 1: 1, 2: 0}, {0: 42, 1: 0, 2: 0})
    with raising(Refused, name, "partition 1"):
        observer.open_transactions(name, [1])
    broker.provision(services.stack.context, [], others={name: ""})

    def seen() -> dict[int, str]:
        try:
            return observer.open_transactions(name, [0, 1, 2])
        except Refused:
            return {}

    wait_until("the right to read", lambda: bool(seen()), 20, 0.2)
    (found,) = seen().items()
    assert (found[0], found[1].startswith("producer "), "began at offset 0" in found[1]) == (1, True, True)


def test_a_topic_is_looked_at(services: Services) -> None:
    name = "shop.orders"
    services.make_topic(name, 3)
    platform = services.stack.platform("airflow")
    systems: Any = SimpleNamespace(platform=platform, kafka=KafkaAdmin(platform.kafka))
    producer = Producer({**services.kafka, "log_level": 0, "transactional.id": "shop"})
    producer.init_transactions(30)
    for begin, is_committed in ((0, True), (200, False)):
        producer.begin_transaction()
        for number in range(begin, begin + 20):
            producer.produce(name, b'{"id": %d}' % number, b"k%d" % number, partition=0)
        producer.flush(30)
        (producer.commit_transaction if is_committed else producer.abort_transaction)(30)
    producer.begin_transaction()
    producer.produce(name, None, b"k", partition=1)
    producer.flush(30)

    found = topic_look.look(systems, name)
    assert (found.name, found.partitions, found.versions_per_batch) == (name, 3, 13)
    assert (found.guess.format, found.guess.key, found.guess.columns) == ("json", "text", {"id": "BIGINT"})
    seen = "; ".join(found.seen)
    assert "43 offsets kept" in seen
    assert "transactions: 2 markers, 20 records of aborted ones" in seen
    assert any("partitions [1] wait for an open transaction" in doubt for doubt in found.doubts)
    assert any("CreateTime" in doubt for doubt in found.doubts)
    assert_waited_for(services, name)
    producer.abort_transaction(30)


def test_a_role_without_rights_gets_them_of_the_stack_that_it_runs_on(services: Services) -> None:
    """Without a right on it a broker does not say whether there is such a topic."""
    name = "shop.returns"
    admin = AdminClient({**services.kafka, "log_level": 0})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(20)
    stack, platform = services.stack, services.stack.platform("airflow")
    systems: Any = SimpleNamespace(platform=platform, kafka=KafkaAdmin(platform.kafka))
    for allow in (None, lambda _: False):
        with raising(UsageError, "sluice-airflow (role airflow)", repr(name), "Describe, DescribeConfigs"):
            topic_look.look(systems, name, allow)
    assert topic_look.look(systems, name, stack.allow_reading).partitions == 1
    with raising(UsageError, "'shop.nothing'"):
        topic_look.look(systems, "shop.nothing", stack.allow_reading)
    broker.provision(stack.context, [], others={"shop.nothing": ""})
    with raising(UsageError, "'shop.nothing'", platform.kafka.bootstrap_servers):
        topic_look.look(systems, "shop.nothing")
