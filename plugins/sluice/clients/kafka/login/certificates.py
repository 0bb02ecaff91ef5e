"""Certificates that are replaced while clients run.

kafka-python's connections each read them. librdkafka and Java's clients read them when they are made: of
librdkafka another client is made, and Spark makes another one of Java's when its requests fail.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from sluice.clients.kafka.errors import LoginRefused, Remark
from sluice.clients.tls import certificates as tls
from sluice.clients.tls.certificates import ClientCertificate
from sluice.clients.tls.followed import Followed
from sluice.config.platform_sections.kafka import Kafka

log = logging.getLogger(__name__)

T = TypeVar("T")


class Renewed(Generic[T]):
    """A client of librdkafka, made again after the files of its login were replaced."""

    def __init__(self, kafka: Kafka, make: Callable[[], T]) -> None:
        self._followed = Followed(kafka.files, "certificates of [kafka]", self._renew)
        self._make = make
        self.client = make()
        # Whether files were replaced since the client was made.
        self.is_due = self._followed.is_due
        # Makes the client again, if it is due; whether it was made.
        self.renew = self._followed.follow

    def _renew(self) -> None:
        self.client = self._make()

    def current(self) -> T:
        """The client, made again if it is due. Nothing of the one before may be in flight."""
        self.renew()
        return self.client


def check(kafka: Kafka) -> None:
    """Raises LoginRefused for files that no client can use."""
    fix = "Fix: put readable PEM files there"
    try:
        if kafka.ssl_ca_location:
            tls.trusting(kafka.ssl_ca_location)
    except tls.CertificateUnusable as error:
        raise LoginRefused(f"[kafka] ssl_ca_location: {error}. {fix}") from error
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
