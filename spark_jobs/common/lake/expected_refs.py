"""Commits that are made only if every ref is where it was expected, one that they do not change too.

A database compares the metadata file that was read with its own, and so all that is in it. Of a table in AWS
Glue, Iceberg's Java client does that, and Glue refuses what it then sends if another commit came between. A
REST catalog compares what the request requires, and Iceberg's Java client requires of the refs only those
that it sets: it publishes also after the writer's branch was removed, and removes a branch that has moved.
Nor does it require the schema of what it commits, which another commit may have changed without a ref.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from py4j.protocol import Py4JJavaError
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import BadRequestError, CommitFailedException
from pyspark.sql import SparkSession

from sluice.clients.catalogs import commits
from sluice.clients.catalogs.errors import asking
from sluice.clients.catalogs.pointers import opened
from sluice.config.platform_sections.catalog import REST
from sluice.config.platform_sections.lake import CATALOG
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing

# Iceberg's exception if another commit came first.
RACE = "org.apache.iceberg.exceptions.CommitFailedException"
PREFIX = f"spark.sql.catalog.{CATALOG}."


class CommitRefused(RuntimeError):
    """The catalog refused a commit: another came first, or a ref is not where it was expected."""

    code = ErrorCode.CONCURRENT_COMMIT


def commit(
    spark: SparkSession,
    table: str,
    operations: Any,
    base: Any,
    metadata: Any,
    expected: Mapping[str, int | None],
) -> None:
    """Commit Java's ``metadata``, built from ``base``, to ``table`` (``namespace.table``) if the refs of
    ``expected`` are there (snapshot, or None: missing), and its columns are those of ``base``. Raises
    CommitRefused, and the client's other errors: then it is unknown whether it is committed."""
    if spark.conf.get(f"{PREFIX}type", "") != REST:
        try:
            operations.commit(base, metadata)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() == RACE:
                raise CommitRefused(str(error.java_exception.getMessage())) from error
            raise
        return
    iceberg = cast("Any", spark._jvm).org.apache.iceberg
    required = iceberg.UpdateRequirements.forUpdateTable(base, metadata.changes())
    requirements = [json.loads(iceberg.UpdateRequirementParser.toJson(one)) for one in required]
    updates = [json.loads(iceberg.MetadataUpdateParser.toJson(one)) for one in metadata.changes()]
    # What was written has these columns: a commit of columns moves no ref.
    requirements += commits.expected_schema(int(base.currentSchemaId()), int(base.lastColumnId()))
    catalog = catalog_of(properties_of(spark))
    try:
        commits.commit(catalog, table, [*requirements, *commits.expected_refs(expected)], updates)
    except CommitFailedException as error:
        raise CommitRefused(f"{table}: {error}") from error
    except BadRequestError as error:
        # A commit to another branch came first: servers before apache/iceberg#15126 answer 400.
        if "older than last sequence number" not in str(error):
            raise
        raise CommitRefused(f"{table}: {error}") from error
    # Java's client does not know of it.
    operations.refresh()


def is_missing(spark: SparkSession, table: str) -> bool:
    """Whether a table (``namespace.table``) that Iceberg's Java client does not find is missing: it takes
    each 404 of a REST catalog for that, also of a proxy before one that is away. Raises as
    :func:`sluice.clients.catalogs.errors.asking`, Unreachable for an answer that is not the catalog's."""
    if spark.conf.get(f"{PREFIX}type", "") != REST:
        return True
    try:
        with asking(f"table {table}"):
            catalog_of(properties_of(spark)).load_table(table)
    except Missing:
        return True
    return False


def properties_of(spark: SparkSession) -> tuple[tuple[str, str], ...]:
    """The session's properties of the catalog, for PyIceberg."""
    found = cast("Mapping[str, str]", spark.conf.getAll)
    return tuple(
        sorted((k.removeprefix(PREFIX), value) for k, value in found.items() if k.startswith(PREFIX))
    )


@lru_cache(maxsize=4)
def catalog_of(properties: tuple[tuple[str, str], ...]) -> Catalog:
    """PyIceberg's connection to a REST catalog or AWS Glue, one in a process."""
    # Both of Iceberg's clients know the properties by the same names, or are told both.
    return opened(dict(properties)).catalog
