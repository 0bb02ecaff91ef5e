"""Records whose decoding ends its process, by a crash or for want of memory: found, and not decoded."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sluice.clients.kafka.log.range_reader import Epochs
from sluice.core.error_codes import ErrorCode
from sluice.core.offsets.deduplication import loaded_from
from sluice.core.offsets.ranges import IntervalSet
from spark_jobs.common.consumer.direct.task import Duplicates, Part, Result, Task

log = logging.getLogger(__name__)

# In a batch. If there are more, it is hardly the records.
MAX_QUARANTINED = 20
REASON = "the process that decoded it ended, also when it decoded nothing else: a crash, or out of memory"
# Before a record is decoded a last time: what else takes the memory may be gone.
PAUSE_SECONDS = 10.0
# Texts of Spark's PythonRunner and TaskSetManager.
_ENDED = re.compile(r"SparkException: Python worker exited unexpectedly|ExecutorLostFailure \(executor")


class DecodingEnds(RuntimeError):
    """Many records end the process that decodes them; nothing of their batch is published."""

    code = ErrorCode.DECODING_ENDS


def process_ended(error: Exception) -> bool:
    """Whether a job failed because one of its processes ended."""
    return bool(_ENDED.search(str(error)))


class Killers:
    """Runs the tasks of a batch in which a process ended: each part alone, and one that ends its process
    again in halves, until what does so is one record. That one is quarantined undecoded, if it does so a
    second time, and being read without being decoded does not."""

    def __init__(self, run: Callable[[Task], Sequence[Result]]) -> None:
        """``run``: a task, in a process of its own."""
        self._run = run
        self._found: list[str] = []

    def results(self, tasks: Sequence[Task]) -> list[Result]:
        """All tasks' results. Raises DecodingEnds for more than MAX_QUARANTINED records, and what ``run``
        raises."""
        return [
            result
            for task in tasks
            for part in task.parts
            for result in self._of(replace(task, parts=(part,)))
        ]

    def _tried(self, task: Task) -> Sequence[Result] | None:
        """The results, None if the process ended."""
        try:
            return self._run(task)
        except Exception as error:
            if not process_ended(error):
                raise
            return None

    def _of(self, task: Task) -> Iterator[Result]:
        (part,) = task.parts
        if (results := self._tried(task)) is not None:
            yield from results
            return
        log.warning("process ended while decoding partition=%d offsets=%s", part.partition, part.offsets)
        if part.offsets.count > 1:
            first, second = halves(part)
            before = list(self._of(replace(task, parts=(first,))))
            yield from before
            yield from self._of(replace(task, parts=(second,), duplicates=_after(before, task.duplicates)))
            return
        time.sleep(PAUSE_SECONDS)
        # Not decoded, it must end no process: raises, if processes end whatever they do.
        undecoded = self._run(replace(task, reason=REASON))
        if (results := self._tried(task)) is not None:
            yield from results
            return
        self._found.append(f"partition {part.partition}, offset {part.offsets.pairs()[0][0]}")
        if len(self._found) > MAX_QUARANTINED:
            raise DecodingEnds(
                f"more than {MAX_QUARANTINED} records of one batch end the process that decodes them: "
                f"{'; '.join(self._found)}; nothing of the batch is published. Fix: see the log for the "
                "signal and memory of the process; give it more memory, or correct the stream's `decode`"
            )
        log.error("record quarantined undecoded, it ends its process: %s", self._found[-1])
        yield from undecoded


def _after(results: Sequence[Result], duplicates: Duplicates | None) -> Duplicates | None:
    """The rows to reject behind these results: those in them count as loaded, as those of a batch do for the
    next one."""
    if duplicates is None:
        return None
    runs = [run for result in results for run in result.runs]
    return replace(duplicates, loaded=duplicates.loaded.union(loaded_from(runs)))


def halves(part: Part) -> tuple[Part, Part]:
    """Both halves of a part's offsets, of which there are two at least."""
    left = part.offsets.count // 2
    pairs: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for begin, end in part.offsets:
        middle = min(begin + left, end)
        pairs[0].append((begin, middle))
        pairs[1].append((middle, end))
        left -= middle - begin
    first, second = (IntervalSet.of(pair for pair in some if pair[0] < pair[1]) for some in pairs)
    return replace(part, offsets=first), Part(part.partition, second, Epochs(-1, part.epochs.highest))
