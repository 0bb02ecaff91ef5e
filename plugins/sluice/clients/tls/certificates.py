"""A client's certificate, in files that are replaced while processes run."""

from __future__ import annotations

import atexit
import shutil
import ssl
import tempfile
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, cast

from sluice.clients.tls.followed import Followed
from sluice.core.error_codes import ErrorCode
from sluice.core.messages import age

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12PrivateKeyTypes
    from cryptography.x509 import Certificate

# A certificate is renewed hours before its end.
KEYSTORE_SECONDS = 5.0
# Certificate and key are replaced one after the other, and a file is written in parts: so long after the last
# change files that cannot be used are looked at again.
SETTLING_SECONDS, _PAUSE_SECONDS = 1.0, 0.05
# OpenSSL's words for files that may be complete, or fit together, in a moment.
_UNFINISHED = ("KEY_VALUES_MISMATCH", "PEM lib", "NO_START_LINE", "BAD_END_LINE", "BAD_BASE64_DECODE")
# Path -> when the certificate ends that was read there last: it is in use until another one is read.
_ENDS: dict[str, datetime] = {}
_ENDING = threading.Event()
atexit.register(_ENDING.set)
# The name of key and certificate in the file: PostgreSQL's driver takes no other.
ALIAS = b"user"
RENEW_FIX = "Fix: renew it, under the same name"
EARLY_FIX = "Fix: set the clocks of this machine, of the server and of the CA, or wait"


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


def trusting(ca: str) -> ssl.SSLContext:
    """Verifies servers and their hosts' names by the CAs of a PEM file; empty: by the system's. Raises
    CertificateUnusable."""
    try:
        return ssl.create_default_context(cafile=ca or None)
    except OSError as error:
        raise CertificateUnusable(f"CA {ca} cannot be used ({error.strerror or error})") from error


def check(found: ClientCertificate) -> None:
    """Raises CertificateUnusable for files that cannot be read, or do not fit together."""
    load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), found)


def check_valid(found: ClientCertificate) -> None:
    """As :func:`check`; also for a certificate that has ended, of which a server's words say little."""
    check(found)
    if said := ended(found.certificate):
        raise CertificateUnusable(said)


def load(context: ssl.SSLContext, found: ClientCertificate, *, is_patient: bool = True) -> None:
    """Give it to what connects. Raises CertificateUnusable as :func:`check`, at once unless ``is_patient``:
    who has an earlier certificate need not be."""
    until = time.monotonic() + (SETTLING_SECONDS if is_patient else 0)
    while True:
        try:
            # Without a passphrase OpenSSL would ask for one on the terminal.
            context.load_cert_chain(found.certificate, found.key or None, password=found.passphrase)
        except OSError as error:
            if time.monotonic() > until or not _is_settling(found, error):
                names = " with ".join(found.files)
                raise CertificateUnusable(
                    f"certificate {names} cannot be used ({error.strerror or error})"
                ) from error
            time.sleep(_PAUSE_SECONDS)
        else:
            _note_end(found.certificate)
            return


def _is_settling(found: ClientCertificate, error: OSError) -> bool:
    """Whether the files were changed just now, and it may be why they cannot be used."""
    is_away = isinstance(error, FileNotFoundError)
    if not is_away and not any(word in str(error) for word in _UNFINISHED):
        return False
    places = [Path(path).parent if is_away else Path(path) for path in found.files]
    try:
        last = max(place.stat().st_mtime for place in places)
    except OSError:
        return False
    return abs(time.time() - last) < SETTLING_SECONDS


def ended(certificate: str) -> str:
    """How long ago the certificate ended, by this machine's clock; empty if it has not. Of a file that cannot
    be read any more: the one that was read before."""
    said = ""
    try:
        ends = _note_end(certificate)
    except (OSError, ValueError) as error:
        if certificate not in _ENDS:
            return ""
        reason = error.strerror if isinstance(error, OSError) else error
        ends, said = _ENDS[certificate], f", and no other one can be read there ({reason})"
    seconds = (datetime.now(UTC) - ends).total_seconds()
    return "" if seconds < 0 else f"the certificate {certificate} ended {age(seconds)} ago{said}"


def early(certificate: str) -> str:
    """In what time the certificate begins to count, by this machine's clock; empty if it does. No reason to
    keep it from a server, whose clock may be another: only a remark about its refusal."""
    try:
        begins = _read(certificate).not_valid_before_utc
    except (OSError, ValueError):
        return ""
    seconds = (begins - datetime.now(UTC)).total_seconds()
    if seconds <= 0:
        return ""
    return (
        f"the certificate {certificate} is not valid for another {age(seconds)}, by the clock of this machine"
    )


def _note_end(certificate: str) -> datetime:
    """Raises OSError and ValueError for a file that cannot be read."""
    ends = _ENDS[certificate] = _read(certificate).not_valid_after_utc
    return ends


def _read(certificate: str) -> Certificate:
    from cryptography.x509 import load_pem_x509_certificate

    return load_pem_x509_certificate(Path(certificate).read_bytes())


@cache
def keystore(found: ClientCertificate) -> Keystore:
    """What Java's clients read instead of the files that are declared: those of Java 17 take no passphrase as
    OpenSSL encrypts by it, and certificate and key of one file only. Kept as new as these.

    Raises CertificateUnusable."""
    check(found)
    folder = tempfile.mkdtemp(prefix="sluice-keystore-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = Keystore(str(Path(folder, "keystore.p12")), token_hex(16))
    followed = Followed(found.files, "client certificate", lambda: _write(found, made))
    _write(found, made)
    threading.Thread(target=_keep, args=(followed, made), name="keystore", daemon=True).start()
    return made


def _write(found: ClientCertificate, kept: Keystore) -> None:
    """Raises CertificateUnusable, also for what OpenSSL takes, and Java's format does not."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
    from cryptography.x509 import load_pem_x509_certificates

    try:
        first, *chain = load_pem_x509_certificates(Path(found.certificate).read_bytes())
        content = pkcs12.serialize_key_and_certificates(
            ALIAS,
            _key(found),
            first,
            chain,
            BestAvailableEncryption(kept.password.encode()),
        )
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        names = " with ".join(found.files)
        raise CertificateUnusable(f"certificate {names} cannot be used ({error})") from error
    path = Path(kept.path)
    # Something may have tidied up. The folder is this user's alone.
    path.parent.mkdir(mode=0o700, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_bytes(content)
    part.rename(path)


def _key(found: ClientCertificate) -> PKCS12PrivateKeyTypes:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = Path(found.key or found.certificate).read_bytes()
    try:
        key = load_pem_private_key(content, found.passphrase.encode() or None)
    except TypeError:
        if not found.passphrase:
            raise
        # OpenSSL takes a key that is not encrypted, whatever passphrase there is.
        key = load_pem_private_key(content, None)
    return cast("PKCS12PrivateKeyTypes", key)


def _keep(followed: Followed, kept: Keystore) -> None:
    while not _ENDING.wait(KEYSTORE_SECONDS):
        if not Path(kept.path).exists():
            followed.forget()
        followed.follow()
