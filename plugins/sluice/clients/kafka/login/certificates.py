"""Certificates that are replaced while clients run.

kafka-python's connections each read them. librdkafka and Java's clients read them when they are made: of
librdkafka another client is made, and Spark makes another one of Java's when its requests fail.
"""

from __future__ import annotations

import atexit
import logging
import shutil
import ssl
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Generic, TypeVar, cast

from confluent_kafka import KafkaException

from sluice.clients.kafka.errors import LoginRefused
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.errors import ClientError
from sluice.core.messages import age

log = logging.getLogger(__name__)

T = TypeVar("T")
# A certificate is renewed hours before its end.
KEYSTORE_SECONDS = 5.0
_State = tuple[tuple[int, int, int], ...]


class Renewed(Generic[T]):
    """A client of librdkafka, made again after the files of its login were replaced."""

    def __init__(self, kafka: Kafka, make: Callable[[], T]) -> None:
        self._files, self._make = kafka.files, make
        self._seen = _state(self._files)
        self.client = make()

    def is_due(self) -> bool:
        """Whether files were replaced since the client was made."""
        found = _state(self._files)
        return found is not None and found != self._seen

    def renew(self) -> bool:
        """Make the client again, if it is due; whether it was made. Not of files that do not fit together:
        certificate and key are replaced one after the other."""
        if not self.is_due():
            return False
        found = _state(self._files)
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


def _state(files: tuple[str, ...]) -> _State | None:
    """What changes when a file is replaced; None while one is missing."""
    try:
        found = [Path(path).stat() for path in files]
    except OSError:
        return None
    return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in found)


def check(kafka: Kafka) -> None:
    """Raises LoginRefused for files that no client can use."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    certificate, key = kafka.ssl_certificate_location, kafka.ssl_key_location
    try:
        if kafka.ssl_ca_location:
            context.load_verify_locations(kafka.ssl_ca_location)
    except OSError as error:
        raise _unusable("ssl_ca_location", kafka.ssl_ca_location, error) from error
    try:
        if certificate:
            # Without a passphrase OpenSSL would ask for one on the terminal.
            context.load_cert_chain(certificate, key or None, password=kafka.ssl_key_password)
    except OSError as error:
        names = f"{certificate} with {key}" if key else certificate
        raise _unusable("ssl_certificate_location", names, error) from error


def _unusable(key: str, names: str, error: OSError) -> LoginRefused:
    return LoginRefused(
        f"[kafka] {key}: {names} cannot be used ({error.strerror or error}). Fix: put readable PEM files "
        "there, a key that is the certificate's, and its passphrase as ssl_key_password"
    )


def remark(kafka: Kafka) -> str:
    """Why brokers refuse this login's certificate, as far as that says it; empty if it does not."""
    from cryptography.x509 import load_pem_x509_certificate

    if not kafka.ssl_certificate_location:
        return ""
    path = Path(kafka.ssl_certificate_location)
    try:
        ends = load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
    except (OSError, ValueError):
        return ""
    seconds = (datetime.now(UTC) - ends).total_seconds()
    if seconds < 0:
        return ""
    return f"the certificate {path} ended {age(seconds)} ago. Fix: renew it, under the same name"


@dataclass(frozen=True)
class Keystore:
    """A file of PKCS#12 with certificate and key."""

    path: str
    password: str = field(repr=False)


@cache
def keystore(kafka: Kafka) -> Keystore:
    """What Java's clients read instead of the files that are declared: those of Java 17 take no passphrase as
    OpenSSL encrypts by it, and certificate and key of one file only. Kept as new as these."""
    folder = tempfile.mkdtemp(prefix="sluice-keystore-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = Keystore(str(Path(folder, "keystore.p12")), token_hex(16))
    seen = _state(kafka.files)
    _write(kafka, made)
    threading.Thread(target=_keep, args=(kafka, made, seen), name="keystore", daemon=True).start()
    return made


def _write(kafka: Kafka, kept: Keystore) -> None:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        load_pem_private_key,
        pkcs12,
    )
    from cryptography.x509 import load_pem_x509_certificates

    certificate = Path(kafka.ssl_certificate_location)
    key = Path(kafka.ssl_key_location or certificate).read_bytes()
    private = load_pem_private_key(key, kafka.ssl_key_password.encode() or None)
    first, *chain = load_pem_x509_certificates(certificate.read_bytes())
    content = pkcs12.serialize_key_and_certificates(
        b"sluice",
        cast("pkcs12.PKCS12PrivateKeyTypes", private),
        first,
        chain,
        BestAvailableEncryption(kept.password.encode()),
    )
    part = Path(f"{kept.path}.part")
    # The folder is this user's alone.
    part.write_bytes(content)
    part.rename(kept.path)


def _keep(kafka: Kafka, kept: Keystore, seen: _State | None) -> None:
    pause = threading.Event()
    while Path(kept.path).parent.exists():
        pause.wait(KEYSTORE_SECONDS)
        found = _state(kafka.files)
        if found is None or found == seen:
            continue
        try:
            check(kafka)
            _write(kafka, kept)
        except (LoginRefused, OSError, ValueError) as error:
            log.warning("keystore not written again: %s", error)
        else:
            seen = found
