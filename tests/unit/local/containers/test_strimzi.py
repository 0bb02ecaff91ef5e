"""With Strimzi's Kafka, pods get its address, SCRAM logins and authority, and none configures a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from local.runtime.context import Context
from sluice.clients.kafka.login import certificates
from sluice.clients.kafka.login.properties import LIBRDKAFKA_LOG, librdkafka
from sluice.config import platform
from sluice.config.platform_sections.kubernetes import Strimzi
from tests.support.cluster_stack import FakeArtifacts

PEM = "-----BEGIN CERTIFICATE-----"
# Secrets of pods that reach Kafka, and the key of the authority in each.
CLIENTS = {
    "sluice-airflow": "platform__kafka-ca.crt",
    "sluice-task": "platform__kafka-ca.crt",
    "sluice-platform-producer": "kafka-ca.crt",
    "sluice-platform-consumer": "kafka-ca.crt",
    "sluice-observer": "kafka-ca.crt",
}


def test_every_role_knows_strimzi_s_kafka(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The CA is where the pods have it.
    monkeypatch.setattr(certificates, "check", lambda kafka: None)
    made = FakeArtifacts(context, tmp_path, "brokers").secrets_of_pods(PEM)
    texts = {
        "airflow": made["sluice-airflow"]["platform__airflow.toml"],
        "producer": made["sluice-platform-producer"]["producer.toml"],
        "consumer": made["sluice-platform-consumer"]["consumer.toml"],
    }
    for role, text in texts.items():
        found = platform.parse(text, role)
        assert librdkafka(found.kafka) == {
            "bootstrap.servers": "brokers-kafka-bootstrap:9093",
            "security.protocol": "SASL_SSL",
            "logger": LIBRDKAFKA_LOG,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": f"sluice-{role}",
            "sasl.password": made["sluice-kafka-passwords"][role],
            "ssl.ca.location": "/var/lib/sluice/platform/kafka-ca.crt",
            "reconnect.backoff.ms": 250,
            "reconnect.backoff.max.ms": 5000,
        }
        expected = Strimzi("lake", "brokers") if role == "airflow" else None
        assert found.strimzi == expected


def test_the_authority_is_where_the_platform_files_are(context: Context, tmp_path: Path) -> None:
    made = FakeArtifacts(context, tmp_path, "brokers").secrets_of_pods(PEM)
    assert {name: key for name, keys in made.items() for key, text in keys.items() if text == PEM} == CLIENTS


def test_no_pod_configures_or_provisions_a_broker(context: Context, tmp_path: Path) -> None:
    stack = FakeArtifacts(context, tmp_path, "brokers")
    assert "sluice-kafka" not in stack.secrets_of_pods(PEM)
    assert set(stack.provisioning()) == {"postgres", "minio"}


@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_the_plain_pod_stays_the_default(role: str, context: Context, tmp_path: Path) -> None:
    stack = FakeArtifacts(context, tmp_path, "")
    made = stack.secrets_of_pods()
    found = platform.parse(made[f"sluice-platform-{role}"][f"{role}.toml"], role)
    assert (found.kafka.bootstrap_servers, found.kafka.security_protocol) == (
        "kafka:19092",
        "SASL_PLAINTEXT",
    )
    assert found.kafka.ssl_ca_location == ""
    assert "kafka-ca.crt" not in made[f"sluice-platform-{role}"]
    assert set(stack.provisioning()) == {"postgres", "kafka", "minio"}
    assert "sluice-kafka" in made
