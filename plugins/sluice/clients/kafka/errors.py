"""Kafka's errors: which deny a user, and as those of clients."""

from __future__ import annotations

import re
from dataclasses import dataclass

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
# Words of these codes that say nothing of a login: errors of librdkafka itself, as of a lost connection or an
# answer that did not come; that its callback gave no token, whose source says why; and of a session that ends
# just when it is to be prolonged: the next connection logs in.
_PASSING = re.compile(
    r"OAuth callback raised exception|no token available|Request not valid in current SASL state|"
    r"\bLocal: (?!Authentication)|SASL send failed|(?i:timed out)|Broker transport failure|Disconnected"
)
_CONNECTION = frozenset({KafkaError._SSL, KafkaError._TRANSPORT})
# Codes of a connection that could not be made, or ended. Other codes say only that time is over.
LOST = _CONNECTION | {KafkaError._RESOLVE}
# No connection was made, or nothing came over it: whatever is known of the login, it was not refused.
_AWAY = re.compile(
    r"(?i)connection refused|econnrefused|failed to resolve|not known|name resolution|dns resolution|"
    r"nodename|no address|no route to host|unreachable|ehostunreach|enetunreach|timed ?out|timeout|no answer|"
    r"unable to connect"
)


@dataclass(frozen=True)
class Remark:
    """What this process knows of its login. ``is_final``: no broker takes it, as its certificate has ended;
    so a connection that is lost without a word was refused."""

    text: str = ""
    is_final: bool = False


class LoginRefused(Refused):
    """Kafka, or who gives the tokens for it, refuses the login; or the broker's certificate is not trusted. A
    retry succeeds after it was corrected."""

    code = ErrorCode.KAFKA_LOGIN


def is_away(text: str) -> bool:
    """Whether a connection's error says that nothing answers."""
    return bool(_AWAY.search(text))


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
        return not _PASSING.search(error.str())
    return error.code() in _CONNECTION and is_about_certificates(error.str())


def is_denied(error: KafkaError) -> bool:
    """A login that is refused, or a missing right."""
    return error.code() in MISSING_RIGHT or is_refused_login(error)


_NOTHING = Remark()
# Rejected for good; the broker's message names the value.
_WRONG = frozenset(
    {KafkaError.POLICY_VIOLATION, KafkaError.INVALID_CONFIG, KafkaError.INVALID_REPLICATION_FACTOR}
)


def translated(
    what: str, error: KafkaException, remark: Remark = _NOTHING, lost: KafkaError | None = None
) -> Refused | Unreachable:
    """A Kafka error as a client error whose message begins with ``what``. ``remark``: what this process knows
    of the login; ``lost``: how the last connection ended, if that is known.

    A refusal of the login is what a broker said of it; or that a connection that was made ended without a
    word, of a login that no broker takes."""
    cause: KafkaError = error.args[0]
    message = f"{what}: {cause.str()} ({cause.name()})"
    if is_refused_login(cause):
        if remark.text:
            return LoginRefused(f"{message}; {remark.text}")
        # That of a token has its own.
        return LoginRefused(message if "Fix: " in message else f"{message}. {login_fix(message)}")
    if remark.is_final and _is_lost(cause if cause.code() in LOST | REFUSED_LOGIN else lost):
        return LoginRefused(f"{message}; {remark.text}")
    if cause.code() in MISSING_RIGHT:
        fix = "check [kafka] in the role's platform file and the user's rights"
        return Refused(f"{message}. Fix: {fix}", ErrorCode.KAFKA_PERMISSION)
    if cause.code() in _WRONG:
        return Refused(f"{message}. Fix: correct stream.toml", ErrorCode.TOPIC_MISMATCH)
    return Unreachable(f"{message}; {lost.str()}" if lost else message, ErrorCode.KAFKA_UNREACHABLE)


def _is_lost(error: KafkaError | None) -> bool:
    return error is not None and not is_away(error.str())
