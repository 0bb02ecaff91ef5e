"""What brokers tell of rights, and what they do not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclOperation

from sluice.clients.kafka.admin import KafkaAdmin
from sluice.config.platform_sections.kafka import Kafka
from sluice.connection_check.probing import kafka as probing
from sluice.connection_check.rights.kafka import GROUP, TOPIC, TRANSACTIONAL_ID, Rule, kafka_rules
from sluice.connection_check.rows import Row, documents, judge, summary
from sluice.connection_check.run import End, look
from sluice.core.errors import Unreachable

KAFKA = Kafka("127.0.0.1:1")
RULES = [
    Rule("sluice-consumer", TOPIC, "rides", False, "READ"),
    Rule("sluice-consumer", GROUP, "sluice-", True, "READ"),
    Rule("sluice-consumer", TRANSACTIONAL_ID, "sluice-", True, "WRITE"),
]
READ = frozenset({AclOperation.READ, AclOperation.DESCRIBE})
Answer = frozenset[AclOperation] | int | None


class Description:
    """A broker's answer: what is allowed, as confluent-kafka has it, or the code of an error."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def result(self, timeout: float) -> Any:
        if isinstance(self._answer, int):
            raise KafkaException(KafkaError(self._answer))
        return SimpleNamespace(authorized_operations=self._answer and list(self._answer))


class Admin:
    """A cluster by its answers of topics and of groups."""

    def __init__(self, topics: Answer, groups: Answer) -> None:
        self._topics, self._groups, self.admin = topics, groups, self

    def results(self, what: str, ask: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        return {name: future.result(0) for name, future in ask().items()}

    def describe_topics(self, names: Any, **_: Any) -> dict[str, Description]:
        return {name: Description(self._topics) for name in ["rides"]}

    def describe_consumer_groups(self, names: list[str], **_: Any) -> dict[str, Description]:
        return {name: Description(self._groups) for name in names}


def asked(monkeypatch: pytest.MonkeyPatch, admin: Admin, denied: int | None = None) -> Row:
    monkeypatch.setattr(probing, "_denied", lambda *_: denied)
    row = Row("consumer", "kafka", "there")
    probing._ask_rights(row, cast("KafkaAdmin", admin), KAFKA, RULES, RULES, None)
    judge(row, 0)
    return row


def test_brokers_that_tell_no_rights_are_a_remark(monkeypatch: pytest.MonkeyPatch) -> None:
    row = asked(monkeypatch, Admin(None, None))
    assert row.problems == []
    assert row.remarks == [
        "its brokers describe, and tell no rights on, topic rides; group sluice-check-connections"
    ]
    assert row.rights.asked == 1


def test_rights_that_are_told_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    row = asked(monkeypatch, Admin(READ, frozenset({AclOperation.DESCRIBE})))
    assert row.rights.missing == ("READ on group sluice-check-connections",)
    assert row.remarks == []


def test_who_may_not_describe_has_no_right(monkeypatch: pytest.MonkeyPatch) -> None:
    row = asked(monkeypatch, Admin(KafkaError.TOPIC_AUTHORIZATION_FAILED, READ))
    assert row.rights.missing == ("DESCRIBE on topic rides", "READ on topic rides")


def test_a_topic_that_does_not_exist_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    row = asked(monkeypatch, Admin(KafkaError.UNKNOWN_TOPIC_OR_PART, READ))
    assert row.problems == []
    assert row.remarks == ["rights are not asked on what does not exist yet: topic rides"]


@pytest.mark.parametrize("allowed", [READ, KafkaError.GROUP_AUTHORIZATION_FAILED])
def test_a_right_that_nothing_needs_is_neither_missing_nor_too_many(
    monkeypatch: pytest.MonkeyPatch, allowed: Answer
) -> None:
    rules = [rule for rule in kafka_rules(["rides"]) if rule.user == "sluice-reader" and rule.kind == GROUP]
    mine = [rule for rule in rules if rule.is_on(GROUP, "sluice-reader")]
    assert mine
    row = Row("reader", "kafka", "there")
    monkeypatch.setattr(probing, "_denied", lambda *_: None)
    probing._ask_rights(row, cast("KafkaAdmin", Admin(READ, allowed)), KAFKA, mine, mine, None)
    assert (row.rights.missing, row.rights.excess) == ((), ())


def test_a_right_on_the_cluster_that_a_transaction_lacks_is_named_as_such(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    admin = Admin(READ, READ)
    row = asked(monkeypatch, admin, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
    assert row.rights.missing == ("IDEMPOTENT_WRITE on the cluster",)
    row = asked(monkeypatch, admin, KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    assert row.rights.missing == ("WRITE on transactional id sluice-check-connections",)
    assert asked(monkeypatch, admin).rights.missing == ()


@pytest.mark.usefixtures("socket_enabled")
def test_a_broker_that_was_not_done_in_time_is_not_well(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in (silent, unused)]
        kafka = Kafka(",".join(addresses), "SSL", ssl_ca_location="")

        class Away:
            def __init__(self, *_: object) -> None:
                self.admin = None

            def results(self, *_: object) -> dict[str, Any]:
                raise Unreachable("no answer")

        monkeypatch.setattr(probing, "KafkaAdmin", Away)
        is_done = threading.Event()
        ask_broker = probing._ask_broker

        def asked_broker(row: Row, *others: Any) -> None:
            ask_broker(row, *others)
            is_done.set()

        monkeypatch.setattr(probing, "_ask_broker", asked_broker)
        monkeypatch.setattr("sluice.connection_check.probing.proxies.CONNECT_SECONDS", 60)
        whole = Row("consumer", "kafka", kafka.bootstrap_servers)
        rows = look([End(whole, lambda rows: probing.ask(kafka, "consumer", [], rows))], seconds=5)
        assert is_done.is_set()
    assert [(row.address, row.state) for row in rows[1:]] == [
        (addresses[0], "not looked at"),
        (addresses[1], "FAILED"),
    ]
    assert [document["is_ok"] for document in documents(rows)] == [False] * 3
    assert summary(rows) == "2 of 2 ends failed; not looked at: consumer kafka broker"
