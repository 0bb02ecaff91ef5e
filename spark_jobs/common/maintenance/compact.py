"""Compaction of a table's closed dates: ``spark_jobs/__main__.py compact wiki_changes --before 2026-11-20``.

Iceberg's action ``rewrite_data_files`` is staged, and published only if it has the same rows, each once, in
fewer files. It may run again at any time, also concurrently: of two that rewrite the same files, one is
refused.

The commit is a ``replace`` without properties of the stream. Incremental readers skip it; the stream's writer
acquires its lease again.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from datetime import date

from pyspark.sql import SparkSession

from sluice.model.error_codes import ErrorCode, coded
from sluice.model.spec import platform as platforms
from sluice.model.spec import stream as streams
from sluice.model.spec.platform import CATALOG
from sluice.model.spec.schema import date_column, declared_types
from sluice.model.spec.stream import StreamSpec
from spark_jobs.common.lake.tables import check_partitioning
from spark_jobs.common.maintenance.row_diff import RowsDiffer, compare
from spark_jobs.common.maintenance.staged_rewrite import StagedRewrite
from spark_jobs.common.spark import session
from spark_jobs.common.spark.process import log_to_stderr

log = logging.getLogger(__name__)

# Of the row diff; Spark coalesces small ones.
SHUFFLE_PARTITIONS = 32


def main(name: str, options: Sequence[str]) -> int:
    """Compact the table of stream ``name``; return the exit code, 0. Raises on failure."""
    arguments = argparse.ArgumentParser(description="Rewrite the small files of a stream's closed dates.")
    arguments.add_argument(
        "--before", required=True, type=date.fromisoformat, help="earlier dates than this: 2026-11-20"
    )
    args = arguments.parse_args(options)
    log_to_stderr()
    spec, platform = streams.load(name), platforms.load("consumer")
    # Before Spark starts.
    date_column(spec.partitions, declared_types(spec), f"stream {name!r}")
    spark = session.start(f"sluice {spec.name} compaction", platform, SHUFFLE_PARTITIONS)
    compact(spark, spec, args.before)
    spark.stop()
    return 0


def compact(
    spark: SparkSession, spec: StreamSpec, before: date, rewrite_class: type[StagedRewrite] = StagedRewrite
) -> bool:
    """Rewrite the files of dates before ``before`` if they become fewer; return whether ``main`` changed.

    Nothing is published if it raises: RowsDiffer, CommitConflict, ConfigError for a stream that is not
    partitioned by a date first, LookupError without its table.
    """
    with rewrite_class(spark, spec.table, _date_column(spark, spec)) as staged:
        smaller = [group for group in staged.groups(before) if group.expected < group.files]
        dates = sorted({group.date for group in smaller})
        if not dates or staged.base is None:
            log.info("nothing to compact table=%s before=%s", spec.table, before)
            return False
        log.info(
            "compaction started table=%s dates=%d first=%s last=%s partitions=%d files=%d",
            spec.table, len(dates), dates[0], dates[-1], len(smaller), sum(group.files for group in smaller),
        )  # fmt: skip
        result = staged.rewrite(dates)
        if result is None or result.added >= result.removed:
            log.info("nothing to compact table=%s: the files would not be fewer", spec.table)
            return False
        diff = compare(staged.rows(staged.base, dates), staged.rows(result.snapshot_id, dates))
        if not diff.is_same:
            raise RowsDiffer(f"{spec.table}: {diff.message()}; nothing was published")
        staged.publish({"maintenance": f"compaction of the dates before {before}"})
        log.info(
            "compaction published table=%s removed=%d added=%d: %s",
            spec.table,
            result.removed,
            result.added,
            diff.message(),
        )
        return True


def _date_column(spark: SparkSession, spec: StreamSpec) -> str:
    if not spark.catalog.tableExists(f"{CATALOG}.{spec.table}"):
        raise coded(
            ErrorCode.TABLE_NOT_FOUND,
            LookupError(f"table {spec.table} not found; the stream's consumer creates it"),
        )
    check_partitioning(spark, spec)
    types = {f.name: f.dataType.simpleString() for f in spark.table(f"{CATALOG}.{spec.table}").schema.fields}
    return date_column(spec.partitions, types, spec.table)
