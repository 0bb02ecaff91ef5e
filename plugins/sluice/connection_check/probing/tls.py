"""Whether a server is trusted, by a handshake, which shows its certificates; and those of files."""

from __future__ import annotations

import ssl
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sluice.clients.proxies import proxy_of
from sluice.clients.tls.certificates import CertificateUnusable, ClientCertificate, check, load, trusting
from sluice.config.reading.urls import host_of
from sluice.connection_check.probing import certificates
from sluice.connection_check.probing.proxies import connected, is_passed
from sluice.connection_check.rows import PLAIN_TEXT, Row, is_valid

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

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
    own: ClientCertificate | None = None
    """The client's; None without one."""
    is_verified: bool = True
    """False if the declaration asks for encryption alone."""
    names_host: bool = True
    """Whether the server's certificate must name the host."""

    @classmethod
    def declared(
        cls, section: object, passphrase: str = "", *, is_verified: bool = True, names_host: bool = True
    ) -> Tls:
        """By the keys of a section, or of a connection's options, which have the names of their clients'.
        ``passphrase``: the key's, where it is no option."""
        known = section if isinstance(section, Mapping) else None

        def first(names: Sequence[str]) -> str:
            texts = (known.get(name) if known is not None else getattr(section, name, "") for name in names)
            return next((text for text in texts if text), "")

        ca, certificate, key, password = (first(names) for names in _KEYS)
        own = ClientCertificate(certificate, key, passphrase or password) if certificate else None
        return cls(ca, own, is_verified, names_host)


def read_files(row: Row, tls: Tls) -> None:
    """Fill the ends of the client's own certificate and of the CA; a file that cannot be read is a
    problem."""
    if tls.own:
        # Files that are replaced just now are waited for; what is wrong with others is said by who uses them.
        with suppress(CertificateUnusable):
            check(tls.own)
    for name, path in ((_OWN, tls.own.certificate if tls.own else ""), ("CA", tls.ca)):
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


def look(row: Row, host: str, port: int, tls: Tls, *, proxy: str = "", is_postgresql: bool = False) -> bool:
    """Fill what the server's handshake shows; whether it is trusted. A server that is not is a problem, which
    a client's own message, without a date, need not repeat. ``proxy``: that is gone through, or ""."""
    try:
        contexts = [_context(tls, verified=verified) for verified in (tls.is_verified, False)]
    except CertificateUnusable as error:
        row.problems.append(
            f"{error}. Fix: put readable PEM files there, a key that is the certificate's, and its passphrase"
        )
        return False
    connect = partial(connected, host, port, proxy)
    try:
        _handshake(row, host, connect, contexts[0], tls.ca, is_postgresql)
    except ssl.SSLCertVerificationError as error:
        try:
            _handshake(row, host, connect, contexts[1], tls.ca, is_postgresql)
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
        by = f" through proxy {host_of(proxy)}" if proxy else ""
        fix = ", or let the proxy pass it, or name its host in NO_PROXY" if proxy else ""
        row.problems.append(
            f"{host}:{port} does not answer{by}: {error.strerror or error}. Fix: start it, or correct the "
            f"address{fix}"
        )
        return False
    return True


def _context(tls: Tls, *, verified: bool) -> ssl.SSLContext:
    context = trusting(tls.ca)
    context.check_hostname = verified and tls.names_host
    if not verified:
        context.verify_mode = ssl.CERT_NONE
    if tls.own:
        load(context, tls.own)
    return context


def _handshake(
    row: Row,
    host: str,
    connect: Callable[[], socket.socket],
    context: ssl.SSLContext,
    ca: str,
    is_postgresql: bool,
) -> None:
    with connect() as plain:
        if is_postgresql:
            plain.sendall(_SSL_REQUEST)
            if plain.recv(1) != b"S":
                raise ConnectionError("the server has no TLS")
        with context.wrap_socket(plain, server_hostname=host) as opened:
            certificates.note(row, opened, ca)


def look_at(row: Row, url: str, tls: Tls, *, is_direct: bool = False) -> bool:
    """As :func:`read_files` and :func:`look`, of an address with http:// or https://. ``is_direct``: its
    clients heed no proxy."""
    parts = urlsplit(url)
    if parts.scheme != "https":
        row.tls = PLAIN_TEXT
        return True
    read_files(row, tls)
    proxy = "" if is_direct else proxy_of(url)
    if not is_passed(proxy):
        row.remarks.append(f"its certificate is not looked at: through proxy {host_of(proxy)}")
        return True
    return look(row, parts.hostname or "", parts.port or 443, tls, proxy=proxy)


def servers(text: str) -> Sequence[tuple[str, int]]:
    """Hosts and ports of `host:port`, separated by commas; `[::1]:9092` of IPv6."""
    found = []
    for one in text.split(","):
        host, _, port = one.strip().rpartition(":")
        found.append((host.strip("[]"), int(port)))
    return found
