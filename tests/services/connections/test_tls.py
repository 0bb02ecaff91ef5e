"""Servers with certificates: what a check says of their time and their CA, and of a client's own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from sluice.config.platform_sections.kafka import Kafka
from sluice.connection_check.probing.kafka import ask, login_of
from sluice.connection_check.rights.kafka import kafka_rules
from sluice.connection_check.rows import Row, failures
from sluice.connection_check.run import End, look
from tests.support.certificates import Authority
from tests.support.kafka_logins import LoginBroker

TOPIC = "checked"
RULES = kafka_rules([TOPIC])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginBroker]:
    made = LoginBroker(tmp_path_factory.mktemp("checked-logins"))
    made.make_topic(TOPIC)
    yield made
    made.stop()


def rows_of(kafka: Kafka, clock: float = 0.0) -> list[Row]:
    """``clock``: seconds that this machine's is set forward."""
    row = Row("consumer", "kafka", kafka.bootstrap_servers, login_of(kafka))
    end = End(row, lambda rows: ask(kafka, "consumer", RULES, rows))
    return look([end], clock=lambda: time.time() + clock)


@pytest.mark.exhaustive
def test_a_login_by_certificate_has_its_row(broker: LoginBroker) -> None:
    cluster, seen, *_ = rows_of(broker.by_certificate())
    # The support's certificates have three days, and one of it left.
    assert [line for line in failures([cluster, seen]) if " ends in " not in line] == []
    assert (seen.end, seen.tls) == ("kafka broker", "TLSv1.3")
    assert seen.certificate
    assert cluster.own
    assert cluster.authority is not None
    assert cluster.rights.asked > 1
    assert cluster.rights.missing == ()


@pytest.mark.exhaustive
def test_a_certificate_that_ends_in_a_day_is_named(broker: LoginBroker) -> None:
    broker.renew("consumer", timedelta(days=60))
    cluster, *_ = rows_of(broker.by_certificate())
    assert not [line for line in cluster.problems if "own certificate" in line]
    broker.renew("consumer", timedelta(hours=23))
    cluster, *_ = rows_of(broker.by_certificate())
    (line,) = [line for line in cluster.problems if "own certificate" in line]
    assert "own certificate ends in 22 h" in line or "own certificate ends in 23 h" in line
    assert "Fix: renew it" in line
    broker.renew("consumer", timedelta(seconds=1))
    time.sleep(1.5)
    found = rows_of(broker.by_certificate())
    assert [line for line in failures(found) if "own certificate ended" in line]


@pytest.mark.exhaustive
def test_another_ca_is_one_line_with_the_certificates_end(broker: LoginBroker, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other", "another authority")
    _, seen, *_ = rows_of(broker.by_certificate(ssl_ca_location=str(other.ca)))
    (line,) = [line for line in seen.problems if "not trusted" in line]
    assert "Fix: give the path of its CA" in line
    assert seen.certificate


@pytest.mark.exhaustive
def test_a_key_of_another_certificate_is_named_and_no_server_is_blamed(broker: LoginBroker) -> None:
    _, key = broker.authority.issue("another")
    found = rows_of(broker.by_certificate(ssl_key_location=str(key), ssl_key_password=""))
    assert [line for line in failures(found) if "a key that is the certificate's" in line]
    assert not [line for line in failures(found) if "does not answer" in line]


@pytest.mark.exhaustive
def test_a_clock_far_behind_is_a_certificate_that_is_not_yet_valid(broker: LoginBroker) -> None:
    _, seen, *_ = rows_of(broker.by_certificate(), clock=-3 * 86400.0)
    assert [line for line in seen.problems if "is not yet valid" in line and "set the clock" in line]


@pytest.mark.exhaustive
def test_a_token_has_its_end_and_is_renewed(broker: LoginBroker) -> None:
    cluster, endpoint, *brokers = rows_of(broker.by_token())
    assert failures([cluster, endpoint, *brokers]) == []
    assert (endpoint.end, endpoint.tls) == ("kafka token endpoint", "plain text")
    assert endpoint.clock is not None
    assert cluster.token is not None
    assert cluster.is_renewed
    assert cluster.login == "OAUTHBEARER sluice-consumer"


@pytest.mark.exhaustive
def test_a_token_of_a_file_that_ends_is_named(broker: LoginBroker, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(broker.tokens.token("sluice-consumer", 3600.0))
    cluster, *_ = rows_of(broker.by_token_file(path))
    assert not [line for line in cluster.problems if "token" in line]
    path.write_text(broker.tokens.token("sluice-consumer", -10.0))
    found = rows_of(broker.by_token_file(path.with_name("gone")))
    assert [line for line in failures(found) if "No such file" in line]
