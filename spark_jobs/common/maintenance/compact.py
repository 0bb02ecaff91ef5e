"""Compaction of a stream's tables: ``spark_jobs/__main__.py compact wiki_changes --before 2026-11-20``.

Iceberg's action ``rewrite_data_files`` is staged, and published only if it has the same rows, each once, in
fewer files. Only the files that it replaces and those that it wrote are read. It may run again at any time,
also concurrently: of two that rewrite the same files, one is refused.

A rewrite is of at most ``MAX_FILES`` files of a table, which also bounds the task that verifies it; the next
run takes the rest. A table that fails stops no other.

The commit is a ``replace`` without properties of the stream. Incremental readers skip it; the table's writer
acquires its lease again.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from datetime import date

from pyspark.sql import SparkSession

from sluice.config import platform as platforms
from sluice.config import streams
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.tables import compacted_tables
from sluice.core.tables.for_each import for_each_table
from spark_jobs.common.lake import known_tables
from spark_jobs.common.maintenance.row_diff import OFFSET_COLUMNS, RowsDiffer, compare
from spark_jobs.common.maintenance.staged_rewrite import StagedRewrite
from spark_jobs.common.spark import session
from spark_jobs.common.spark.process import log_to_stderr

log = logging.getLogger(__name__)

# Partitions of the row diff; Spark coalesces small ones.
SHUFFLE_PARTITIONS = 32


def main(name: str, options: Sequence[str]) -> int:
    """Compact the tables of stream ``name``; return the exit code, 0. Raises on failure."""
    arguments = argparse.ArgumentParser(description="Rewrite the small files of a stream's tables.")
    arguments.add_argument(
        "--before",
        required=True,
        type=date.fromisoformat,
        help="in a table partitioned by a DATE first, earlier dates than this: 2026-11-20",
    )
    args = arguments.parse_args(options)
    log_to_stderr()
    spec, platform = streams.load(name), platforms.load("consumer")
    spark = session.start(f"sluice {spec.name} compaction", platform, SHUFFLE_PARTITIONS)

    def compact_one(table: str) -> None:
        known_tables.check(spark, platform, spec.name, table)
        if spark.catalog.tableExists(f"{CATALOG}.{table}"):
            unique = OFFSET_COLUMNS if table == spec.table else ()
            compact(spark, table, args.before, unique)
        else:
            log.info("nothing to compact table=%s: its writer has not created it yet", table)

    for_each_table(compacted_tables(spec), compact_one, log.exception)
    return 0


def compact(
    spark: SparkSession,
    table: str,
    before: date,
    unique: Sequence[str] = OFFSET_COLUMNS,
    rewrite_class: type[StagedRewrite] = StagedRewrite,
) -> bool:
    """Rewrite the small files of ``table`` if they become fewer, and the manifests that list removed files;
    return whether ``main`` changed.

    If its first partition field is a DATE: those of dates before ``before``, else all. ``unique``: columns
    that name a row of the table once; without any, equal rows are counted. Nothing is published if it raises:
    RowsDiffer, CommitConflict.
    """
    with rewrite_class(spark, table, before) as staged:
        what = f"compaction of the dates before {before}" if staged.column else "compaction of small files"
        smaller = [group for group in staged.groups() if group.expected < group.files]
        dates = sorted({group.date for group in smaller if group.date})
        if smaller:
            log.info(
                "compaction started table=%s dates=%s partitions=%d files=%d",
                table,
                f"{dates[0]} to {dates[-1]}" if dates else "none",
                len(smaller),
                sum(group.files for group in smaller),
            )
            staged.rewrite(dates)
        if len(staged.added) >= len(staged.removed):
            # Also those of another program's compaction.
            is_changed = staged.publish_manifests({"maintenance": "manifests without removed files"})
            log.info("nothing to compact table=%s manifests_rewritten=%s", table, is_changed)
            return is_changed
        diff = compare(staged.rows(staged.removed), staged.rows(staged.added), unique)
        if not diff.is_same:
            raise RowsDiffer(f"{table}: {diff.message()}; nothing was published")
        staged.publish({"maintenance": what})
        log.info(
            "compaction published table=%s removed=%d added=%d: %s",
            table,
            len(staged.removed),
            len(staged.added),
            diff.message(),
        )
        return True
