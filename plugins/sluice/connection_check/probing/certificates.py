"""From when until when certificates are valid: those of files, and the chain of an open connection."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cryptography.x509 import Certificate, load_der_x509_certificate, load_pem_x509_certificates
from cryptography.x509.oid import NameOID

from sluice.connection_check.rows import PLAIN_TEXT, UNVERIFIED, Row, Span

# `_ssl.ENCODING_DER`, which is in no public module.
_DER = 2
# Longest name of a certificate that is shown.
_NAME = 60


def of_file(path: str) -> list[Certificate]:
    """All certificates in a PEM file. Raises OSError, ValueError."""
    return load_pem_x509_certificates(Path(path).read_bytes())


def own_chain(found: Sequence[Certificate]) -> tuple[Span, ...]:
    """The first certificate of a client's file, and those behind it that it is signed by, in turn."""
    chain = [found[0]]
    while chain[-1].issuer != chain[-1].subject:
        issuers = [one for one in found if one.subject == chain[-1].issuer and one not in chain]
        if not issuers:
            break
        # A file may have an older one beside its successor.
        chain.append(max(issuers, key=lambda one: one.not_valid_after_utc))
    return spans(chain)


def longest(found: Iterable[Certificate]) -> Span:
    """That of a CA's file that ends last: it may have the old CA beside the new one."""
    return max(spans([*found]), key=lambda one: one.ends)


def spans(chain: Sequence[Certificate]) -> tuple[Span, ...]:
    """The time of each; the first is the server's, or the client's, and the others have their names."""
    return tuple(
        Span(
            one.not_valid_before_utc.timestamp(),
            one.not_valid_after_utc.timestamp(),
            _name(one) if number else "",
        )
        for number, one in enumerate(chain)
    )


def _name(found: Certificate) -> str:
    names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    text = str(names[0].value) if names else found.subject.rfc4514_string()
    # Others' text.
    shown = text if text.isprintable() else repr(text)
    return shown[:_NAME] or f"number {found.serial_number}"


def note(row: Row, opened: Any, ca: str = "") -> None:
    """Fill what a connection is encrypted by. ``ca``: path of the declared CA; the one that is used has its
    own place in the row."""
    if not isinstance(opened, ssl.SSLSocket):
        row.tls = PLAIN_TEXT
        return
    is_verified = opened.context.verify_mode is not ssl.CERT_NONE
    row.tls = f"{opened.version() or ''}{'' if is_verified else UNVERIFIED}"
    chain = _chain(opened)
    row.certificate = spans(chain)
    if ca and len(chain) > 1 and chain[-1].issuer == chain[-1].subject:
        *row_chain, anchor = row.certificate
        row.certificate, row.authority = tuple(row_chain), anchor


def _chain(opened: ssl.SSLSocket) -> list[Certificate]:
    """The server's certificate, and all that it was verified by: those that it sent, and those of the CA's
    file or of the system. Without verification those that it sent."""
    # Public methods have it from Python 3.13 on.
    connection: Any = opened._sslobj  # type: ignore[attr-defined]
    shown = connection.get_verified_chain() or connection.get_unverified_chain() or ()
    return [load_der_x509_certificate(one.public_bytes(_DER)) for one in shown]
