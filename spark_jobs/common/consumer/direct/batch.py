"""The driver's side of a batch in Python: ranges into tasks, tasks into results."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, pairwise, repeat

from pyspark.sql import SparkSession

from sluice.clients.kafka.log.range_reader import Epochs
from sluice.core.error_codes import ErrorCode
from sluice.core.offsets.ranges import IntervalSet, OffsetRanges
from spark_jobs.common.consumer.direct import shuffle, task
from spark_jobs.common.consumer.direct.killers import Killers, process_ended
from spark_jobs.common.consumer.direct.own_decode import OwnDecode
from spark_jobs.common.consumer.direct.rejected import gathered
from spark_jobs.common.consumer.direct.task import Duplicates, Job, Part, Result, Task
from spark_jobs.common.kafka.read_ranges import RECORDS_PER_TASK, described
from spark_jobs.common.lake.data_files.parquet_file import DataFile

log = logging.getLogger(__name__)


class AccountLost(RuntimeError):
    """Tasks read ranges and nothing says what their offsets are; nothing of the batch is published."""

    code = ErrorCode.ACCOUNT_LOST


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

        Raises what the range reader raises, DecodersDiffer, DecodingEnds, AccountLost, botocore's errors, and
        of a catalog's keys Refused and Unreachable; of a Spark task as Spark's error, with its text.
        """
        results = self._results(ranges, before, duplicates, is_small=is_small, in_driver=in_driver)
        check_accounts(ranges, results)
        return results

    def _results(
        self,
        ranges: OffsetRanges,
        before: Mapping[int, int],
        duplicates: Duplicates | None,
        *,
        is_small: bool,
        in_driver: bool,
    ) -> list[Result]:
        # An earlier row of its source may be anywhere before it.
        most = RECORDS_PER_TASK if duplicates is None else sys.maxsize
        parts = self._parts(ranges, before, most)
        groups = [tuple(parts)] if is_small else [(part,) for part in parts]
        tasks, job = [Task(group, duplicates) for group in groups], self._job
        if job.keys is not None:
            job.keys.renew_due()
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
        return Killers(lambda one: self._by_spark([one], is_small=True)).results(tasks)

    def _by_spark(self, tasks: list[Task], *, is_small: bool) -> list[Result]:
        job = self._job
        # What is not decoded does not need the function.
        if self._own is not None and not any(one.reason for one in tasks):
            return self._own.run(job, tasks, is_small=is_small)

        def run(those: Iterable[Task]) -> Iterator[Result]:
            for one in those:
                yield task.run(job, one)

        return self._context.parallelize(tasks, len(tasks)).mapPartitions(run).collect()

    def quarantine_files(self, results: Iterable[Result]) -> list[DataFile]:
        """The files of what a batch rejected. Raises botocore's errors."""
        parts = (result.rejected for result in results)
        return gathered(parts, self._job.quarantine, task.client(self._job), task.file_name())

    def _parts(self, ranges: OffsetRanges, before: Mapping[int, int], most: int) -> list[Part]:
        # Behind the plan: what is before its ends has no higher epoch.
        leaders = described(task.reader(self._job).brokers, self._job.topic, ranges).leaders
        return [
            Part(partition, one, Epochs(before.get(partition, -1) if is_first else -1, leaders[partition][1]))
            for partition, offsets in sorted(ranges.partitions.items())
            for one, is_first in zip(_cut(offsets, most), chain([True], repeat(False)), strict=False)
        ]


def check_accounts(ranges: OffsetRanges, results: Iterable[Result]) -> None:
    """Raise AccountLost unless the accounts of the results are of all of ``ranges``: without one a marker is
    a gap, and the leader epoch of a later batch is compared with an older one."""
    found: dict[int, IntervalSet] = {}
    for partition, account in (one for result in results for one in result.accounts):
        found[partition] = found.get(partition, IntervalSet()).union(account.wanted)
    if missing := ranges.minus(OffsetRanges(found)):
        raise AccountLost(
            f"the tasks' accounts of {missing} are lost: the driver failed to take them, or the stream's "
            "decode caches rows (persist), so that they are not read again; nothing of the batch is "
            "published. Fix: restart the consumer; take persist out of decode"
        )


def _cut(offsets: IntervalSet, most: int) -> Iterator[IntervalSet]:
    """Parts of about equal size, of at most so many offsets."""
    for begin, end in offsets:
        count = -(-(end - begin) // most)
        bounds = [begin + (end - begin) * number // count for number in range(count + 1)]
        yield from (IntervalSet.of([pair]) for pair in pairwise(bounds))
