"""Spark's process that forks Python workers (``spark.python.daemon.module``), with all that a task imports.

What is imported before the fork costs its time and memory once, instead of in each worker again.
"""

from __future__ import annotations

import gc

import pyarrow as pa
from pyspark.daemon import manager

from spark_jobs.common.consumer.direct import own_decode, shuffle, task

# A worker is one of as many as there are cores.
pa.set_cpu_count(1)
pa.set_io_thread_count(1)
IMPORTED = (own_decode, shuffle, task)

if __name__ == "__main__":
    # A collection in a worker would copy what all of them share.
    gc.freeze()
    manager()
