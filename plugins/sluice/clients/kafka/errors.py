"""Kafka's errors: which deny a user, and as those of clients."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, Unreachable

# librdkafka retries a rejected login, and reports it to ``error_cb`` only.
REFUSED_LOGIN = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
MISSING_RIGHT = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
DENIED = REFUSED_LOGIN | MISSING_RIGHT
# Rejected for good; the broker's message names the value.
_WRONG = frozenset(
    {KafkaError.POLICY_VIOLATION, KafkaError.INVALID_CONFIG, KafkaError.INVALID_REPLICATION_FACTOR}
)


def translated(what: str, error: KafkaException) -> Refused | Unreachable:
    """A Kafka error as a client error whose message begins with ``what``."""
    cause: KafkaError = error.args[0]
    message = f"{what}: {cause.str()} ({cause.name()})"
    if cause.code() in DENIED:
        fix = "check [kafka] in the role's platform file and the user's rights"
        return Refused(f"{message}. Fix: {fix}", ErrorCode.KAFKA_PERMISSION)
    if cause.code() in _WRONG:
        return Refused(f"{message}. Fix: correct stream.toml", ErrorCode.TOPIC_MISMATCH)
    return Unreachable(message, ErrorCode.KAFKA_UNREACHABLE)
