"""A driver with one query, whose progress is recorded.

``python -m tests.support.watched_driver <topic>`` counts the topic's records, each a moment in seconds since
1970 as text, in windows with a watermark and its state on RocksDB. For each batch that ended, as far as its
own function knows, it prints its number and the time. It ends when it is told to, as a stream's process does.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice.clients.kafka.login.properties import java
from sluice.config import platform as platforms
from spark_jobs.common.spark import progress_listener, session
from spark_jobs.common.spark.process import run_process

NAME = "windows"
STREAM = "watched"


def main(topic: str) -> int:
    platform = platforms.load("consumer")

    def work(stop: threading.Event) -> None:
        settings = {
            "spark.master": "local[1]",
            "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
            "RocksDBStateStoreProvider",
        }
        spark = session.start("watched", platform, 1, settings)
        options = {f"kafka.{key}": value for key, value in java(platform.kafka).items()}
        counts = (
            spark.readStream.format("kafka")
            .options(**options, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="20")
            .load()
            .select(F.timestamp_seconds(F.col("value").cast("string").cast("long")).alias("at"))
            .withWatermark("at", "10 minutes")
            .groupBy(F.window("at", "10 minutes"))
            .count()
        )
        with progress_listener.attach(spark, platform, STREAM), tempfile.TemporaryDirectory() as checkpoint:
            query = (
                counts.writeStream.queryName(NAME)
                .outputMode("update")
                .option("checkpointLocation", checkpoint)
                .trigger(processingTime="200 milliseconds")
                .foreachBatch(_said)
                .start()
            )
            while query.isActive and not stop.wait(0.2):
                pass
            query.stop()

    return run_process("the watched driver", work)


def _said(rows: DataFrame, batch: int) -> None:
    rows.collect()
    print(batch, time.time(), flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
