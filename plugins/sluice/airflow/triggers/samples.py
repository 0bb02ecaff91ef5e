"""The samples of earlier checks, in the memory of the triggerer's process: for one that finds no observer.

Not in XCom: there, with ``include_prior_dates``, a run without a logical date (the command line's default)
is the newest for ever. Another triggerer, or one that is restarted, begins without them: detection then only
takes longer.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from threading import Lock

from sluice.config import streams
from sluice.supervision.rules.sample import Sample, downsample

# Kept of one component, at most: further apart than the rules count a gap, they would show no pace.
MAX_SAMPLES, MIN_SAMPLES = 22, 2
# On average of each component: the samples of 200 partitions. Of topics with more, fewer samples are kept.
BYTES_PER_COMPONENT = 128 * 1024
# Between two looks at what is declared.
DECLARED_SECONDS = 60.0


@dataclass(frozen=True)
class _Kept:
    """``packed``: ``count`` samples, the newest of which is of ``at``; no rule reads what is over ``seconds``
    older than a new one."""

    packed: bytes
    count: int
    at: float
    seconds: float

    @classmethod
    def of(cls, samples: Sequence[Sample], seconds: float) -> _Kept:
        document = json.dumps([sample.to_json() for sample in samples], separators=(",", ":"))
        return cls(zlib.compress(document.encode(), 1), len(samples), samples[-1].at, seconds)

    def samples(self) -> list[Sample]:
        """Oldest first."""
        return [Sample.from_json(one) for one in json.loads(zlib.decompress(self.packed))]

    def half(self) -> _Kept:
        """Every second one, and the newest."""
        samples = self.samples()
        return _Kept.of([*samples[:-1:2], samples[-1]], self.seconds)


class SampleStore:
    """The samples of each component of the ``declared`` streams, for threads.

    A stream that is not declared any more is forgotten, and so are samples that no rule would read; nothing
    else is: memory follows what is declared.
    """

    def __init__(self, declared: Callable[[], Collection[str]] = streams.names) -> None:
        self._declared = declared
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._looked_at = time.monotonic()
        self._lock = Lock()

    @property
    def bytes(self) -> int:
        """What all samples take."""
        return sum(len(kept.packed) for kept in self._kept.values())

    def earlier(self, stream: str, component: str) -> list[Sample]:
        """What the checks before kept, oldest first."""
        kept = self._kept.get((stream, component))
        return kept.samples() if kept else []

    def keep(self, stream: str, component: str, samples: Sequence[Sample], seconds: float) -> None:
        """Keep at most MAX_SAMPLES of them for the next check, evenly over the ``seconds`` before the last.
        ``samples``: oldest first, at least one."""
        kept = _Kept.of(downsample(samples, seconds, MAX_SAMPLES), seconds)
        with self._lock:
            self._kept[stream, component] = kept
            if time.monotonic() - self._looked_at >= DECLARED_SECONDS:
                self.forget(kept.at)
            self._bound()

    def forget(self, now: float) -> None:
        """What is not declared any more, and what is too old ``now`` (seconds since 1970)."""
        self._looked_at = time.monotonic()
        declared = set(self._declared())
        for key, kept in list(self._kept.items()):
            if key[0] not in declared or now - kept.at > kept.seconds:
                del self._kept[key]

    def _bound(self) -> None:
        most = BYTES_PER_COMPONENT * len(self._kept)
        while self.bytes > most:
            # Two tell a pace from a standstill, whatever they take.
            sizes = {key: len(kept.packed) for key, kept in self._kept.items() if kept.count > MIN_SAMPLES}
            if not sizes:
                return
            largest = max(sizes, key=sizes.__getitem__)
            self._kept[largest] = self._kept[largest].half()


STORE = SampleStore()
