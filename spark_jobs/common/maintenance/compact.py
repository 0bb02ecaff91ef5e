"""The small files of closed dates become few large ones: ``spark-submit spark_jobs/__main__.py compact
wiki_changes --before 2026-11-20``.

Iceberg plans and rewrites (``rewrite_data_files``, as a Spark action); what that made is proved before it is
on ``main`` (``rehearsal``): the coordinates of the rewritten dates are the same as before, each there once,
with the same values, in fewer files. Anything else publishes nothing and ends with 1, and there is nothing to
put back. It may be run again at any time, also beside itself: what is compact already is left alone, and of
two that rewrite the same files, one is refused.

The commit is a ``replace`` that says nothing of the stream. Incremental readers skip it; the stream's owner
finds that ``main`` was moved, and takes over again from there.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from datetime import date

from pyspark.sql import SparkSession
from pyspark.sql.types import DateType

from sluice.model.spec import platform as platforms
from sluice.model.spec import stream as streams
from sluice.model.spec.config import ConfigError
from sluice.model.spec.platform import CATALOG
from sluice.model.spec.stream import StreamSpec
from spark_jobs.common.lake.iceberg import IcebergTable
from spark_jobs.common.maintenance.row_diff import RowsDiffer, compare
from spark_jobs.common.maintenance.staged_rewrite import StagedRewrite
from spark_jobs.common.spark import session
from spark_jobs.common.spark.process import log_to_stderr

log = logging.getLogger(__name__)

# For the proof; Spark puts small ones together.
SHUFFLED_INTO = 32


def main(name: str, options: Sequence[str]) -> int:
    """Compact the table of stream ``name``. Returns the exit code, 0; raises on failure."""
    arguments = argparse.ArgumentParser(description="Rewrite the small files of a stream's closed dates.")
    arguments.add_argument(
        "--before", required=True, type=date.fromisoformat, help="earlier dates than this: 2026-11-20"
    )
    given = arguments.parse_args(options)
    log_to_stderr()
    spec, platform = streams.load(name), platforms.load("consumer")
    _first_partition(spec)
    spark = session.start(f"sluice {spec.name} compaction", platform, SHUFFLED_INTO)
    compact(spark, spec, given.before)
    spark.stop()
    return 0


def compact(
    spark: SparkSession, spec: StreamSpec, before: date, rehearsed: type[StagedRewrite] = StagedRewrite
) -> bool:
    """Rewrite the files of the dates before that, as far as there are fewer of them then. Returns whether
    ``main`` has other files now; False: there was nothing to do.

    Raises RowsDiffer when the rewritten files do not hold the same rows, each once, and CommitConflict when
    ``main`` was changed such that they do not fit any more; either way nothing of it is visible. ConfigError
    for a stream that is not partitioned by a date first; LookupError where it has no table yet.
    ``rehearsed``: by what it is rewritten.
    """
    with rehearsed(spark, spec.table, _date_column(spark, spec)) as rehearsal:
        smaller = [group for group in rehearsal.groups(before) if group.expected < group.files]
        dates = sorted({group.date for group in smaller})
        if not dates or rehearsal.base is None:
            log.info("nothing to do: no partition of %s before %s has small files", spec.table, before)
            return False
        log.info(
            "%s: %d dates, %s to %s, have %d partitions with %d small files",
            spec.table, len(dates), dates[0], dates[-1], len(smaller), sum(group.files for group in smaller),
        )  # fmt: skip
        rewritten = rehearsal.rewrite(dates)
        if rewritten is None or rewritten.added >= rewritten.removed:
            log.info("nothing to do: the files of %s would not be fewer", spec.table)
            return False
        proof = compare(rehearsal.rows(rehearsal.base, dates), rehearsal.rows(rewritten.snapshot_id, dates))
        if not proof.is_same:
            raise RowsDiffer(
                f"{spec.table}: the files were rewritten, and {proof.message()}; nothing was published"
            )
        rehearsal.publish({"maintenance": f"compaction of the dates before {before}"})
        log.info(
            "%s: %d files became %d: %s", spec.table, rewritten.removed, rewritten.added, proof.message()
        )
        return True


def _first_partition(spec: StreamSpec) -> str:
    if not spec.partition_by:
        raise ConfigError(
            f"stream {spec.name!r} declares no partition_by, so its table has no dates that are closed"
        )
    first = spec.partitions[0]
    if first.width:
        raise ConfigError(
            f"stream {spec.name!r} partitions its table by {first} first; only those that begin with a date, "
            "as it is, have dates that are closed"
        )
    return first.column


def _date_column(spark: SparkSession, spec: StreamSpec) -> str:
    """The table's first partition column."""
    column = _first_partition(spec)
    if not spark.catalog.tableExists(f"{CATALOG}.{spec.table}"):
        raise LookupError(f"table {spec.table} does not exist yet; the stream's consumer makes it")
    partitions = IcebergTable(spark, spec.table).partitions()
    if partitions != [str(partition) for partition in spec.partitions]:
        raise ConfigError(
            f"{spec.table} is partitioned by {', '.join(partitions) or 'nothing'}, and stream.toml of "
            f"{spec.name!r} says partition_by = {spec.partition_by}"
        )
    kind = spark.table(f"{CATALOG}.{spec.table}").schema[column].dataType
    if not isinstance(kind, DateType):
        raise ConfigError(
            f"{spec.table}: its first partition column {column} is a {kind.simpleString()}; only those "
            "that begin with a date have dates that are closed"
        )
    return column
