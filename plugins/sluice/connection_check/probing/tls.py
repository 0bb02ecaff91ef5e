"""Whether a server is trusted, by a handshake, which shows its certificates; and those of files."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from sluice.connection_check.probing import certificates
from sluice.connection_check.rows import PLAIN_TEXT, Row, is_valid

CONNECT_SECONDS = 5.0
# PostgreSQL's request to go on with TLS (its protocol, SSLRequest).
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
# X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL: rows say these by the dates.
_BY_DATE = frozenset({9, 10})
_OWN = "own certificate"
# What declares the CA, the client's certificate, its key, and the key's passphrase.
_KEYS = (
    ("ssl_ca_location", "ca_location", "sslrootcert", "ssl_ca"),
    ("ssl_certificate_location", "sslcert", "ssl_cert"),
    ("ssl_key_location", "sslkey", "ssl_key"),
    ("ssl_key_password", "sslpassword", "key_password"),
)


@dataclass(frozen=True)
class Tls:
    """How a server is verified, and the client."""

    ca: str = ""
    """Path of a PEM file with the CA; empty: the system's."""
    certificate: str = ""
    """Path of a PEM file with the client's certificate; empty: none."""
    key: str = ""
    """Path of a PEM file with its key; empty: in the same file."""
    key_password: str = field(default="", repr=False)
    """The key's passphrase; empty: it is not encrypted."""
    is_verified: bool = True
    """False if the declaration asks for encryption alone."""
    names_host: bool = True
    """Whether the server's certificate must name the host."""

    @classmethod
    def declared(cls, section: object, *, is_verified: bool = True, names_host: bool = True) -> Tls:
        """By the keys of a section, or of a connection's options, which have the names of their clients'."""
        known = section if isinstance(section, Mapping) else None

        def first(names: Sequence[str]) -> str:
            texts = (known.get(name) if known is not None else getattr(section, name, "") for name in names)
            return next((text for text in texts if text), "")

        ca, certificate, key, password = (first(names) for names in _KEYS)
        return cls(ca, certificate, key, password, is_verified=is_verified, names_host=names_host)


def read_files(row: Row, tls: Tls) -> None:
    """Fill the ends of the client's own certificate and of the CA; a file that cannot be read is a
    problem."""
    for name, path in ((_OWN, tls.certificate), ("CA", tls.ca)):
        if not path:
            continue
        try:
            found = certificates.of_file(path)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            row.problems.append(f"{name} {path}: {reason}. Fix: put a readable PEM file there")
            continue
        if name == _OWN:
            row.own = certificates.own_chain(found)
        else:
            row.authority = certificates.longest(found)


def look(row: Row, host: str, port: int, tls: Tls, *, is_postgresql: bool = False) -> bool:
    """Fill what the server's handshake shows; whether it is trusted. A server that is not is a problem, which
    a client's own message, without a date, need not repeat."""
    try:
        contexts = [_context(tls, verified=verified) for verified in (tls.is_verified, False)]
    except OSError as error:
        row.problems.append(
            f"certificate, key or CA cannot be used ({error.strerror or error}). Fix: put readable PEM files "
            "there, a key that is the certificate's, and its passphrase"
        )
        return False
    try:
        _handshake(row, host, port, contexts[0], tls.ca, is_postgresql)
    except ssl.SSLCertVerificationError as error:
        try:
            _handshake(row, host, port, contexts[1], tls.ca, is_postgresql)
        except OSError as second:
            row.remarks.append(f"its certificate is not shown ({second})")
        seen = (*row.certificate, *filter(None, [row.authority]))
        if error.verify_code not in _BY_DATE or all(is_valid(one, time.time()) for one in seen):
            row.problems.append(
                f"{host}:{port}: its certificate is not trusted: {error.verify_message}. Fix: give the path "
                "of its CA, or correct the host's name"
            )
        return False
    except OSError as error:
        row.problems.append(
            f"{host}:{port} does not answer: {error.strerror or error}. Fix: start it, or correct the address"
        )
        return False
    return True


def _context(tls: Tls, *, verified: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca or None)
    context.check_hostname = verified and tls.names_host
    if not verified:
        context.verify_mode = ssl.CERT_NONE
    if tls.certificate:
        # Without a passphrase OpenSSL would ask for one on the terminal.
        context.load_cert_chain(tls.certificate, tls.key or None, password=tls.key_password)
    return context


def _handshake(row: Row, host: str, port: int, context: ssl.SSLContext, ca: str, is_postgresql: bool) -> None:
    with socket.create_connection((host, port), CONNECT_SECONDS) as plain:
        if is_postgresql:
            plain.sendall(_SSL_REQUEST)
            if plain.recv(1) != b"S":
                raise ConnectionError("the server has no TLS")
        with context.wrap_socket(plain, server_hostname=host) as opened:
            certificates.note(row, opened, ca)


def look_at(row: Row, url: str, tls: Tls) -> bool:
    """As :func:`read_files` and :func:`look`, of an address with http:// or https://."""
    parts = urlsplit(url)
    if parts.scheme != "https":
        row.tls = PLAIN_TEXT
        return True
    read_files(row, tls)
    return look(row, parts.hostname or "", parts.port or 443, tls)


def servers(text: str) -> Sequence[tuple[str, int]]:
    """Hosts and ports of `host:port`, separated by commas; `[::1]:9092` of IPv6."""
    found = []
    for one in text.split(","):
        host, _, port = one.strip().rpartition(":")
        found.append((host.strip("[]"), int(port)))
    return found
