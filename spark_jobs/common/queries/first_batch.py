"""The first batch of a query: all files of one snapshot of the stream's table.

By default Iceberg's source begins with the oldest snapshot that is kept, and misses every file that was added
before. Its start position for all files of a snapshot (``scan_all_files``) is exact under two conditions only
(1.10.2, ``SparkMicroBatchStream`` and ``MicroBatches``):

- The batch must end with this snapshot. If another is published before Spark plans the batch, the source
  reads as many files of the first as that *added*. So the batch is planned here; Spark finds the plan in the
  checkpoint and runs the batch as after a restart.
- The snapshot must be one of :meth:`IcebergTable.streamable_files`.
"""
# https://github.com/apache/iceberg/blob/apache-iceberg-1.10.2/spark/v4.0/spark/src/main/java/org/apache/iceberg/spark/source/SparkMicroBatchStream.java
# https://github.com/apache/iceberg/blob/apache-iceberg-1.10.2/core/src/main/java/org/apache/iceberg/MicroBatches.java

from __future__ import annotations

import logging
from typing import Any, cast

from pyspark.sql import SparkSession

from sluice.core.error_codes import ErrorCode
from sluice.core.tables.batches import Snapshot
from spark_jobs.common.lake.clock import now_ms
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from spark_jobs.common.spark import offset_log
from spark_jobs.common.spark.checkpoint import Checkpoint

log = logging.getLogger(__name__)


class PartialSnapshotRead(RuntimeError):
    """A batch cannot read complete snapshots, so its rows or end offsets would be unknown."""

    code = ErrorCode.PARTIAL_SNAPSHOT_READ


def plan(spark: SparkSession, checkpoint: Checkpoint, table: str) -> Snapshot:
    """Plan batch 0 of a new checkpoint: all files of the newest snapshot of ``table`` that a batch can read
    as a whole; later ones are read by the next batch. Returns that snapshot.

    The watermark is 0, so no row of the batch is late. Raises PartialSnapshotRead if there is no such
    snapshot, OSError if the checkpoint cannot be written.
    """
    source = IcebergTable(spark, table)
    for snapshot in source.snapshots(MAIN):
        files = source.streamable_files(snapshot)
        if files is not None:
            start = offset_log.iceberg_offset(snapshot.id, 0)
            lines = offset_log.plan_of_all_files(_metadata(spark), snapshot.id, files)
            checkpoint.write_first_plan(start, lines)
            log.info("first batch planned table=%s snapshot=%d files=%d", table, snapshot.id, files)
            return snapshot
    raise PartialSnapshotRead(
        f"{table}: no snapshot that is kept can be read as a whole: each rewrote files, lists removed files "
        "or has row-level deletes, or there is none. Fix: trigger the stream's maintenance, or where the "
        "catalog maintains tables call rewrite_manifests (docs/operating.md, Rebuild a query), then let the "
        "stream's consumer publish a batch or restart it"
    )


def _metadata(spark: SparkSession) -> str:
    # With the session's settings that a checkpoint keeps: those that are missing would be Spark's oldest.
    metadata = cast("Any", spark._jvm).org.apache.spark.sql.execution.streaming.OffsetSeqMetadata
    return str(metadata.apply(0, now_ms(), cast("Any", spark._jsparkSession).conf()).json())
