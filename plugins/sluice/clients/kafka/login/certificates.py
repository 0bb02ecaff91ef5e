"""Certificates that are replaced while clients run.

kafka-python's connections each read them. librdkafka and Java's clients read them when they are made: of
librdkafka another client is made, and Spark makes another one of Java's when its requests fail.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from typing import Generic, TypeVar

from confluent_kafka import KafkaException

from sluice.clients.kafka.errors import LoginRefused, Remark
from sluice.clients.tls import certificates as tls
from sluice.clients.tls.certificates import ClientCertificate
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.errors import ClientError

log = logging.getLogger(__name__)

T = TypeVar("T")


class Renewed(Generic[T]):
    """A client of librdkafka, made again after the files of its login were replaced."""

    def __init__(self, kafka: Kafka, make: Callable[[], T]) -> None:
        self._files, self._make = kafka.files, make
        self._seen = tls.state(self._files)
        self.client = make()

    def is_due(self) -> bool:
        """Whether files were replaced since the client was made."""
        found = tls.state(self._files)
        return found is not None and found != self._seen

    def renew(self) -> bool:
        """Make the client again, if it is due; whether it was made. Not of files that do not fit together:
        certificate and key are replaced one after the other."""
        if not self.is_due():
            return False
        found = tls.state(self._files)
        try:
            self.client = self._make()
        except (KafkaException, ClientError) as error:
            log.warning("certificates not read again: %s", error)
            return False
        self._seen = found
        log.info("certificates read again files=%s", ",".join(self._files))
        return True

    def current(self) -> T:
        """The client, made again if it is due. Nothing of the one before may be in flight."""
        self.renew()
        return self.client


def check(kafka: Kafka) -> None:
    """Raises LoginRefused for files that no client can use."""
    ca, fix = kafka.ssl_ca_location, "Fix: put readable PEM files there"
    try:
        if ca:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(ca)
    except OSError as error:
        said = f"{ca} cannot be used ({error.strerror or error})"
        raise LoginRefused(f"[kafka] ssl_ca_location: {said}. {fix}") from error
    try:
        if kafka.ssl_certificate_location:
            tls.check(client_certificate(kafka))
    except tls.CertificateUnusable as error:
        raise LoginRefused(
            f"[kafka] ssl_certificate_location: {error}. {fix}, a key that is the certificate's, and its "
            "passphrase as ssl_key_password"
        ) from error


def remark(kafka: Kafka) -> Remark:
    """Why brokers refuse this login's certificate, as far as that says it."""
    certificate = kafka.ssl_certificate_location
    if not certificate:
        return Remark()
    if said := tls.ended(certificate):
        return Remark(f"{said}. {tls.RENEW_FIX}", is_final=True)
    said = tls.early(certificate)
    return Remark(f"{said}. {tls.EARLY_FIX}" if said else "")


def client_certificate(kafka: Kafka) -> ClientCertificate:
    """That of the login, which has one."""
    return ClientCertificate(kafka.ssl_certificate_location, kafka.ssl_key_location, kafka.ssl_key_password)
