"""What a feed's producer makes of a refused login, of which librdkafka tells by its callback alone."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError

from sluice.clients.kafka.errors import LoginRefused
from sluice.config.platform_sections.kafka import Kafka
from spark_jobs.common.feed.transaction import Transactions
from tests.support.raising import raising

WRONG = KafkaError(KafkaError._AUTHENTICATION, "SASL authentication error: Authentication failed")


class Producer:
    """In place of librdkafka's, which calls ``tell`` when it is polled. ``refusals``: at each flush, whether
    a connection is refused; the records are acknowledged with the last one."""

    def __init__(self, tell: Any, refusals: list[bool]) -> None:
        self._tell, self._refusals = tell, refusals
        self._queued: list[KafkaError] = []

    def refuse(self) -> None:
        self._queued.append(WRONG)

    def begin_transaction(self) -> None:
        """Sends nothing."""

    def produce(self, *_: Any, **__: Any) -> None:
        """Takes the record."""

    def poll(self, seconds: float) -> int:
        for error in self._queued:
            self._tell(error)
        self._queued.clear()
        return 0

    def flush(self, seconds: float) -> int:
        if self._refusals.pop(0):
            self.refuse()
        self.poll(0)
        return len(self._refusals)


def made(refusals: list[bool]) -> tuple[Transactions, Producer]:
    found = Transactions(Kafka("127.0.0.1:1", "SASL_PLAINTEXT", "PLAIN", "u", "p"), "s", 1_000, 10)
    producer = Producer(found._note, refusals)
    found._producer = producer  # type: ignore[assignment]
    return found, producer


@pytest.mark.parametrize("is_told", [False, True], ids=["not told yet", "told"])
def test_a_login_that_was_refused_before_ends_no_later_transaction(is_told: bool) -> None:
    transactions, producer = made([False, False])
    producer.refuse()
    if is_told:
        producer.poll(0)
    assert transactions.send("t", b"value", None)
    assert transactions.flush(lambda: False)


def test_a_login_that_is_refused_ends_a_transaction() -> None:
    transactions, _ = made([True, False])
    assert transactions.send("t", b"value", None)
    with raising(LoginRefused, "Authentication failed", "Fix: correct the login"):
        transactions.flush(lambda: False)
