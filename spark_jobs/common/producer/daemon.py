"""Spark's process that forks Python workers (``spark.python.daemon.module``), with all that a task
of a CSV load imports: each worker would import it again."""

from __future__ import annotations

import gc

import pyarrow as pa
from boto3.s3 import transfer
from pyspark.daemon import manager

from sluice.clients.s3.requests import connect
from sluice.config.platform_sections.s3 import S3
from spark_jobs.common.producer import objects
from spark_jobs.common.spark.pandas import leave_out_pandas

# A worker is one of as many as there are cores.
pa.set_cpu_count(1)
pa.set_io_thread_count(1)
IMPORTED = (objects, transfer)

if __name__ == "__main__":
    leave_out_pandas()
    # boto3 keeps its description of S3, half of what a client takes. Nothing is sent.
    connect(S3("none", "none"))
    # A collection in a worker would copy what all of them share.
    gc.freeze()
    manager()
