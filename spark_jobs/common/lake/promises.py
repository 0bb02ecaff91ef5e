"""Whether the catalog keeps what a writer relies on: looked at before a table is made or written to.

By the protocol of REST catalogs a server's configuration counts for more than a client's. Most of it is the
server's matter, as the address and the keys of a table's bucket; commits rely on HELD, and what is sent to
any address is encrypted as it is declared.
"""

from __future__ import annotations

from contextlib import closing
from functools import lru_cache
from typing import Any

from pyspark.sql import SparkSession

from sluice.catalog_check import kept
from sluice.clients.catalogs.pointers import opened
from sluice.clients.catalogs.table_keys import ENDPOINT, plain_endpoint
from sluice.config.platform_sections.catalog import ADDRESS, CHECK_NAMESPACE, IN_PLAIN_TEXT, REST
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.platform_sections.s3 import PLAIN_TEXT
from sluice.config.reading.toml import ConfigError
from sluice.config.reading.urls import host_of, is_plain
from sluice.core.error_codes import ErrorCode
from spark_jobs.common.lake.expected_refs import PREFIX, catalog_of, properties_of

# Property -> why it is as the session has it.
HELD = {
    "s3.delete-enabled": "after a commit whose answer is lost Iceberg deletes files that main uses by then",
    "io-impl": "files are read and written as S3FileIO does it",
}


# Where Iceberg's files ask for keys and signatures, with the login of the catalog.
WITH_LOGIN = ("client.refresh-credentials-endpoint", "s3.signer.uri", "s3.signer.endpoint")


class CatalogOverrides(ConfigError):
    """The catalog overrides what commits rely on, or leads to an address without encryption."""

    code = ErrorCode.CATALOG_BROKEN


def check(spark: SparkSession) -> None:
    """Raise CatalogBroken, CatalogOverrides, and the errors of :func:`sluice.clients.catalogs.errors.asking`.
    Asks once in a process; the first of a catalog's processes tries it, which takes a few seconds.

    A database is asked nothing: Iceberg compares there the file that was read with the current one.
    """
    # First, since PyIceberg has the server's words for a refused login. Only a declaration of a kind that is
    # tried says where.
    if spark.conf.get(f"{PREFIX}{CHECK_NAMESPACE}", ""):
        _check(properties_of(spark))
    check_catalog(spark)


@lru_cache(maxsize=4)
def _check(properties: tuple[tuple[str, str], ...]) -> None:
    given = dict(properties)
    with closing(opened(given)) as other:
        kept.check(catalog_of(properties), other.catalog, given[CHECK_NAMESPACE], given[ADDRESS])


def check_catalog(spark: SparkSession) -> None:
    """Raises CatalogOverrides for what a REST catalog overrides for all of its tables. No request."""
    if spark.conf.get(f"{PREFIX}type", "") == REST:
        manager = spark._jsparkSession.sessionState().catalogManager()
        found = manager.catalog(CATALOG).icebergCatalog().properties()
        _compare(spark, found, "the catalog")
        _check_encrypted(spark, found, "the catalog")


def check_table(spark: SparkSession, name: str, table: Any) -> None:
    """Raises CatalogOverrides for what a REST catalog overrides for Iceberg's ``table``. No request."""
    if spark.conf.get(f"{PREFIX}type", "") == REST:
        io, where = table.io(), f"table {name}: the catalog"
        _compare(spark, io.properties(), where)
        # Keys for a part of its folder may have an address of their own.
        for found in (io.properties(), *(one.config() for one in io.credentials())):
            _check_encrypted(spark, found, where)


def _compare(spark: SparkSession, found: Any, where: str) -> None:
    for key, reason in HELD.items():
        held, said = spark.conf.get(f"{PREFIX}{key}", ""), found.get(key)
        if held and said is not None and str(said) != held:
            raise CatalogOverrides(
                f"{where} overrides {key} with {str(said)!r}, and it must be {held!r}: {reason}. Fix: remove "
                "it from the catalog's configuration, or use another catalog"
            )


def _check_encrypted(spark: SparkSession, found: Any, where: str) -> None:
    endpoint = str(found.get(ENDPOINT) or "")
    if is_plain(endpoint) and spark.conf.get(f"{PREFIX}{PLAIN_TEXT}", "") != "true":
        raise CatalogOverrides(plain_endpoint(where, endpoint))
    if is_plain(str(spark.conf.get(f"{PREFIX}uri", ""))) or spark.conf.get(f"{PREFIX}{IN_PLAIN_TEXT}", ""):
        return
    for key in WITH_LOGIN:
        if is_plain(address := str(found.get(key) or "")):
            raise CatalogOverrides(
                f"{where} says {key} {host_of(address)}, another machine, to which the catalog's login would "
                "be sent in plain text. Fix: let it say an address with https://"
            )
