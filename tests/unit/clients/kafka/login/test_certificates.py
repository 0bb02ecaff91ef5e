"""A client of librdkafka is made again when its certificate was replaced, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from sluice.clients.kafka.login.certificates import Renewed
from sluice.config.platform_sections.kafka import Kafka


class Clients:
    """``made``: by their number; ``fails``: the files do not fit together."""

    def __init__(self) -> None:
        self.made, self.fails = 0, False

    def make(self) -> int:
        if self.fails:
            raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "key does not match"))
        self.made += 1
        return self.made


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_text("certificate")
    key.write_text("key")
    return certificate, key


def renewed(files: tuple[Path, Path], clients: Clients) -> Renewed[int]:
    certificate, key = map(str, files)
    kafka = Kafka("b:1", "SSL", ssl_certificate_location=certificate, ssl_key_location=key)
    return Renewed(kafka, clients.make)


def replace(path: Path, text: str) -> None:
    part = path.with_suffix(".part")
    part.write_text(text)
    part.rename(path)


def test_a_login_without_files_keeps_its_client() -> None:
    clients = Clients()
    kept = Renewed(Kafka("b:1"), clients.make)
    assert not kept.is_due()
    assert kept.current() == 1
    assert clients.made == 1


@pytest.mark.parametrize("which", [0, 1])
def test_a_replaced_file_makes_another_client_once(files: tuple[Path, Path], which: int) -> None:
    kept = renewed(files, Clients())
    assert kept.current() == 1
    replace(files[which], "other")
    assert kept.is_due()
    assert kept.current() == 2
    assert not kept.is_due()
    assert not kept.renew()
    assert kept.current() == 2


def test_files_that_do_not_fit_together_yet_leave_the_client_as_it_is(files: tuple[Path, Path]) -> None:
    clients = Clients()
    kept = renewed(files, clients)
    replace(files[0], "other")
    clients.fails = True
    assert not kept.renew()
    assert kept.client == 1
    replace(files[1], "other")
    clients.fails = False
    assert kept.renew()
    assert kept.client == 2


def test_a_file_that_is_away_for_a_moment_changes_nothing(files: tuple[Path, Path]) -> None:
    kept = renewed(files, Clients())
    files[0].unlink()
    assert not kept.is_due()
    assert kept.current() == 1
    files[0].write_text("certificate again")
    assert kept.current() == 2
