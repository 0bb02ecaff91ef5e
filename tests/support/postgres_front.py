"""A server before PostgreSQL: it speaks TLS for one that has none, refuses it, or goes silent."""

from __future__ import annotations

import asyncio
import ssl
import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from threading import Event, Thread

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

HOST = "127.0.0.1"
# Codes in the place of the protocol's version.
SSL_REQUEST, GSS_REQUEST = 80877103, 80877104


@dataclass(frozen=True)
class Certificates:
    """``ca``: the file that a client trusts; ``server``: certificate and key, for one host name."""

    ca: Path
    server: Path

    def context(self) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(self.server)
        return made


def make_certificates(folder: Path, name: str, host: str) -> Certificates:
    """A CA of its own, and a certificate for ``host`` by it."""
    now = datetime.now(UTC)

    def certificate(
        subject: str,
        key: ec.EllipticCurvePrivateKey,
        by: str,
        signer: ec.EllipticCurvePrivateKey,
        is_ca: bool,
    ) -> x509.Certificate:
        names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in (subject, by)]
        builder = (
            x509.CertificateBuilder()
            .subject_name(names[0])
            .issuer_name(names[1])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(is_ca, None), critical=True)
        )
        if not is_ca:
            builder = builder.add_extension(x509.SubjectAlternativeName([_name(subject)]), critical=False)
        return builder.sign(signer, hashes.SHA256())

    authority, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca, server = folder / f"{name}-ca.pem", folder / f"{name}.pem"
    ca.write_bytes(certificate(name, authority, name, authority, True).public_bytes(Encoding.PEM))
    key = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    server.write_bytes(key + certificate(host, own, name, authority, False).public_bytes(Encoding.PEM))
    return Certificates(ca, server)


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


class Front:
    """Passes connections on to PostgreSQL at ``upstream``. ``context``: of its TLS; None: it refuses it, and
    passes plain text on. ``sessions``: how many clients began one, with their user name."""

    def __init__(self, upstream: int, context: ssl.SSLContext | None = None) -> None:
        self.sessions = 0
        self._upstream, self._context = upstream, context
        self._loop = asyncio.new_event_loop()
        self._ready, self.port = Event(), 0
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    def silence(self, is_silent: bool = True) -> None:
        """Pass nothing on, in both directions, and keep every connection open."""
        act = self._talks.clear if is_silent else self._talks.set
        self._loop.call_soon_threadsafe(act)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _start(self) -> None:
        self._talks = asyncio.Event()
        self._talks.set()
        server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first = await reader.readexactly(8)
            while struct.unpack("!ii", first)[1] in (SSL_REQUEST, GSS_REQUEST):
                is_tls = struct.unpack("!ii", first)[1] == SSL_REQUEST and self._context is not None
                writer.write(b"S" if is_tls else b"N")
                await writer.drain()
                if is_tls:
                    await writer.start_tls(self._context)  # type: ignore[arg-type]
                first = await reader.readexactly(8)
            self.sessions += 1
            upstream, back = await asyncio.open_connection(HOST, self._upstream)
            back.write(first)
            await asyncio.gather(self._pump(reader, back), self._pump(upstream, writer))
        except (OSError, asyncio.IncompleteReadError):
            # A client that refuses the certificate, or ends.
            writer.close()

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                await self._talks.wait()
                target.write(data)
                await target.drain()
        finally:
            target.close()
