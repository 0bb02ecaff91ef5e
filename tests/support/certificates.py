"""Certificates of an authority of a test's own."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Authority:
    """A CA, whose certificate is ``ca.pem`` in its folder. ``valid``: until when, from now; ``issuer``: who
    signs it; None: itself."""

    def __init__(
        self,
        folder: Path,
        name: str = "test authority",
        *,
        valid: timedelta = timedelta(days=1),
        issuer: Authority | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._name = folder, _name(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            (issuer or self)
            ._builder(self._name, self._key.public_key(), valid)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign((issuer or self)._key, hashes.SHA256())
        )
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        *,
        file: str = "",
        passphrase: str = "",
        valid: timedelta = timedelta(days=1),
        since: timedelta = timedelta(days=-2),
        host: str = "localhost",
    ) -> tuple[Path, Path]:
        """Files with a certificate for ``name`` and ``host``, and with its key; replaced if they are there.
        ``since``, ``valid``: from and until when, from now; ``host``: localhost is 127.0.0.1 too."""
        key = ec.generate_private_key(ec.SECP256R1())
        hosts: list[x509.GeneralName] = [x509.DNSName(host)]
        if host == "localhost":
            hosts.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        certificate = (
            self._builder(_name(name), key.public_key(), valid, since)
            .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        kept: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if passphrase:
            kept = serialization.BestAvailableEncryption(passphrase.encode())
        pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        contents = {
            self._folder / f"{file or name}.crt": certificate.public_bytes(pem),
            self._folder / f"{file or name}.key": key.private_bytes(pem, pkcs8, kept),
        }
        for path, content in contents.items():
            part = path.with_suffix(".part")
            part.write_bytes(content)
            # libpq reads no key that others may read.
            part.chmod(0o600)
            part.rename(path)
        first, second = contents
        return first, second

    def _builder(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePublicKey,
        valid: timedelta,
        since: timedelta = timedelta(days=-2),
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + since)
            .not_valid_after(now + valid)
        )
