"""A client's certificate, and the CA of a REST server, for Iceberg's Java catalog: drivers of databases take
one file with a key that they can read; the client of a REST server takes what its JVM has."""

from __future__ import annotations

import threading
from itertools import count
from typing import Any

from sluice.clients.catalogs.errors import login_refused
from sluice.clients.tls import certificates
from sluice.clients.tls.certificates import CertificateUnusable, ClientCertificate, Keystore, keystore
from sluice.clients.tls.followed import Followed
from sluice.clients.tls.java import characters, trust_store
from sluice.config.platform_sections.catalog import MYSQL, POSTGRESQL, Catalog

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
    try:
        trusted = trust_store(jvm, catalog.sslrootcert, "catalog")
    except CertificateUnusable as error:
        raise login_refused("the lake's catalog", str(error)) from error
    trust = ssl.TrustManagerFactory.getInstance(ssl.TrustManagerFactory.getDefaultAlgorithm())
    trust.init(trusted)
    managers = None
    if catalog.sslcert:
        managers = _FollowedStore(jvm, _kept(catalog)).managers()
    context = ssl.SSLContext.getInstance("TLS")
    context.init(managers, trust.getTrustManagers(), None)
    # A session that is resumed has no certificate: a new one would not be asked for.
    context.getClientSessionContext().setSessionTimeout(1)
    ssl.SSLContext.setDefault(context)


class _FollowedStore:
    """A store in the JVM's memory with the newest certificate, which is looked up for each handshake. Under a
    name of its own: Java keeps what it found under a name."""

    def __init__(self, jvm: Any, kept: Keystore) -> None:
        self._jvm, self._kept = jvm, kept
        self._password = characters(jvm, kept.password)
        self._store = jvm.java.security.KeyStore.getInstance("PKCS12")
        self._store.load(None, None)
        self._names, self._name = count(), ""
        self._ended = threading.Event()
        self._followed = Followed((kept.path,), "certificate of the catalog", self._read_again)
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
        """Until the JVM has ended."""
        while not self._ended.wait(certificates.KEYSTORE_SECONDS):
            self._followed.follow()

    def _read_again(self) -> None:
        from py4j.protocol import Py4JNetworkError

        try:
            self._read()
        except Py4JNetworkError:
            self._ended.set()
            raise
