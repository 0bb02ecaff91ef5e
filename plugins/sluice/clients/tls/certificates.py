"""A client's certificate, in files that are replaced while processes run."""

from __future__ import annotations

import atexit
import logging
import shutil
import ssl
import tempfile
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from math import inf
from pathlib import Path
from secrets import token_hex
from typing import cast

from sluice.core.error_codes import ErrorCode
from sluice.core.messages import age

log = logging.getLogger(__name__)

# A certificate is renewed hours before its end.
KEYSTORE_SECONDS = 5.0
# The name of key and certificate in the file: PostgreSQL's driver takes no other.
ALIAS = b"user"
RENEW_FIX = "Fix: renew it, under the same name"
EARLY_FIX = "Fix: set the clocks of this machine, of the server and of the CA, or wait"
State = tuple[tuple[int, int, int], ...]


class CertificateUnusable(ValueError):
    """No client can use the files. The text names them, and says why; not the fix, which is the system's."""

    code = ErrorCode.INVALID_CONFIGURATION


@dataclass(frozen=True)
class ClientCertificate:
    """Paths of PEM files; ``key`` empty: in the same file."""

    certificate: str
    key: str = ""
    passphrase: str = field(default="", repr=False)

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.certificate, self.key)))


@dataclass(frozen=True)
class Keystore:
    """A file of PKCS#12 with certificate and key."""

    path: str
    password: str = field(repr=False)


def state(files: tuple[str, ...]) -> State | None:
    """What changes when a file is replaced; None while one is missing."""
    try:
        found = [Path(path).stat() for path in files]
    except OSError:
        return None
    return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in found)


def check(found: ClientCertificate) -> None:
    """Raises CertificateUnusable for files that cannot be read, or do not fit together."""
    load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), found)


def check_valid(found: ClientCertificate) -> None:
    """As :func:`check`; also for a certificate that has ended, of which a server's words say little."""
    check(found)
    if said := ended(found.certificate):
        raise CertificateUnusable(said)


def load(context: ssl.SSLContext, found: ClientCertificate) -> None:
    """Give it to what connects. Raises CertificateUnusable as :func:`check`."""
    try:
        # Without a passphrase OpenSSL would ask for one on the terminal.
        context.load_cert_chain(found.certificate, found.key or None, password=found.passphrase)
    except OSError as error:
        names = " with ".join(found.files)
        raise CertificateUnusable(
            f"certificate {names} cannot be used ({error.strerror or error})"
        ) from error


def remark(certificate: str) -> str:
    """Why a server refuses this certificate, as far as that says it, and the fix; empty if it does not."""
    if said := ended(certificate):
        return f"{said}. {RENEW_FIX}"
    said = early(certificate)
    return f"{said}. {EARLY_FIX}" if said else ""


def ended(certificate: str) -> str:
    """How long ago the certificate ended, by this machine's clock; empty if it has not."""
    seconds = -_seconds_to(certificate, "not_valid_after_utc")
    return f"the certificate {certificate} ended {age(seconds)} ago" if seconds >= 0 else ""


def early(certificate: str) -> str:
    """In what time the certificate begins to count, by this machine's clock; empty if it does. No reason to
    keep it from a server, whose clock may be another: only a remark about its refusal."""
    seconds = _seconds_to(certificate, "not_valid_before_utc")
    if not 0 < seconds < inf:
        return ""
    return (
        f"the certificate {certificate} is not valid for another {age(seconds)}, by the clock of this machine"
    )


def _seconds_to(certificate: str, name: str) -> float:
    """Seconds until this time of a certificate; infinity if it cannot be read."""
    from cryptography.x509 import load_pem_x509_certificate

    try:
        found = load_pem_x509_certificate(Path(certificate).read_bytes())
    except (OSError, ValueError):
        return inf
    at: datetime = getattr(found, name)
    return (at - datetime.now(UTC)).total_seconds()


@cache
def keystore(found: ClientCertificate) -> Keystore:
    """What Java's clients read instead of the files that are declared: those of Java 17 take no passphrase as
    OpenSSL encrypts by it, and certificate and key of one file only. Kept as new as these.

    Raises CertificateUnusable."""
    seen = state(found.files)
    check(found)
    folder = tempfile.mkdtemp(prefix="sluice-keystore-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = Keystore(str(Path(folder, "keystore.p12")), token_hex(16))
    _write(found, made)
    threading.Thread(target=_keep, args=(found, made, seen), name="keystore", daemon=True).start()
    return made


def _write(found: ClientCertificate, kept: Keystore) -> None:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        load_pem_private_key,
        pkcs12,
    )
    from cryptography.x509 import load_pem_x509_certificates

    certificate = Path(found.certificate)
    key = Path(found.key or certificate).read_bytes()
    private = load_pem_private_key(key, found.passphrase.encode() or None)
    first, *chain = load_pem_x509_certificates(certificate.read_bytes())
    content = pkcs12.serialize_key_and_certificates(
        ALIAS,
        cast("pkcs12.PKCS12PrivateKeyTypes", private),
        first,
        chain,
        BestAvailableEncryption(kept.password.encode()),
    )
    part = Path(f"{kept.path}.part")
    # The folder is this user's alone.
    part.write_bytes(content)
    part.rename(kept.path)


def _keep(found: ClientCertificate, kept: Keystore, seen: State | None) -> None:
    pause = threading.Event()
    while Path(kept.path).parent.exists():
        pause.wait(KEYSTORE_SECONDS)
        newest = state(found.files)
        if newest is None or newest == seen:
            continue
        try:
            check(found)
            _write(found, kept)
        except (OSError, ValueError) as error:
            log.warning("keystore not written again: %s", error)
        else:
            seen = newest
            log.info("certificate read again file=%s", found.certificate)
