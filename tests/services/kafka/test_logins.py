"""Kafka's logins on a real broker: by tokens and by certificates, of all clients alike; renewed while they
run; and refused in one line that says what to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.kafka.consumers import (
    RANGE_SETTINGS,
    consumer,
    group_offsets,
    offsets_at,
    read_range,
    topic_offsets,
)
from sluice.clients.kafka.errors import LoginRefused
from sluice.clients.kafka.log.brokers import Brokers
from sluice.clients.kafka.log.range_reader import RangeReader
from sluice.clients.kafka.login.properties import librdkafka
from sluice.clients.polling import wait_for
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Unreachable
from sluice.core.offsets.ranges import IntervalSet
from spark_jobs.common.feed.transaction import Transactions
from spark_jobs.common.kafka import login as explaining
from spark_jobs.common.kafka.login import refusal
from spark_jobs.common.kafka.offsets import Topic
from tests.support.certificates import Authority
from tests.support.kafka_logins import LoginBroker
from tests.support.raising import raising
from tests.support.token_server import AUDIENCE

TOPIC = "orders"
# Half of a session's time is over when a token is fetched again, and all of it within a test.
LIFETIME = 4.0
# A broker delays an answer that refuses, by seconds now and then.
SECONDS, ADMIN_SECONDS = 8.0, 4.5


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginBroker]:
    made = LoginBroker(tmp_path_factory.mktemp("logins"))
    try:
        made.make_topic(TOPIC)
        yield made
    finally:
        made.stop()


@pytest.fixture
def tokens(broker: LoginBroker) -> Iterator[LoginBroker]:
    yield broker
    broker.tokens.lifetime, broker.tokens.clock, broker.tokens.failure = 300.0, 0.0, 0


def unshared(login: Kafka) -> Kafka:
    """The same login, whose token no other test has fetched."""
    return replace(login, sasl_oauthbearer_scope=f"kafka {time.monotonic_ns()}")


def counted(reader: RangeReader, begin: int, end: int) -> list[bytes | None]:
    read = reader.read(0, IntervalSet.of([(begin, end)]))
    return [value for piece in read for value in piece.column("value").to_pylist()]


@pytest.mark.parametrize(
    "kind", ["token", pytest.param("token file", marks=pytest.mark.exhaustive), "certificate"]
)
def test_all_clients_log_in_by_one_declaration(broker: LoginBroker, tmp_path: Path, kind: str) -> None:
    (tmp_path / "token").write_text(broker.tokens.token("sluice-consumer"))
    login = {
        "token": broker.by_token,
        "token file": lambda: broker.by_token_file(tmp_path / "token"),
        "certificate": broker.by_certificate,
    }[kind]()
    assert KafkaAdmin(login).describe(TOPIC).partitions == 1
    with Brokers(login) as direct:
        assert direct.describe(TOPIC).leaders[0][0] == 1
    assert Topic(login, TOPIC).id() == KafkaAdmin(login).describe(TOPIC).id
    if kind == "token":
        assert broker.tokens.asked[-1]["audience"] == AUDIENCE


def test_tokens_of_seconds_under_clients_that_stay(tokens: LoginBroker) -> None:
    """A consumer, the direct path and a transactional producer, for longer than three tokens live."""
    tokens.tokens.lifetime = LIFETIME
    reads = unshared(tokens.by_token())
    writes = unshared(tokens.by_token("producer"))
    sent = Transactions(writes, TOPIC, 100_000, 1000)
    sent.fence(lambda: False)
    topic, began, number = Topic(reads, TOPIC), time.monotonic(), 0
    first = KafkaAdmin(reads).ends(TOPIC)[0]
    found: list[bytes | None] = []
    asked = len(tokens.tokens.asked)
    with Brokers(reads) as brokers:
        reader = RangeReader(brokers, TOPIC, topic.id())
        begin = first
        while time.monotonic() - began < 2.5 * LIFETIME:
            for _ in range(3):
                assert sent.send(TOPIC, b"%d" % number, None, 0)
                number += 1
            assert sent.commit(lambda: False)
            assert topic.id() == reader_id(reads)
            end = KafkaAdmin(reads).ends(TOPIC)[0]
            found += counted(reader, begin, end)
            begin = end
            # Longer than a token lives, once: the broker ends the session of a connection that is idle.
            time.sleep(LIFETIME + 1 if number == 9 else 0.3)
    assert found == [b"%d" % one for one in range(number)]
    by_librdkafka = consumer(reads, "sluice-orders-check", RANGE_SETTINGS)
    again = [one.value() for one in read_range(by_librdkafka, TOPIC, {0: first}, {0: begin}, 20)]
    by_librdkafka.close()
    assert again == found
    assert len(tokens.tokens.asked) - asked >= 4, "tokens of two logins were renewed"


def reader_id(login: Kafka) -> str:
    return KafkaAdmin(login).describe(TOPIC).id


def test_a_certificate_that_is_replaced_is_read_by_clients_that_stay(broker: LoginBroker) -> None:
    login = broker.by_certificate()
    admin, topic = KafkaAdmin(login), Topic(login, TOPIC)
    before = topic.id()
    first, first_admin = admin.admin, topic.admin
    broker.renew()
    assert topic.id() == before
    assert topic.admin is not first_admin
    assert admin.describe(TOPIC).id == before
    assert admin.admin is not first
    with Brokers(login) as direct:
        broker.renew()
        direct._manager.close(node_id=1)
        assert direct.describe(TOPIC).id


def test_a_feed_s_producer_is_made_again_after_its_certificate_was_replaced(broker: LoginBroker) -> None:
    login = broker.by_certificate("producer")
    first = Transactions(login, "feed-1", 100_000, 1000)
    first.fence(lambda: False)
    assert first.send(TOPIC, b"before", None, 0)
    assert first.commit(lambda: False)
    assert not first.is_outdated
    broker.renew("producer")
    assert first.is_outdated
    second = Transactions(login, "feed-1", 100_000, 1000)
    second.fence(lambda: False)
    assert second.send(TOPIC, b"after", None, 0)
    assert second.commit(lambda: False)
    assert not second.is_outdated


class Refused:
    """Logins of a broker that are refused, and what is said."""

    def __init__(self, broker: LoginBroker, folder: Path) -> None:
        self.broker, self.folder = broker, folder

    def wrong_secret(self) -> Kafka:
        return replace(self.broker.by_token(), sasl_oauthbearer_client_secret="wrong")

    def wrong_audience(self) -> Kafka:
        return self._with(self.broker.tokens.token("sluice-consumer", audience="other"))

    def ended_token(self) -> Kafka:
        return self._with(self.broker.tokens.token("sluice-consumer", lifetime=-90))

    def clock_an_hour_off(self) -> Kafka:
        self.broker.tokens.clock = -3600
        return unshared(self.broker.by_token())

    def foreign_authority_of_client(self) -> Kafka:
        files = Authority(self.folder / "foreign", "foreign").issue("sluice-consumer")
        return self._by(files)

    def foreign_authority_of_broker(self) -> Kafka:
        return self.broker.by_certificate(ssl_ca_location=str(Authority(self.folder / "foreign").ca))

    def no_certificate(self) -> Kafka:
        keys: dict[str, Any] = dict.fromkeys(
            ("ssl_certificate_location", "ssl_key_location", "ssl_key_password"), ""
        )
        return replace(self.broker.by_certificate(), **keys)

    def ended_certificate(self) -> Kafka:
        return self._by(
            self.broker.authority.issue("sluice-consumer", file="ended", valid=timedelta(hours=-1))
        )

    def certificate_of_an_hour_later(self) -> Kafka:
        hour = timedelta(hours=1, seconds=30)
        return self._by(self.broker.authority.issue("sluice-consumer", file="early", since=hour))

    def wrong_passphrase(self) -> Kafka:
        return self.broker.by_certificate(ssl_key_password="wrong")

    def wrong_password(self) -> Kafka:
        server = self.broker.context.network.bootstrap_servers
        return Kafka(server, "SASL_PLAINTEXT", "PLAIN", "sluice-consumer", "wrong")

    def _with(self, token: str) -> Kafka:
        path = self.folder / "token"
        path.write_text(token)
        return self.broker.by_token_file(path)

    def _by(self, files: tuple[Path, Path]) -> Kafka:
        certificate, key = map(str, files)
        return self.broker.by_certificate(
            ssl_certificate_location=certificate, ssl_key_location=key, ssl_key_password=""
        )


def late(*values: object) -> object:
    """A case for when there is time: another one of its kind is always tried."""
    return pytest.param(*values, marks=pytest.mark.exhaustive)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Refused.wrong_secret, "answered 401: 'invalid_client: client secret is wrong'. Fix: correct sasl_"),
        late(Refused.wrong_audience, "invalid_token"),
        late(Refused.ended_token, "ago, by this machine's clock. Fix: let what writes it renew it"),
        late(
            Refused.clock_an_hour_off,
            "this machine's clock is 1 h ahead of that of the token's issuer. Fix: s",
        ),
        late(
            Refused.foreign_authority_of_client,
            "Fix: give ssl_certificate_location a certificate that has no",
        ),
        (Refused.foreign_authority_of_broker, "Fix: write the path of the brokers' CA as ssl_ca_location"),
        late(
            Refused.no_certificate, "Fix: give ssl_certificate_location a certificate that has not ended, of"
        ),
        late(Refused.ended_certificate, "ended 1 h ago. Fix: renew it, under the same name"),
        late(
            Refused.certificate_of_an_hour_later,
            "is not valid for another 1 h, by the clock of this machine. Fix: set the clocks of this machine",
        ),
        late(Refused.wrong_passphrase, "cannot be used ("),
        late(Refused.wrong_password, "Fix: correct the login, in [kafka] of the role's platform file"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_refused_login_is_one_line_with_its_fix(
    tokens: LoginBroker, tmp_path: Path, kind: Callable[[Refused], Kafka], said: str
) -> None:
    login = kind(Refused(tokens, tmp_path))
    for ask in (
        lambda: Brokers(login, SECONDS, SECONDS).close(),
        lambda: KafkaAdmin(login, ADMIN_SECONDS).find(TOPIC),
    ):
        with raising(LoginRefused, said) as caught:
            ask()
        assert caught.value.code is ErrorCode.KAFKA_LOGIN
        assert "\n" not in str(caught.value)
        assert not any(secret in str(caught.value) for secret in ("eyJ", "wrong-secret", "secret-of"))
    explained = refusal(login)
    assert explained is not None
    assert said in str(explained)


def asked(login: Kafka) -> bool:
    try:
        return KafkaAdmin(login).find(TOPIC) is not None
    except Unreachable:
        return False


def test_an_endpoint_that_is_away_is_no_refused_login(
    tokens: LoginBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explaining, "PROBE_SECONDS", 1.0)
    login = unshared(tokens.by_token())
    tokens.tokens.failure = 503
    with raising(Unreachable, "token endpoint", "answered 503"):
        KafkaAdmin(login, 4).find(TOPIC)
    assert refusal(login) is None
    tokens.tokens.failure = 0
    # The endpoint is left alone for a moment, and no longer.
    found = wait_for(lambda: asked(login), 10, 0.2, bool)
    assert found


ASKS: list[Callable[[Kafka], object]] = [
    lambda login: topic_offsets(login, TOPIC),
    lambda login: group_offsets(login, "sluice-orders", TOPIC, [0]),
    lambda login: offsets_at(login, TOPIC, 0),
    lambda login: KafkaAdmin(login).find(TOPIC),
    lambda login: Topic(login, TOPIC).id(),
    lambda login: list(
        read_range(consumer(login, "sluice-orders", RANGE_SETTINGS), TOPIC, {0: 0}, {0: 1}, 30)
    ),
]


@pytest.mark.parametrize("ask", ASKS, ids=["topic", "group", "times", "admin", "id", "range"])
def test_a_wrong_password_is_said_at_the_first_refusal(
    broker: LoginBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture, ask: Callable[[Kafka], object]
) -> None:
    """By PLAIN; librdkafka logs each attempt."""
    began = time.monotonic()
    with raising(LoginRefused, "Fix: correct the login, in [kafka] of the role's platform file"):
        ask(Refused(broker, tmp_path).wrong_password())
    # Slow machines: without it each waits for 15 s and more.
    assert time.monotonic() - began < 8
    assert sum("SASL authentication error" in one for one in caplog.messages) < 6


def test_a_broker_that_is_away_is_no_refused_login(
    broker: LoginBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with a certificate that has ended."""
    monkeypatch.setattr(explaining, "PROBE_SECONDS", 1.0)
    ended = Refused(broker, tmp_path).ended_certificate()
    for login in (ended, Refused(broker, tmp_path).wrong_password()):
        away = replace(login, bootstrap_servers="127.0.0.1:1")
        with raising(Unreachable):
            KafkaAdmin(away, 2).find(TOPIC)
        with raising(Unreachable, "no broker of 127.0.0.1:1 answered"):
            Brokers(away, 1, 1)
        assert refusal(away) is None


@pytest.mark.exhaustive
def test_a_token_that_is_refused_under_a_producer_that_stays(tokens: LoginBroker) -> None:
    tokens.tokens.lifetime = LIFETIME
    sent = Transactions(unshared(tokens.by_token("producer")), "feed-2", 100_000, 1000)
    sent.fence(lambda: False)
    tokens.tokens.failure = 401
    with raising(LoginRefused, "token endpoint", "answered 401"):
        for number in range(200):
            assert sent.send(TOPIC, b"%d" % number, None, 0)
            sent.flush(lambda: False)
            sent.commit(lambda: False)
            time.sleep(0.1)


def test_a_missing_right_is_no_refused_login(broker: LoginBroker) -> None:
    with raising(Exception, "authorization failed", "Fix: check [kafka]") as caught:
        KafkaAdmin(broker.by_certificate("reader"), 6).describe("unknown-topic-of-others")
    assert getattr(caught.value, "code", None) is ErrorCode.KAFKA_PERMISSION


def test_librdkafka_s_producer_by_certificate(broker: LoginBroker) -> None:
    producer = Producer(librdkafka(broker.by_certificate("producer")))
    failures: list[object] = []
    producer.produce(TOPIC, b"x", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(20) == 0
    assert failures == [None]
