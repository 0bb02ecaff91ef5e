"""Whether the catalog keeps what a writer relies on: looked at before a table is made or written to."""

from __future__ import annotations

from functools import lru_cache

from pyspark.sql import SparkSession

from sluice.catalog_check import kept
from sluice.clients.catalogs.errors import asking
from sluice.clients.catalogs.rest import BoundedCatalog
from sluice.config.platform_sections.catalog import CHECK_NAMESPACE, REST
from spark_jobs.common.lake.expected_refs import PREFIX, catalog_of, properties_of


def check(spark: SparkSession) -> None:
    """Raise CatalogBroken, and the errors of :func:`sluice.clients.catalogs.errors.asking`. Asks once in a
    process; the first of a catalog's processes tries it, which takes a few seconds.

    A database is asked nothing: Iceberg compares there the file that was read with the current one.
    """
    if spark.conf.get(f"{PREFIX}type", "") == REST:
        _check(properties_of(spark))


@lru_cache(maxsize=4)
def _check(properties: tuple[tuple[str, str], ...]) -> None:
    given = dict(properties)
    with asking("the lake's catalog"):
        one, other = catalog_of(properties), BoundedCatalog(given)
    kept.check(one, other, given[CHECK_NAMESPACE], given["uri"])
