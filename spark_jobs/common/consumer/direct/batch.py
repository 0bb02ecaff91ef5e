"""The driver's side of a batch without the JVM: ranges into tasks, tasks into results."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise, repeat

from pyspark.sql import SparkSession

from sluice.clients.kafka.log.range_reader import Epochs
from sluice.core.offsets.ranges import IntervalSet, OffsetRanges
from spark_jobs.common.consumer.direct import task
from spark_jobs.common.consumer.direct.rejected import gathered
from spark_jobs.common.consumer.direct.task import Duplicates, Job, Part, Result, Task
from spark_jobs.common.kafka.read_ranges import described
from spark_jobs.common.lake.data_files.parquet_file import DataFile

# A partition with more is several tasks and files, so a skewed one is not the last to end.
RECORDS_PER_TASK = 500_000


@dataclass(frozen=True)
class Folders:
    """Where the files of both tables go: addresses that end with a slash."""

    table: str
    quarantine: str


class DirectBatches:
    """The batches of one stream, by tasks of Spark or in the driver. For one thread at a time."""

    def __init__(self, spark: SparkSession, job: Job, folders: Folders) -> None:
        self._spark, self._job, self._folders = spark, job, folders

    def run(
        self,
        ranges: OffsetRanges,
        before: Mapping[int, int],
        duplicates: Duplicates | None = None,
        *,
        is_small: bool,
    ) -> list[Result]:
        """Read ``ranges``, which the topic has, and write their rows; as one file in the driver if they are
        few. ``before``: partition -> the leader epoch of the record before its range, as far as known.

        Raises what the range reader raises, DecodersDiffer, and botocore's errors; of a Spark task as Spark's
        error, with its text.
        """
        parts = self._parts(ranges, before)
        name = uuid.uuid4().hex
        groups = [tuple(parts)] if is_small else [(part,) for part in parts]
        tasks = [
            Task(
                group,
                f"{self._folders.table}{number:05d}-{name}.parquet",
                f"{self._folders.quarantine}{number:05d}-{name}.parquet",
            )
            for number, group in enumerate(groups)
        ]
        if is_small:
            return [task.run(self._job, one) for one in tasks]
        job = self._job

        def run(those: Iterator[Task]) -> Iterator[Result]:
            for one in those:
                yield task.run(job, one)

        return self._spark.sparkContext.parallelize(tasks, len(tasks)).mapPartitions(run).collect()

    def quarantine_files(self, results: list[Result]) -> list[DataFile]:
        """The files of what a batch rejected. Raises botocore's errors."""
        uri = f"{self._folders.quarantine}{uuid.uuid4().hex}.parquet"
        parts = (result.rejected for result in results)
        return gathered(parts, self._job.quarantine, task.client(self._job.s3), uri)

    def _parts(self, ranges: OffsetRanges, before: Mapping[int, int]) -> list[Part]:
        # Behind the plan: what is before its ends has no higher epoch.
        leaders = described(task.reader(self._job).brokers, self._job.topic, ranges).leaders
        return [
            Part(partition, one, Epochs(before.get(partition, -1) if is_first else -1, leaders[partition][1]))
            for partition, offsets in sorted(ranges.partitions.items())
            for one, is_first in zip(_cut(offsets), chain([True], repeat(False)), strict=False)
        ]


def _cut(offsets: IntervalSet) -> Iterator[IntervalSet]:
    """Parts of about equal size, of at most RECORDS_PER_TASK offsets."""
    for begin, end in offsets:
        count = -(-(end - begin) // RECORDS_PER_TASK)
        bounds = [begin + (end - begin) * number // count for number in range(count + 1)]
        yield from (IntervalSet.of([pair]) for pair in pairwise(bounds))
