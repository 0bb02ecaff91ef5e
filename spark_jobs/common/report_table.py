"""The table of a report: one partition per window, each rewritten whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.model.platform import CATALOG
from spark_jobs.common.report_counts import WINDOW

PROPERTIES = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    # One task writes a window, so a window is one file.
    "write.distribution-mode": "hash",
    # A reader chooses by window, and the window is the partition: bounds would only make manifests larger.
    "write.metadata.metrics.default": "none",
    "write.metadata.delete-after-commit.enabled": "false",
    "write.metadata.previous-versions-max": "20",
}


class WrongColumns(RuntimeError):
    """The table there has other columns than the report writes."""


def ensure(spark: SparkSession, table: str, keys: Mapping[str, str]) -> None:
    """Make the table where it is missing; ``keys``: column -> type, in Spark's DDL.

    Raises WrongColumns where the one that is there has others, naming both.
    """
    declared = {
        **dict.fromkeys(WINDOW, "timestamp"),
        **{name: kind.lower() for name, kind in keys.items()},
        "edits": "bigint",
        "late": "bigint",
    }
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in PROPERTIES.items())
    columns = ", ".join(f"`{name}` {kind.upper()}" for name, kind in declared.items())
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{table.rsplit('.', 1)[0]}")
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {CATALOG}.{table} ({columns}) USING iceberg "
        f"PARTITIONED BY (window_start) TBLPROPERTIES ({properties})"
    )
    there = {field.name: field.dataType.simpleString() for field in spark.table(f"{CATALOG}.{table}").schema}
    if there != declared:
        raise WrongColumns(
            f"{table}: has the columns {there}, and the report {declared}; give it a new table"
        )


def windows(spark: SparkSession, table: str, branch: str, starts: Collection[int]) -> DataFrame:
    """What a branch of the table holds of the windows that begin at ``starts`` (ms since 1970)."""
    chosen = [F.timestamp_millis(F.lit(start)) for start in sorted(starts)]
    return spark.table(f"{CATALOG}.{table}.branch_{branch}").where(F.col("window_start").isin(chosen))


def write(
    rows: DataFrame, table: str, branch: str, summary: Mapping[str, str], *, everything: bool = False
) -> None:
    """Put ``rows`` in the place of the windows that they are of, or of ``everything``, on a branch."""
    writer = rows.writeTo(f"{CATALOG}.{table}.branch_{branch}")
    for key, value in summary.items():
        writer = writer.option(f"snapshot-property.{key}", value)
    if everything:
        writer.overwrite(F.lit(True))
    else:
        writer.overwritePartitions()
