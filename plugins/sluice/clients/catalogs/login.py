"""A client's certificate, and the CA of a REST server, for Iceberg's Java catalog: drivers of databases take
one file with a key that they can read; the client of a REST server takes what its JVM has."""

from __future__ import annotations

import logging
import threading
from itertools import count
from pathlib import Path
from typing import Any

from sluice.clients.catalogs.errors import login_refused
from sluice.clients.tls import certificates
from sluice.clients.tls.certificates import CertificateUnusable, ClientCertificate, Keystore, keystore, state
from sluice.config.platform_sections.catalog import MYSQL, POSTGRESQL, Catalog

log = logging.getLogger(__name__)

# Database -> the driver's names for path and password. PostgreSQL's knows the file by its ending.
_NAMES = {POSTGRESQL: ("sslkey", "sslpassword"), MYSQL: ("keyStore", "keyStorePassword")}


def java(catalog: Catalog) -> dict[str, str]:
    """Further properties of the catalog, whose connections each read the file. Raises Refused for files that
    cannot be used."""
    if not catalog.database or not catalog.sslcert:
        return {}
    kept = _kept(catalog)
    path, password = _NAMES[catalog.database]
    found = {path: kept.path, password: kept.password}
    if catalog.database == MYSQL:
        found["keyStoreType"] = "PKCS12"
    return {f"jdbc.{name}": value for name, value in found.items()}


def _kept(catalog: Catalog) -> Keystore:
    try:
        return keystore(ClientCertificate(*catalog.certificate))
    except CertificateUnusable as error:
        raise login_refused("the lake's catalog", str(error)) from error


def encrypt(jvm: Any, catalog: Catalog) -> None:
    """Make the JVM's own SSLContext trust the CA of a REST catalog beside the system's, and log in by its
    certificate, which is followed when it is replaced; the CA is not.

    ``jvm``: Py4J's view. Raises Refused for files that cannot be used."""
    ssl = jvm.javax.net.ssl
    trusted = _system_store(jvm)
    if catalog.sslrootcert:
        _trust(jvm, trusted, catalog.sslrootcert)
    trust = ssl.TrustManagerFactory.getInstance(ssl.TrustManagerFactory.getDefaultAlgorithm())
    trust.init(trusted)
    managers = None
    if catalog.sslcert:
        managers = _Followed(jvm, _kept(catalog)).managers()
    context = ssl.SSLContext.getInstance("TLS")
    context.init(managers, trust.getTrustManagers(), None)
    # A session that is resumed has no certificate: a new one would not be asked for.
    context.getClientSessionContext().setSessionTimeout(1)
    ssl.SSLContext.setDefault(context)


def _characters(jvm: Any, text: str) -> Any:
    # A String of Java's would come back as one of Python's.
    writer = jvm.java.io.CharArrayWriter()
    writer.write(text, 0, len(text))
    return writer.toCharArray()


def _system_store(jvm: Any) -> Any:
    """A copy in memory of the CAs that the JVM trusts."""
    get = jvm.java.lang.System.getProperty
    path = get("javax.net.ssl.trustStore") or f"{get('java.home')}/lib/security/cacerts"
    password = get("javax.net.ssl.trustStorePassword") or "changeit"
    return jvm.java.security.KeyStore.getInstance(jvm.java.io.File(path), _characters(jvm, password))


def _trust(jvm: Any, store: Any, path: str) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import load_pem_x509_certificates

    try:
        found = load_pem_x509_certificates(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise login_refused("the lake's catalog", f"{path} cannot be used ({error})") from error
    factory = jvm.java.security.cert.CertificateFactory.getInstance("X.509")
    for number, one in enumerate(found):
        stream = jvm.java.io.ByteArrayInputStream(one.public_bytes(Encoding.DER))
        store.setCertificateEntry(f"catalog-{number}", factory.generateCertificate(stream))


class _Followed:
    """A store in the JVM's memory with the newest certificate, which is looked up for each handshake. Under a
    name of its own: Java keeps what it found under a name."""

    def __init__(self, jvm: Any, kept: Keystore) -> None:
        self._jvm, self._kept = jvm, kept
        self._password = _characters(jvm, kept.password)
        self._store = jvm.java.security.KeyStore.getInstance("PKCS12")
        self._store.load(None, None)
        self._names, self._name = count(), ""
        self._seen = state((kept.path,))
        self._read()
        threading.Thread(target=self._follow, name="catalog certificate", daemon=True).start()

    def managers(self) -> Any:
        security, ssl = self._jvm.java.security, self._jvm.javax.net.ssl
        protection = getattr(security, "KeyStore$PasswordProtection")(self._password)
        builder = getattr(security, "KeyStore$Builder").newInstance(self._store, protection)
        factory = ssl.KeyManagerFactory.getInstance("NewSunX509")
        factory.init(ssl.KeyStoreBuilderParameters(builder))
        return factory.getKeyManagers()

    def _read(self) -> None:
        file = self._jvm.java.io.File(self._kept.path)
        found = self._jvm.java.security.KeyStore.getInstance(file, self._password)
        alias = certificates.ALIAS.decode()
        name, before = f"{alias}-{next(self._names)}", self._name
        key, chain = found.getKey(alias, self._password), found.getCertificateChain(alias)
        self._store.setKeyEntry(name, key, self._password, chain)
        self._name = name
        if before:
            self._store.deleteEntry(before)

    def _follow(self) -> None:
        """Until the JVM has ended, whatever else fails."""
        from py4j.protocol import Py4JNetworkError

        pause, said = threading.Event(), ""
        while not pause.wait(certificates.KEYSTORE_SECONDS):
            newest = state((self._kept.path,))
            if newest is None or newest == self._seen:
                continue
            try:
                self._read()
            except Py4JNetworkError:
                log.info("catalog certificate not followed any more: its JVM has ended")
                return
            except Exception as error:
                # Java's come with a stack.
                reason = str(error).strip().partition("\n")[0]
                if said != reason:
                    log.warning("catalog certificate not read again, the one before is in use: %s", reason)
                said = reason
            else:
                self._seen, said = newest, ""
