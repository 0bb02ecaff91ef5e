"""Commits that are made only if every ref is where it was expected, one that they do not change too.

A database compares the metadata file that was read with its own, and so all that is in it. Of a table in AWS
Glue, Iceberg's Java client does that, and Glue refuses what it then sends if another commit came between. A
REST catalog compares what the request requires, and Iceberg's Java client requires of the refs only those
that it sets: it publishes also after the writer's branch was removed, and removes a branch that has moved.
Nor does it require the schema of what it commits, which another commit may have changed without a ref.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from functools import lru_cache
from time import sleep
from typing import Any, cast

from py4j.protocol import Py4JJavaError
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    TooManyRequestsError,
)
from pyspark.sql import SparkSession
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    stop_after_delay,
    stop_all,
    wait_exponential,
)

from sluice.clients.catalogs import commits
from sluice.clients.catalogs.errors import asking
from sluice.clients.catalogs.pointers import opened
from sluice.config.platform_sections.catalog import REST
from sluice.config.platform_sections.lake import CATALOG
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing

log = logging.getLogger(__name__)

# Iceberg's exception if another commit came first.
RACE = "org.apache.iceberg.exceptions.CommitFailedException"
PREFIX = f"spark.sql.catalog.{CATALOG}."
# How long a commit is asked for again whose outcome is unknown, and how long to wait before that.
AGAIN_SECONDS = 60.0
_WAIT = wait_exponential(0.2, max=5)
# A server's own wish for that, at most.
MAX_RETRY_AFTER = 30.0


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
) -> bool:
    """Commit Java's ``metadata``, built from ``base``, to ``table`` (``namespace.table``) if the refs of
    ``expected`` are there (snapshot, or None: missing), and its columns are those of ``base``. Return whether
    ``operations`` do not know of it.

    Raises CommitRefused, also for what was made though its answer was lost; and other errors: then it is
    unknown whether it is committed."""
    if spark.conf.get(f"{PREFIX}type", "") != REST:
        try:
            operations.commit(base, metadata)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() == RACE:
                raise CommitRefused(str(error.java_exception.getMessage())) from error
            raise
        return False
    iceberg = cast("Any", spark._jvm).org.apache.iceberg
    required = iceberg.UpdateRequirements.forUpdateTable(base, metadata.changes())
    requirements = [json.loads(iceberg.UpdateRequirementParser.toJson(one)) for one in required]
    requirements += commits.expected_refs(expected)
    updates = [json.loads(iceberg.MetadataUpdateParser.toJson(one)) for one in metadata.changes()]
    # What was written has these columns: a commit of columns moves no ref.
    requirements += commits.expected_schema(int(base.currentSchemaId()), int(base.lastColumnId()))
    try:
        _made(_catalog_of(spark), table, requirements, updates)
    except CommitFailedException as error:
        raise CommitRefused(f"{table}: {error}") from error
    except BadRequestError as error:
        # A server checks itself what a database's client checks: a sequence number after another commit.
        if operations.refresh().metadataFileLocation() == base.metadataFileLocation():
            raise
        raise CommitRefused(f"{table}: {error}") from error
    # Java's client takes its metadata from its own requests only.
    return True


def _made(catalog: Catalog, table: str, requirements: list[Any], updates: list[Any]) -> None:
    """Make the commit, and ask for it again while its outcome is unknown: it moves what it requires, so the
    catalog makes it once and refuses it then. An earlier one that is still under way is refused as well."""
    again = Retrying(
        retry=retry_if_exception_type((CommitStateUnknownException, TooManyRequestsError)),
        # Twice at least: an answer may have taken all that time.
        stop=stop_all(stop_after_attempt(2), stop_after_delay(AGAIN_SECONDS)),
        wait=_wait,
        sleep=sleep,
        before_sleep=lambda state: log.warning("commit asked for again table=%s: %s", table, _error(state)),
        reraise=True,
    )
    try:
        again(commits.commit, catalog, table, requirements, updates)
    except (BadRequestError, CommitFailedException):
        raise
    except Exception:
        with asking(f"table {table}"):
            raise


def _error(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None


def _wait(state: RetryCallState) -> float:
    """In seconds; as the server's Retry-After says, if that is a number of them."""
    # PyIceberg raises its errors from those of requests, and BoundedCatalog some from those.
    error, response = _error(state), None
    while error is not None and response is None:
        error = error.__cause__
        response = getattr(error, "response", None)
    said = response.headers.get("Retry-After", "") if response is not None else ""
    return min(float(said), MAX_RETRY_AFTER) if said.isdecimal() else _WAIT(state)


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
def _catalog_of(spark: SparkSession) -> Catalog:
    """As :func:`catalog_of`. A session keeps the catalog that it has opened, so its hundreds of settings are
    read once."""
    return catalog_of(properties_of(spark))


@lru_cache(maxsize=4)
def catalog_of(properties: tuple[tuple[str, str], ...]) -> Catalog:
    """PyIceberg's connection to a REST catalog or AWS Glue, one in a process."""
    # Both of Iceberg's clients know the properties by the same names, or are told both.
    return opened(dict(properties)).catalog
