"""What is a refused login and what is an outage, by the words of each client, as real ones have them."""

from __future__ import annotations

import time
from concurrent.futures import Future
from typing import Any

import kafka.errors as python_errors
import pytest
from confluent_kafka import KafkaError, KafkaException

from sluice.clients.kafka import errors
from sluice.clients.kafka.errors import LoginRefused, Remark, translated
from sluice.clients.kafka.log.brokers import is_refused_login as is_refused_by_python
from sluice.clients.kafka.login.noted import Noted, Watched
from sluice.clients.kafka.login.properties import librdkafka
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Unreachable
from tests.support.raising import raising

AUTH, SSL, LOST = KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._TRANSPORT
ENDED = Remark("the certificate c ended 1 h ago. Fix: renew it", is_final=True)
CLOCK = Remark("this machine's clock is 5 min ahead of that of the token's issuer. Fix: set the clocks")
TOKEN_AWAY = "OAUTHBEARER cannot log in because there is no token available; last error: (not available)"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (AUTH, "SASL authentication error: Authentication failed: Invalid username or password"),
        (AUTH, "SASL authentication error: Authentication failed during authentication due to invalid cred"),
        (AUTH, 'SASL authentication error: {"status":"invalid_token"} (after 5ms in state AUTH_REQ)'),
        (AUTH, "SASL OAUTHBEARER mechanism handshake failed: Broker: Unsupported SASL mechanism: broker's "),
        (KafkaError.SASL_AUTHENTICATION_FAILED, "Broker: SASL Authentication failed"),
        (AUTH, "Local: Authentication failure"),
        (SSL, "SSL handshake failed: ssl/tls alert certificate expired"),
        (SSL, "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker certif"),
        (LOST, "SSL handshake failed: tlsv1 alert unknown ca"),
    ],
)
def test_librdkafka_is_refused(code: int, text: str) -> None:
    error = KafkaError(code, text)
    assert errors.is_refused_login(error)
    assert isinstance(translated("x", KafkaException(error)), LoginRefused)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (LOST, "sasl_plaintext://b:9092/1: Connect to ipv4#127.0.0.1:9092 failed: Connection refused"),
        (LOST, "sasl_ssl://b:9092/1: Connect to ipv4#10.0.0.1:9092 failed: No route to host"),
        (LOST, "b:9092/1: Connection setup timed out in state AUTH_REQ (after 30028ms in state AUTH_REQ)"),
        (KafkaError._RESOLVE, "b:9092/bootstrap: Failed to resolve 'b:9092': Name or service not known"),
        (KafkaError._TIMED_OUT, "Local: Timed out"),
        (KafkaError._ALL_BROKERS_DOWN, "2/2 brokers are down"),
        (AUTH, "SASL authentication error: SaslAuthenticateRequest failed: Local: Timed out"),
    ],
)
@pytest.mark.parametrize("remark", [Remark(), CLOCK, ENDED], ids=["-", "clock", "ended"])
def test_librdkafka_gets_no_answer(code: int, text: str, remark: Remark) -> None:
    error = KafkaError(code, text)
    assert not errors.is_refused_login(error)
    found = translated("x", KafkaException(error), remark)
    assert isinstance(found, Unreachable)
    assert found.code is ErrorCode.KAFKA_UNREACHABLE


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (AUTH, "SASL authentication error: SaslAuthenticateRequest failed: Local: Broker transport failure"),
        (AUTH, "SASL PLAIN mechanism handshake failed: Local: Broker transport failure: broker's supported "),
        (AUTH, "SaslAuthenticateRequest failed: Broker: Request not valid in current SASL state"),
        (AUTH, "Failed to acquire SASL OAUTHBEARER token: OAuth callback raised exception"),
        (AUTH, f"Failed to initialize SASL authentication: {TOKEN_AWAY}"),
        (SSL, "SSL handshake failed: sslv3 alert handshake failure"),
        (LOST, "sasl_ssl://b:9092/1: Disconnected (after 12ms in state UP)"),
    ],
)
def test_librdkafka_lost_a_connection(code: int, text: str) -> None:
    error = KafkaException(KafkaError(code, text))
    assert not errors.is_refused_login(error.args[0])
    for remark in (Remark(), CLOCK):
        assert isinstance(translated("x", error, remark), Unreachable)
    assert isinstance(translated("x", error, ENDED), LoginRefused), "no broker takes this one"


@pytest.mark.parametrize(
    ("lost", "remark", "kind"),
    [
        ("Disconnected while requesting ApiVersion", ENDED, LoginRefused),
        ("Disconnected while requesting ApiVersion", CLOCK, Unreachable),
        ("Connect to ipv4#127.0.0.1:9092 failed: Connection refused", ENDED, Unreachable),
        ("", ENDED, Unreachable),
    ],
)
def test_a_lost_connection_is_a_refusal_only_of_a_login_that_no_broker_takes(
    lost: str, remark: Remark, kind: type[Exception]
) -> None:
    late = KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer in 15 s"))
    assert type(translated("x", late, remark, KafkaError(LOST, lost) if lost else None)) is kind


@pytest.mark.parametrize(
    ("error", "is_refused"),
    [
        (
            python_errors.SaslAuthenticationFailedError("SaslAuthenticationFailedError: Invalid username"),
            True,
        ),
        (python_errors.SaslAuthenticationFailedError('{"status":"invalid_token"}'), True),
        (python_errors.SaslAuthenticationFailedError("Failed to authenticate via SASL PLAIN"), True),
        (python_errors.UnsupportedSaslMechanismError("Kafka broker does not support PLAIN"), True),
        (python_errors.KafkaConnectionError("[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca"), True),
        (python_errors.SaslAuthenticationFailedError("IllegalSaslStateError: Request not valid"), False),
        (python_errors.SaslAuthenticationFailedError("UnknownError: None"), False),
        (python_errors.SaslAuthenticationFailedError("CoordinatorNotAvailableError: x"), False),
        (python_errors.IllegalSaslStateError(), False),
        (python_errors.KafkaConnectionError("111 ECONNREFUSED"), False),
        (python_errors.KafkaConnectionError("DNS Resolution failure"), False),
        (python_errors.KafkaConnectionError("socket disconnected"), False),
        (python_errors.KafkaTimeoutError("SASL Authentication timed out"), False),
    ],
    ids=str,
)
def test_kafka_python(error: Exception, is_refused: bool) -> None:
    assert is_refused_by_python(error) is is_refused


@pytest.mark.parametrize("text", ["111 ECONNREFUSED", "DNS Resolution failure", "Connection timed out"])
def test_kafka_python_gets_no_answer(text: str) -> None:
    assert errors.is_away(repr(python_errors.KafkaConnectionError(text)))


PLAIN = Kafka("127.0.0.1:1", "SASL_PLAINTEXT", "PLAIN", "user", "wrong")
WRONG = KafkaError(AUTH, "SASL authentication error: Authentication failed")


def test_a_request_ends_at_the_first_refusal() -> None:
    noted, calls = Noted(PLAIN), []

    def poll(_: float) -> None:
        calls.append(1)
        if len(calls) == 2:
            noted(WRONG)

    began = time.monotonic()
    with pytest.raises(KafkaException) as caught:
        noted.result(Future[int](), 30, poll)
    assert time.monotonic() - began < 5
    with raising(LoginRefused, "Authentication failed", "Fix: correct the login"):
        raise noted.translated("topic", caught.value)


def test_an_earlier_refusal_does_not_end_a_request_that_is_answered() -> None:
    noted, done = Noted(PLAIN), Future[int]()
    noted(WRONG)

    def poll(_: float) -> None:
        done.set_result(7)

    assert noted.result(done, 30, poll) == 7
    noted.answered()
    assert noted.refused is None


def test_a_refusal_that_was_not_told_yet_ends_no_later_request() -> None:
    """librdkafka keeps it until the client is polled, as by the next request."""
    noted, done, calls = Noted(PLAIN), Future[int](), []

    def poll(_: float) -> None:
        calls.append(1)
        if len(calls) == 1:
            noted(WRONG)
        if len(calls) == 3:
            done.set_result(7)

    assert noted.result(done, 30, poll) == 7


def test_what_is_noted_is_told_on() -> None:
    told: list[Any] = []
    noted = Noted(PLAIN, told.append)
    noted(WRONG)
    noted(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    assert len(told) == 2
    assert noted.refused is WRONG


def test_a_consumer_s_request_asks_for_longer_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    made = Watched(PLAIN, {"bootstrap.servers": "127.0.0.1:1", "group.id": "x", "log_level": 0})

    def ask(seconds: float) -> str:
        asked.append(seconds)
        if len(asked) < 4:
            raise KafkaException(KafkaError(LOST))
        return "answer"

    assert made._asked("x", ask, 60) == "answer"
    assert [round(seconds) for seconds in asked] == [1, 2, 4, 8]
    made.close()


@pytest.mark.parametrize("is_told", [True, False], ids=["told", "not told yet"])
def test_an_earlier_refusal_ends_no_request_of_a_consumer_that_has_time(
    monkeypatch: pytest.MonkeyPatch, is_told: bool
) -> None:
    made = Watched(PLAIN, {"bootstrap.servers": "127.0.0.1:1", "group.id": "x", "log_level": 0})
    # Before the first request, and while the third one waits.
    told: list[KafkaError | None] = [None if is_told else WRONG, None, None, WRONG]
    if is_told:
        made.noted(WRONG)

    def poll(_: float) -> None:
        if error := told.pop(0):
            made.noted(error)

    monkeypatch.setattr(made, "poll", poll)
    answers = [None, "answer", None]

    def ask(seconds: float) -> str:
        if found := answers.pop(0):
            return found
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    assert made._asked("x", ask, 60) == "answer"
    with raising(LoginRefused, "Authentication failed"):
        made._asked("x", ask, 60)
    assert not answers
    with raising(LoginRefused, "Authentication failed"):
        told.extend([None, None])
        answers.append(None)
        made._asked("x", ask, 1)
    made.close()


class Event:
    """What a consumer polls: an error without record."""

    def __init__(self, code: int) -> None:
        self._error = KafkaError(code)

    def error(self) -> KafkaError:
        return self._error


def test_a_group_that_may_not_be_read_matters_to_requests_for_the_group_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """librdkafka looks for the group's coordinator while a slow request for offsets waits, and tells once."""
    made = Watched(PLAIN, {"bootstrap.servers": "127.0.0.1:1", "group.id": "x", "log_level": 0})
    events, asked = [Event(KafkaError.GROUP_AUTHORIZATION_FAILED)], []
    monkeypatch.setattr(made, "poll", lambda _: events.pop() if events else None)

    def ask(seconds: float) -> str:
        asked.append(seconds)
        if len(asked) % 2:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return "answer"

    assert made._asked("topics", ask, 60) == "answer"
    with pytest.raises(KafkaException) as caught:
        made._asked("offsets of a group", ask, 60, of_group=True)
    assert caught.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    assert len(asked) == 3
    made.close()


def test_attempts_of_librdkafka_are_not_ten_within_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    given = librdkafka(PLAIN)
    assert given["reconnect.backoff.ms"] >= 250
