"""A login that Kafka refuses, behind whatever a job failed with."""

from __future__ import annotations

from contextlib import AbstractContextManager

from sluice.clients.kafka.errors import LoginRefused
from sluice.clients.kafka.log.brokers import Brokers
from sluice.clients.kafka.log.responses import Moving
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.errors import ClientError
from spark_jobs.common.spark.refusals import explained_by

# For an answer of a broker that is there: it delays those that refuse.
PROBE_SECONDS = 10.0


def explained(kafka: Kafka) -> AbstractContextManager[None]:
    """Raises LoginRefused, with the server's words, instead of what it led to: Java's clients and librdkafka
    say so in many ways, some of them only that the time is over."""
    return explained_by(lambda: refusal(kafka))


def refusal(kafka: Kafka) -> LoginRefused | None:
    """Why a new connection is refused; None if it is not, or nothing answers."""
    try:
        Brokers(kafka, PROBE_SECONDS, PROBE_SECONDS).close()
    except LoginRefused as error:
        return error
    except (ClientError, Moving):
        return None
    return None
