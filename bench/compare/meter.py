"""CPU seconds and memory of processes over time, and S3 calls of a stack between two moments."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import psutil

from local.services import minio
from local.stack.stack import Stack
from tests.support.processes import process_tree

SAMPLE_SECONDS = 0.2
# Listing a process's descendants reads all of /proc, and memory all of their maps.
LIST_SECONDS = 1.0


def at(samples: Sequence[tuple[float, float]], moment: float) -> float:
    """A value that grows over time, at a moment: on the line between its samples, (time, value) in order;
    before the first and after the last one theirs."""
    after = bisect_right(samples, (moment, float("inf")))
    if after in (0, len(samples)):
        return samples[min(after, len(samples) - 1)][1]
    (began, low), (ended, high) = samples[after - 1], samples[after]
    return low + (high - low) * (moment - began) / (ended - began)


class Background:
    """Calls :meth:`step` every ``seconds`` in a thread, from ``with`` to its end.

    The first error of a step ends the calls, and is raised by :meth:`check` and at the end of ``with``.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.failure: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def step(self) -> None:
        """One measurement; a subclass says."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise the error of a step."""
        if self.failure is not None:
            raise self.failure

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        # An error of the block itself says more.
        if error is None:
            self.check()

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._seconds):
                self.step()
        except Exception as error:
            self.failure = error


class Meter(Background):
    """Samples process trees by name, from ``with`` to its end. ``roots``: name -> process id.

    A tree's seconds are those of its processes and of the children that they have waited for. They never
    fall: what an ended process had spent by its last sample stays counted. Its ``megabytes`` are the most
    that it took, what processes share once (PSS): Python's workers are forks of one that has the libraries.
    """

    def __init__(self, roots: Mapping[str, int]) -> None:
        super().__init__(SAMPLE_SECONDS)
        self._roots = dict(roots)
        self._trees: dict[str, list[psutil.Process]] = {}
        self.samples: dict[str, list[tuple[float, float]]] = {name: [] for name in roots}
        self.megabytes: dict[str, float] = dict.fromkeys(roots, 0.0)
        self._listed = 0.0

    def __enter__(self) -> Self:
        self.step()
        return super().__enter__()

    def spent(self, name: str, begin: float = 0.0, end: float = float("inf")) -> float:
        """CPU seconds of a tree between two moments (seconds since 1970), by default of all samples."""
        found = self.samples[name]
        return at(found, end) - at(found, begin) if found else 0.0

    def step(self) -> None:
        if is_listed := time.monotonic() - self._listed >= LIST_SECONDS:
            self._trees = {name: process_tree(pid) for name, pid in self._roots.items()}
            self._listed = time.monotonic()
        now = time.time()
        for name, processes in self._trees.items():
            seconds = megabytes = 0.0
            for process in processes:
                try:
                    spent = process.cpu_times()
                    megabytes += process.memory_full_info().pss / 2**20 if is_listed else 0.0
                except psutil.NoSuchProcess:
                    continue  # what it spent is in an earlier sample
                seconds += spent.user + spent.system + spent.children_user + spent.children_system
            samples = self.samples[name]
            samples.append((now, max(seconds, samples[-1][1] if samples else 0.0)))
            self.megabytes[name] = max(self.megabytes[name], megabytes)


class S3Calls:
    """MinIO's own counts since this was made."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._before = self._read()

    def figures(self) -> dict[str, float]:
        """``s3_calls`` of all kinds, each kind, and the bytes of requests and answers."""
        after = self._read()
        spent = {name: float(value - self._before.get(name, 0)) for name, value in after.items()}
        received, sent = spent.pop("received", 0.0), spent.pop("sent", 0.0)
        return {
            "s3_calls": sum(spent.values()),
            **{f"s3_calls.{name}": value for name, value in sorted(spent.items()) if value},
            "s3_megabytes_written": round(received / 1e6, 3),
            "s3_megabytes_read": round(sent / 1e6, 3),
        }

    def _read(self) -> dict[str, int]:
        text = minio.metrics(self._stack.context)
        return minio.parse_requests(text) | parse_traffic(text)


def parse_traffic(text: str) -> dict[str, int]:
    """Bytes that MinIO `received` and `sent` for S3, summed over servers, from Prometheus' text."""
    return {
        way: int(sum(value for _, value in minio.s3_samples(f"minio_api_requests_traffic_{way}_bytes", text)))
        for way in ("received", "sent")
    }
