"""Data of the pages, each cached for seconds, so that many viewers cost as much as one."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sluice.clients.errors import ClientError, Unreachable
from sluice.model.queries.progress import ProgressSnapshot
from sluice.model.spec import platform as platforms
from sluice.model.spec.ledger import Document, history_name
from sluice.model.spec.stream import StreamSpec
from sluice.ui.views import PROGRESS_WINDOW_SECONDS

if TYPE_CHECKING:
    # PyIceberg takes a second to import, and the API server should not wait for it.
    from sluice.clients.lake.results_table import Results, ResultsReader
    from sluice.clients.ledger import History
    from sluice.clients.progress import ProgressReader

T = TypeVar("T")
R = TypeVar("R")

# The windows that a page offers.
PAST_SECONDS = 24 * 3600.0
RESULTS_SECONDS = 2.0
HEALTH_SECONDS = 5.0
PROGRESS_SECONDS = 5.0
# A system that hangs must not take all of the API server's threads.
MAX_WAIT_SECONDS = 2.0


class TtlCache(Generic[T]):
    """The value that ``load`` returned, for ``seconds`` seconds from its return. Errors are not cached.

    While one thread loads, others wait ``max_wait`` seconds at most. ``clock``: seconds that only grow.
    """

    def __init__(
        self,
        load: Callable[[], T],
        seconds: float,
        max_wait: float = MAX_WAIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load, self._clock = load, clock
        self._seconds, self._max_wait = seconds, max_wait
        self._lock = Lock()
        self._value: tuple[float, T] | None = None

    def get(self) -> T:
        """Raises Unreachable if an earlier load has not returned, and whatever ``load`` raises."""
        if not self._lock.acquire(timeout=self._max_wait):
            raise Unreachable(f"an earlier question is still without an answer after {self._max_wait:g} s")
        try:
            if self._value is None or self._clock() - self._value[0] >= self._seconds:
                value = self._load()
                self._value = (self._clock(), value)
            return self._value[1]
        finally:
            self._lock.release()


class Sources:
    """Results, verdicts and progress. Every method blocks (call it in a thread); raises ConfigError for an
    invalid platform file.

    Each ``open_…`` makes a reading function, when it is first needed, and again if that failed.
    """

    def __init__(
        self,
        open_results: Callable[[StreamSpec, str], Callable[[float], Results]],
        open_events: Callable[[str], Callable[[str], Document | None]],
        open_progress: Callable[[], Callable[[float, float], ProgressSnapshot]],
    ) -> None:
        self._open_results = open_results
        self._open_events = open_events
        self._open_progress = open_progress
        self._caches: dict[tuple[str, str], TtlCache[Any]] = {}
        self._lock = Lock()

    def results(self, spec: StreamSpec, name: str) -> Results:
        """The last day's windows. Raises ClientError."""
        return self._get(
            ("results", f"{spec.name}.{name}"),
            lambda: self._open_results(spec, name),
            lambda read: read(time.time() - PAST_SECONDS),
            RESULTS_SECONDS,
        )

    def progress(self) -> ProgressSnapshot:
        """Recent progress of all streams' queries. Raises ClientError."""

        def ask(read: Callable[[float, float], ProgressSnapshot]) -> ProgressSnapshot:
            now = time.time()
            return read(now - PROGRESS_WINDOW_SECONDS, now)

        return self._get(("progress", ""), self._open_progress, ask, PROGRESS_SECONDS)

    def verdicts(self, spec: StreamSpec) -> dict[str, Document | ClientError | None]:
        """Part of the stream -> its newest verdict, None before the first, or why it cannot be read."""
        return {component: self._health(history_name(spec.name, component)) for component in spec.components}

    def _health(self, history: str) -> Document | ClientError | None:
        try:
            return self._get(
                ("health", history),
                lambda: self._open_events(history),
                lambda latest: latest("health"),
                HEALTH_SECONDS,
            )
        except ClientError as error:
            # Shown in the verdict's place; the rest of the page does not depend on it.
            return error

    def _get(self, key: tuple[str, str], make: Callable[[], R], ask: Callable[[R], T], seconds: float) -> T:
        with self._lock:
            if key not in self._caches:
                # An exception is not cached.
                made = cache(make)
                self._caches[key] = TtlCache(lambda: ask(made()), seconds)
        value: T = self._caches[key].get()
        return value


@cache
def sources() -> Sources:
    """The sources of the platform file of role ``airflow``. Nothing is read or connected yet."""
    return Sources(
        lambda spec, name: results_reader(spec, name).read,
        lambda name: history(name).latest,
        lambda: progress_reader().read,
    )


def results_reader(spec: StreamSpec, name: str) -> ResultsReader:
    from sluice.clients.lake.catalog import Lake
    from sluice.clients.lake.results_table import ResultsReader

    return ResultsReader(Lake.open(platforms.load("airflow")), spec, name)


def history(name: str) -> History:
    from sluice.clients.ledger import History
    from sluice.io.s3 import connect

    platform = platforms.load("airflow")
    return History(connect(platform.s3), platform.lake.ledger, name)


def progress_reader() -> ProgressReader:
    from sluice.clients.progress import ProgressReader

    return ProgressReader(platforms.load("airflow").kafka)
