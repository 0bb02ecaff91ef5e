"""A stream that keeps state, for tests: how often each key came, published in PostgreSQL behind the fence.

Its source gives ten rows a batch, the keys 0 to 4 twice each: after batch n every key was there 2 (n + 1)
times.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import sqlalchemy as sa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_jobs.common.sinks.fence import Fence
from spark_jobs.common.spark.checkpoint import Checkpoint, Checkpoints
from spark_jobs.common.spark.failures import Fenced

TABLE = "create table if not exists counts (key bigint primary key, n bigint not null)"
KEYS = range(5)
BATCH_SECONDS = 60


def exact(batches: int) -> dict[int, int]:
    """The counts after so many batches."""
    return dict.fromkeys(KEYS, 2 * batches)


class Counting:
    """One writer and its query, which runs as many batches as it is told to.

    ``protected``: it looks whether Spark has written what it says, as ``StreamWriter`` does.
    """

    def __init__(self, spark: SparkSession, root: str, connection: Any, epoch: int, protected: bool = True):
        self.epoch, self.protected = epoch, protected
        with connection, connection.cursor() as cursor:
            cursor.execute(TABLE)
        engine = sa.create_engine(
            "postgresql+psycopg2://", creator=lambda: connection, poolclass=sa.StaticPool
        )
        self.fence = Fence(engine, "counting")
        published = self.fence.open(epoch)
        folders = Checkpoints(spark, root, "counting")
        self.checkpoint: Checkpoint = (
            folders.create(f"w{epoch}")
            if published is None
            else folders.restore(
                f"w{epoch}", [f"w{n}" for n in range(epoch - 1, 0, -1)], published, published, stateful=True
            )
        )
        self.ran: list[int] = []
        self.refused: list[int] = []
        self._stopping = False
        self._planned = threading.Semaphore(0)
        self._may_run = threading.Semaphore(0)
        self._has_run = threading.Semaphore(0)
        rows = (
            spark.readStream.format("rate-micro-batch")
            .options(rowsPerBatch="10", numPartitions="2", startTimestamp="0")
            .load()
        )
        self.query = (
            rows.groupBy((F.col("value") % 5).alias("key"))
            .count()
            .writeStream.outputMode("update")
            .option("checkpointLocation", self.checkpoint.uri)
            .trigger(processingTime="0 seconds")
            .foreachBatch(self._batch)
            .start()
        )

    def _batch(self, counts: DataFrame, batch: int) -> None:
        self._planned.release()
        self._may_run.acquire()
        if self._stopping:
            return
        try:
            self._write(counts, batch)
        finally:
            self.ran.append(batch)
            self._has_run.release()

    def _write(self, counts: DataFrame, batch: int) -> None:
        if self.protected:
            self.checkpoint.plan(batch)
        rows = [{"key": row["key"], "n": row["count"]} for row in counts.collect()]
        if self.protected:
            self.checkpoint.verify(batch)
        try:
            with self.fence.transaction(batch) as writer:
                if writer is not None:
                    upsert = (
                        "insert into counts values (:key, :n) on conflict (key) do update set n = excluded.n"
                    )
                    writer.execute(sa.text(upsert), rows)
        except Fenced:
            # A zombie of the worst kind: it goes on all the same.
            self.refused.append(batch)

    def run(self, batches: int) -> None:
        """Let it run so many batches more, and plan the next one. Raises what its query raised."""
        for _ in range(batches):
            self._await(self._planned)
            self._may_run.release()
            self._await(self._has_run)
        # When it comes to the next batch, it has marked this one as completed.
        self._await(self._planned)
        self._planned.release()

    def _await(self, event: threading.Semaphore) -> None:
        deadline = time.monotonic() + BATCH_SECONDS
        while not event.acquire(timeout=0.1):
            error = self.query.exception()
            if error is not None:
                raise error
            assert time.monotonic() < deadline, "nothing happens"

    def stop(self) -> None:
        """End it; what it has planned it does not run."""
        self._stopping = True
        self._may_run.release()
        self.query.stop()


def published(connection: Any) -> dict[int, int]:
    with connection, connection.cursor() as cursor:
        cursor.execute("select key, n from counts")
        return dict(cursor.fetchall())
