"""Rows of a DataFrame, committed to a branch of a table."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice.config.platform_sections.lake import CATALOG
from spark_jobs.common.lake.iceberg import IcebergTable


def on_branch(table: str, branch: str) -> str:
    """Spark's name for a branch of ``table`` (``namespace.table``)."""
    return f"{CATALOG}.{table}.branch_{branch}"


class Write(Enum):
    """What rows replace that are written: nothing, the partitions that they are in, or all rows."""

    APPEND = auto()
    PARTITIONS = auto()
    ALL = auto()


def write_rows(
    table: IcebergTable,
    branch: str,
    rows: DataFrame,
    properties: Mapping[str, str],
    how: Write = Write.APPEND,
) -> None:
    """Commit ``rows`` to a branch that exists, in a snapshot with ``properties``. Raises ClockSetBack, and
    Spark's and Java's errors."""
    writer = rows.writeTo(on_branch(table.name, branch))
    for key, value in properties.items():
        writer = writer.option(f"snapshot-property.{key}", value)
    with table.committing():
        match how:
            case Write.APPEND:
                writer.append()
            case Write.PARTITIONS:
                writer.overwritePartitions()
            case Write.ALL:
                writer.overwrite(F.lit(True))
