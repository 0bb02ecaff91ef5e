"""Spark's process that forks Python workers (``spark.python.daemon.module``), with all that a task imports.

What is imported before the fork costs its time and memory once, instead of in each worker again.
"""

from __future__ import annotations

import gc

import pyarrow as pa
from boto3.s3 import transfer
from pyspark.daemon import manager

from sluice.clients.s3.requests import connect
from sluice.config.platform_sections.s3 import S3
from sluice.core.decoding.avro import decoder as avro
from sluice.core.decoding.json import decoder as json
from spark_jobs.common.consumer.direct import own_decode, shuffle, task

# A worker is one of as many as there are cores.
pa.set_cpu_count(1)
pa.set_io_thread_count(1)
IMPORTED = (avro, json, own_decode, shuffle, task, transfer)


def main() -> None:
    """Serve until Spark ends."""
    # boto3 keeps its description of S3, half of what a client takes. Nothing is sent.
    connect(S3("none", "none"))
    # A collection in a worker would copy what all of them share.
    gc.freeze()
    manager()


if __name__ == "__main__":
    main()
