"""A large batch of a partitioned table: rows go to the task that writes their partition.

A task per range alone would write a file per range and partition, ten times as many.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark import SparkContext

from spark_jobs.common.consumer.direct import task as tasks
from spark_jobs.common.consumer.direct.rejected import RejectedPart
from spark_jobs.common.consumer.direct.task import Job, Reading, Result, Task
from spark_jobs.common.lake.data_files.partitioned import Files, Values, by_partition

# Rows of a task that wait until they are sent on, so that a partition's are not sent by a few.
WAITING_BYTES = 32 << 20
# Between the tasks: a partition with rows as an Arrow stream, or what a task saw.
Sent = tuple[Values, bytes] | Result


def run(context: SparkContext, job: Job, those: list[Task], writers: int) -> list[Result]:
    """Read by a Spark task for each of ``those``, and write by ``writers`` more. Raises Spark's errors."""

    def read(some: Iterable[Task]) -> Iterator[tuple[int, Sent]]:
        for one in some:
            yield from sent(job, one, writers)

    def write(some: Iterable[tuple[int, Sent]]) -> Iterator[Result]:
        yield from written(job, (one for _, one in some))

    read_rows = context.parallelize(those, len(those)).mapPartitions(read)
    return read_rows.partitionBy(writers, int).mapPartitions(write).collect()


def sent(job: Job, task: Task, writers: int) -> Iterator[tuple[int, Sent]]:
    """What a task reads, each with the number of the task that writes it."""
    reading = Reading(job, task)
    waiting: dict[Values, list[pa.RecordBatch]] = {}
    size = 0
    for rows in reading:
        size += rows.nbytes
        for values, part in by_partition(rows, job.table.partitions):
            waiting.setdefault(values, []).append(part)
        if size >= WAITING_BYTES:
            yield from _streams(waiting, writers)
            waiting, size = {}, 0
    yield from _streams(waiting, writers)
    yield 0, reading.result


def _streams(waiting: dict[Values, list[pa.RecordBatch]], writers: int) -> Iterator[tuple[int, Sent]]:
    for values, parts in waiting.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, parts[0].schema) as stream:
            stream.write_table(pa.Table.from_batches(parts).combine_chunks())
        # The same partition of every task to the same writer.
        yield zlib.crc32(repr(values).encode()) % writers, (values, sink.getvalue().to_pybytes())


def written(job: Job, those: Iterable[Sent]) -> Iterator[Result]:
    """What the tasks saw, and the files of one writer."""
    with Files(job.table, tasks.file_name()) as files:
        for one in those:
            if isinstance(one, Result):
                yield one
            else:
                values, rows = one
                for part in pa.ipc.open_stream(rows):
                    files.add_to(values, part)
        found = tuple(files.upload(tasks.client(job)))
        if found:
            yield Result(found, RejectedPart(), (), ())
