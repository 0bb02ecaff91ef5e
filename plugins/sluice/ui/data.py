"""Data of the pages, cached for seconds, so that many viewers cost as much as one."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, cached_property
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
    from sluice.clients.lake.results_table import Results
    from sluice.model.spec.platform import Platform

T = TypeVar("T")

# The windows that a page offers.
PAST_SECONDS = 24 * 3600.0
RESULTS_SECONDS = 2.0
HEALTH_SECONDS = 5.0
PROGRESS_SECONDS = 5.0
# A system that hangs must not block all of the API server's threads.
MAX_WAIT_SECONDS = 2.0


class TtlCache(Generic[T]):
    """The value of ``load``, cached for ``seconds`` from its return. Errors are not cached.

    While one thread loads, others wait MAX_WAIT_SECONDS at most.
    """

    def __init__(self, load: Callable[[], T], seconds: float) -> None:
        self._load, self._seconds = load, seconds
        self._lock = Lock()
        self._value: tuple[float, T] | None = None

    def get(self) -> T:
        """Raises Unreachable if an earlier load has not returned, and whatever ``load`` raises."""
        if not self._lock.acquire(timeout=MAX_WAIT_SECONDS):
            raise Unreachable(f"an earlier request has no answer after {MAX_WAIT_SECONDS:g} s")
        try:
            if self._value is None or time.monotonic() - self._value[0] >= self._seconds:
                value = self._load()
                self._value = (time.monotonic(), value)
            return self._value[1]
        finally:
            self._lock.release()


class Sources:
    """Results, health and progress, from the platform file of role ``airflow``, read at the first request.

    Every method blocks and raises ClientError, or ConfigError for an invalid platform file. A client that
    could not be opened is opened again by the next request.
    """

    def __init__(self) -> None:
        self._caches: dict[tuple[str, str], TtlCache[Any]] = {}
        self._lock = Lock()

    @cached_property
    def _platform(self) -> Platform:
        return platforms.load("airflow")

    def open_results(self, spec: StreamSpec, query: str) -> Callable[[float], Results]:
        from sluice.clients.lake.catalog import Lake
        from sluice.clients.lake.results_table import ResultsReader

        return ResultsReader(Lake.open(self._platform), spec, query).read

    def open_history(self, name: str) -> Callable[[str], Document | None]:
        from sluice.clients.ledger import History

        return History.open(self._platform, name).latest

    def open_progress(self) -> Callable[[float, float], ProgressSnapshot]:
        from sluice.clients.progress import ProgressReader

        return ProgressReader(self._platform.kafka).read

    def results(self, spec: StreamSpec, query: str) -> Results:
        """The windows of the last day."""
        read = cache(lambda: self.open_results(spec, query))
        return self._get(
            ("results", f"{spec.name}.{query}"), lambda: read()(time.time() - PAST_SECONDS), RESULTS_SECONDS
        )

    def progress(self) -> ProgressSnapshot:
        """Recent progress of all streams' queries."""
        read = cache(self.open_progress)

        def load() -> ProgressSnapshot:
            now = time.time()
            return read()(now - PROGRESS_WINDOW_SECONDS, now)

        return self._get(("progress", ""), load, PROGRESS_SECONDS)

    def health(self, spec: StreamSpec) -> dict[str, Document | ClientError | None]:
        """Component -> its newest health event, None before the first, or why it cannot be read."""
        return {component: self._health(history_name(spec.name, component)) for component in spec.components}

    def _health(self, history: str) -> Document | ClientError | None:
        latest = cache(lambda: self.open_history(history))
        try:
            return self._get(("health", history), lambda: latest()("health"), HEALTH_SECONDS)
        except ClientError as error:
            # Shown in place of the health; the rest of the page does not depend on it.
            return error

    def _get(self, key: tuple[str, str], load: Callable[[], T], seconds: float) -> T:
        with self._lock:
            entry: TtlCache[T] = self._caches.setdefault(key, TtlCache(load, seconds))
        return entry.get()


@cache
def sources() -> Sources:
    """The API server's one instance."""
    return Sources()
