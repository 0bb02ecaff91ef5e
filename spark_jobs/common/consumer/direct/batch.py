"""The driver's side of a batch in Python: ranges into tasks, tasks into results."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise, repeat

from pyspark.sql import SparkSession

from sluice.clients.kafka.log.range_reader import Epochs
from sluice.core.offsets.ranges import IntervalSet, OffsetRanges
from spark_jobs.common.consumer.direct import shuffle, task
from spark_jobs.common.consumer.direct.killers import Killers, process_ended
from spark_jobs.common.consumer.direct.own_decode import OwnDecode
from spark_jobs.common.consumer.direct.rejected import gathered
from spark_jobs.common.consumer.direct.task import Duplicates, Job, Part, Result, Task
from spark_jobs.common.kafka.read_ranges import RECORDS_PER_TASK, described
from spark_jobs.common.lake.data_files.parquet_file import DataFile

log = logging.getLogger(__name__)


class DirectBatches:
    """The batches of one stream, by tasks of Spark or in the driver. For one thread at a time."""

    def __init__(self, spark: SparkSession, job: Job, own: OwnDecode | None = None) -> None:
        """``own``: the stream's own function, where the job has no decoder."""
        self._context, self._job, self._own = spark.sparkContext, job, own

    def run(
        self,
        ranges: OffsetRanges,
        before: Mapping[int, int],
        duplicates: Duplicates | None = None,
        *,
        is_small: bool,
        in_driver: bool = True,
    ) -> list[Result]:
        """Read ``ranges``, which the topic has, and write their rows; if they are few, as one file of each of
        the table's partitions, ``in_driver`` or by one task. ``before``: partition -> the leader epoch of the
        record before its range, as far as known.

        Raises what the range reader raises, DecodersDiffer, DecodingEnds, and botocore's errors; of a Spark
        task as Spark's error, with its text.
        """
        # An earlier row of its source may be anywhere before it.
        most = RECORDS_PER_TASK if duplicates is None else sys.maxsize
        parts = self._parts(ranges, before, most)
        groups = [tuple(parts)] if is_small else [(part,) for part in parts]
        tasks, job = [Task(group, duplicates) for group in groups], self._job
        if is_small and in_driver and self._own is None:
            return [task.run(job, one) for one in tasks]
        try:
            if job.table.partitions and self._own is None and not is_small:
                return shuffle.run(self._context, job, tasks, self._context.defaultParallelism)
            return self._by_spark(tasks, is_small=is_small)
        except Exception as error:
            if not process_ended(error):
                raise
            log.warning("process ended while decoding ranges=%s; running each part alone", ranges)
        alone = Killers(lambda one: self._by_spark([one], is_small=True), lambda one: [task.run(job, one)])
        return alone.results(tasks)

    def _by_spark(self, tasks: list[Task], *, is_small: bool) -> list[Result]:
        job = self._job
        if self._own is not None:
            return self._own.run(job, tasks, is_small=is_small)

        def run(those: Iterable[Task]) -> Iterator[Result]:
            for one in those:
                yield task.run(job, one)

        return self._context.parallelize(tasks, len(tasks)).mapPartitions(run).collect()

    def quarantine_files(self, results: Iterable[Result]) -> list[DataFile]:
        """The files of what a batch rejected. Raises botocore's errors."""
        parts = (result.rejected for result in results)
        return gathered(parts, self._job.quarantine, task.client(self._job.s3), task.file_name())

    def _parts(self, ranges: OffsetRanges, before: Mapping[int, int], most: int) -> list[Part]:
        # Behind the plan: what is before its ends has no higher epoch.
        leaders = described(task.reader(self._job).brokers, self._job.topic, ranges).leaders
        return [
            Part(partition, one, Epochs(before.get(partition, -1) if is_first else -1, leaders[partition][1]))
            for partition, offsets in sorted(ranges.partitions.items())
            for one, is_first in zip(_cut(offsets, most), chain([True], repeat(False)), strict=False)
        ]


def _cut(offsets: IntervalSet, most: int) -> Iterator[IntervalSet]:
    """Parts of about equal size, of at most so many offsets."""
    for begin, end in offsets:
        count = -(-(end - begin) // most)
        bounds = [begin + (end - begin) * number // count for number in range(count + 1)]
        yield from (IntervalSet.of([pair]) for pair in pairwise(bounds))
