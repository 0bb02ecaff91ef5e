"""A client's certificate for Iceberg's Java catalog, whose drivers take one file with a key that they can
read."""

from __future__ import annotations

from sluice.clients.catalogs.errors import login_refused
from sluice.clients.tls.certificates import CertificateUnusable, ClientCertificate, keystore
from sluice.config.platform_sections.catalog import MYSQL, POSTGRESQL, Catalog

# Database -> the driver's names for path and password. PostgreSQL's knows the file by its ending.
_NAMES = {POSTGRESQL: ("sslkey", "sslpassword"), MYSQL: ("keyStore", "keyStorePassword")}


def java(catalog: Catalog) -> dict[str, str]:
    """Further properties of the catalog, whose connections each read the file. Raises Refused for files that
    cannot be used."""
    if not catalog.database or not catalog.sslcert:
        return {}
    try:
        kept = keystore(ClientCertificate(*catalog.certificate))
    except CertificateUnusable as error:
        raise login_refused("the lake's catalog", str(error)) from error
    path, password = _NAMES[catalog.database]
    found = {path: kept.path, password: kept.password}
    if catalog.database == MYSQL:
        found["keyStoreType"] = "PKCS12"
    return {f"jdbc.{name}": value for name, value in found.items()}
