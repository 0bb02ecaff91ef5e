"""``[kafka]`` of a platform file: the brokers, and the settings of their clients."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Annotated, Any

from sluice.config.reading import limits

# librdkafka's log, which it else writes to standard error, past every handler.
LIBRDKAFKA_LOG = logging.getLogger("librdkafka")


@dataclass(frozen=True)
class Kafka:
    """The brokers and one user's login."""

    bootstrap_servers: Annotated[str, "brokers, as `host:port`, separated by commas"]
    security_protocol: Annotated[str, "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`"] = "PLAINTEXT"
    sasl_mechanism: Annotated[str, "`PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`; empty: no login"] = ""
    username: Annotated[str, "any name: only its rights matter"] = ""
    password: Annotated[str, "of `username`"] = field(default="", repr=False)
    ssl_ca_location: Annotated[str, "path of a PEM file with the broker's CA; empty: the system's CAs"] = ""
    max_batch_mb: Annotated[
        int,
        "a record batch with more MiB, decompressed, is not read: a few bytes can stand for gigabytes. A "
        "process takes about five times as much memory",
    ] = 64

    @property
    def max_batch_bytes(self) -> int:
        """``max_batch_mb`` in bytes."""
        return self.max_batch_mb << 20

    def librdkafka(self) -> dict[str, Any]:
        """Configuration for confluent-kafka, whose clients log when they are polled."""
        settings: dict[str, Any] = {**self._servers(), "logger": LIBRDKAFKA_LOG}
        if self.sasl_mechanism:
            settings |= {
                "sasl.mechanism": self.sasl_mechanism,
                "sasl.username": self.username,
                "sasl.password": self.password,
            }
        if self.ssl_ca_location:
            settings["ssl.ca.location"] = self.ssl_ca_location
        return settings

    def kafka_python(self) -> dict[str, Any]:
        """Configuration for kafka-python's connections."""
        settings: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap_servers.split(","),
            "security_protocol": self.security_protocol,
        }
        if self.sasl_mechanism:
            settings |= {
                "sasl_mechanism": self.sasl_mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password,
            }
        if self.ssl_ca_location:
            settings["ssl_cafile"] = self.ssl_ca_location
        return settings

    def _servers(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": self.security_protocol,
        }

    def java(self) -> dict[str, str]:
        """Configuration for Java clients, and after the prefix ``kafka.`` for Spark's source and sink."""
        settings = self._servers()
        if self.sasl_mechanism:
            module = "plain.PlainLoginModule" if self.sasl_mechanism == "PLAIN" else "scram.ScramLoginModule"
            settings |= {
                "sasl.mechanism": self.sasl_mechanism,
                "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required "
                f'username="{_jaas(self.username)}" password="{_jaas(self.password)}";',
            }
        if self.ssl_ca_location:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ssl_ca_location}
        return settings


def check(kafka: Kafka, where: str) -> None:
    """Raises ConfigError for a number out of its bounds."""
    limits.check(kafka, "kafka", where)


def _jaas(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')
