"""Kafka's errors: which deny a user, and as those of clients."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from sluice.clients.tls import words
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
# What librdkafka says of any error in its callback; and when a session ends, or its connection, just when it
# is to be prolonged: the next connection logs in.
_PASSING = (
    "OAuth callback raised exception",
    "Request not valid in current SASL state",
    "Broker transport failure",
)
_CONNECTION = frozenset({KafkaError._SSL, KafkaError._TRANSPORT})
_LOST = REFUSED_LOGIN | {KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN}


class LoginRefused(Refused):
    """Kafka, or who gives the tokens for it, refuses the login; or the broker's certificate is not trusted. A
    retry succeeds after it was corrected."""

    code = ErrorCode.KAFKA_LOGIN


def is_about_certificates(text: str) -> bool:
    """Whether a connection's error is of the certificate of either side, by OpenSSL's words; a connection
    that ends in its handshake has none."""
    return words.is_unverified(text) or words.is_certificate_refused(text) or "no peer certificate" in text


def login_fix(text: str) -> str:
    """What a person does after Kafka refused a login with this text."""
    what = "correct the login"
    if words.is_unverified(text):
        what = "write the path of the brokers' CA as ssl_ca_location"
    elif is_about_certificates(text):
        what = (
            "give ssl_certificate_location a certificate that has not ended, of a CA that the brokers trust"
        )
    return f"Fix: {what}, in [kafka] of the role's platform file"


def is_refused_login(error: KafkaError) -> bool:
    """Whether a login is the reason. Not that a token could not be had: librdkafka does not say why, and its
    ``Tokens`` do."""
    if error.code() in REFUSED_LOGIN:
        return not any(text in error.str() for text in _PASSING)
    return error.code() in _CONNECTION and is_about_certificates(error.str())


def is_denied(error: KafkaError) -> bool:
    """A login that is refused, or a missing right."""
    return error.code() in MISSING_RIGHT or is_refused_login(error)


# Rejected for good; the broker's message names the value.
_WRONG = frozenset(
    {KafkaError.POLICY_VIOLATION, KafkaError.INVALID_CONFIG, KafkaError.INVALID_REPLICATION_FACTOR}
)


def translated(what: str, error: KafkaException, remark: str = "") -> Refused | Unreachable:
    """A Kafka error as a client error whose message begins with ``what``. ``remark``: what this process knows
    of a login that is refused; a session that ends when it begins looks like a lost connection."""
    cause: KafkaError = error.args[0]
    message = f"{what}: {cause.str()} ({cause.name()})"
    if remark and (is_refused_login(cause) or cause.code() in _LOST):
        return LoginRefused(f"{message}; {remark}")
    if is_refused_login(cause):
        # That of a token has its own.
        return LoginRefused(message if "Fix: " in message else f"{message}. {login_fix(message)}")
    if cause.code() in MISSING_RIGHT:
        fix = "check [kafka] in the role's platform file and the user's rights"
        return Refused(f"{message}. Fix: {fix}", ErrorCode.KAFKA_PERMISSION)
    if cause.code() in _WRONG:
        return Refused(f"{message}. Fix: correct stream.toml", ErrorCode.TOPIC_MISMATCH)
    return Unreachable(message, ErrorCode.KAFKA_UNREACHABLE)
