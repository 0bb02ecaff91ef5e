"""The clock of commits: those that Iceberg refuses because the machine's is behind the table, and late ones.

Iceberg's ``TableMetadata`` accepts a commit whose time is up to a minute before the table's newest change. If
the clock was set back by more, or was ahead when that change was made, nothing is committed. Once the clock
has passed that time, commits succeed again without any action.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from py4j.protocol import Py4JJavaError
from pyiceberg.exceptions import RESTError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sluice.config.platform_sections.lake import CATALOG
from sluice.core.error_codes import ErrorCode
from sluice.core.tables.file_removal import MAX_WRITE_AGE

# An IllegalArgumentException with one of these texts; the second and third hold no times:
# https://github.com/apache/iceberg/blob/apache-iceberg-1.10.2/core/src/main/java/org/apache/iceberg/TableMetadata.java
_REFUSALS = (
    "Invalid update timestamp ",
    "[BUG] Expected sorted snapshot log entries",
    "[BUG] Expected sorted previous metadata log entries",
)
_TOLERANCE_MS = 60_000


class ClockSetBack(RuntimeError):
    """Iceberg refused a commit for its time; nothing was committed. A later attempt may succeed."""

    code = ErrorCode.CLOCK_SET_BACK


def now_ms() -> int:
    """By this machine's clock, since 1970."""
    return int(time.time() * 1000)


def outdated_by(began_ms: int) -> timedelta | None:
    """The age of a write that began then (since 1970) if its files may have been deleted since, else None."""
    age = timedelta(milliseconds=now_ms() - began_ms)
    return age if age > MAX_WRITE_AGE else None


@contextmanager
def committing(spark: SparkSession, table: str) -> Iterator[None]:
    """Around commits to ``table`` (``namespace.table``).

    Raises ClockSetBack if Iceberg refused one for its time; other errors are passed on.
    """
    try:
        yield
    except (Py4JJavaError, PySparkException, RESTError) as error:
        if not any(text in str(error) for text in _REFUSALS):
            raise
        now, newest = now_ms(), _newest_change(spark, table)
        raise ClockSetBack(
            f"{table}: Iceberg refused the commit, nothing was committed: this machine's clock says "
            f"{_utc(now)}, {(newest - now) / 1000:.0f} s before the table's newest change at {_utc(newest)}; "
            f"60 s are allowed. Fix: correct this machine's clock. If it is right, it was ahead before: wait "
            f"until {_utc(newest - _TOLERANCE_MS)}, then commits succeed again by themselves"
        ) from error


def _newest_change(spark: SparkSession, table: str) -> int:
    """When the table or its ``main``, which may be up to a minute later, last changed; ms since 1970."""
    util = cast("Any", spark._jvm).org.apache.iceberg.spark.Spark3Util
    metadata = util.loadIcebergTable(spark._jsparkSession, f"{CATALOG}.{table}").operations().refresh()
    log = metadata.snapshotLog()
    of_main = [log[len(log) - 1].timestampMillis()] if len(log) else []
    return max(int(at) for at in [metadata.lastUpdatedMillis(), *of_main])


def _utc(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1000, UTC).isoformat()
