"""librdkafka's log goes to Python's, so that no line of it is on standard error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.kafka.login.properties import LIBRDKAFKA_LOG, librdkafka
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.errors import Unreachable
from spark_jobs.common.kafka.offsets import Topic

NO_BROKER = Kafka("127.0.0.1:1")
CLIENTS: list[Callable[[dict[str, Any]], Any]] = [
    lambda settings: Consumer(settings | {"group.id": "any"}),
    Producer,
    AdminClient,
]


def logged(caplog: pytest.LogCaptureFixture) -> bool:
    return any(
        record.name == LIBRDKAFKA_LOG.name and "Connection refused" in record.getMessage()
        for record in caplog.records
    )


@pytest.mark.parametrize("client", CLIENTS, ids=["consumer", "producer", "admin"])
def test_a_failed_connection_is_logged_and_not_printed(
    client: Callable[[dict[str, Any]], Any],
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = client(librdkafka(NO_BROKER))
    with pytest.raises(KafkaException):
        made.list_topics(timeout=0.2)
    made.poll(0)
    assert logged(caplog)
    assert capfd.readouterr() == ("", "")


def test_a_request_that_fails_has_its_reason_in_the_log(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Unreachable):
        KafkaAdmin(NO_BROKER, timeout=0.2).find("trips")
    assert logged(caplog)
    assert capfd.readouterr() == ("", "")


def test_a_topic_s_id_without_a_broker_has_its_reason_in_the_log(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.common.kafka.offsets.ID_SECONDS", 0.2)
    with pytest.raises(TimeoutError, match="no broker returned its id"):
        Topic(NO_BROKER, "trips").id()
    assert logged(caplog)
    assert capfd.readouterr() == ("", "")
