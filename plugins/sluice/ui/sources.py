"""What a page reads: results tables, the verdicts in the streams' history, and the queries' progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sluice.clients.errors import ClientError
from sluice.clients.keys import Document, history_name
from sluice.model import platform as platforms
from sluice.model.progress import ProgressSnapshot
from sluice.model.stream import StreamSpec
from sluice.ui import queries
from sluice.ui.kept import Kept

if TYPE_CHECKING:
    from sluice.clients.lake.results_table import Results

T = TypeVar("T")

# The windows that a page offers.
PAST_SECONDS = 24 * 3600.0
RESULTS_SECONDS = 2.0
VERDICT_SECONDS = 5.0
PROGRESS_SECONDS = 5.0
PATIENCE_SECONDS = 2.0


class ResultsSource(Protocol):
    """What :class:`sluice.clients.lake.results_table.ResultsReader` does."""

    def read(self, since: float) -> Results:
        """The windows from ``since`` (seconds since 1970) on. Raises ClientError."""


class EventSource(Protocol):
    """What :class:`sluice.clients.history.History` does."""

    def latest(self, kind: str) -> Document | None:
        """The newest event of a kind. Raises ClientError."""


class ProgressSource(Protocol):
    """What :class:`sluice.clients.progress.ProgressReader` does."""

    def read(self, since: float, now: float) -> ProgressSnapshot:
        """All streams' queries, with their batches from ``since`` on. Raises ClientError."""


class Sources:
    """Results, verdicts and progress, each kept for seconds, so that many viewers cost as much as one.

    ``open_results``, ``open_events`` and ``open_progress`` are called when something is first asked for, and
    again where they failed. Every method blocks: call it in a thread.
    """

    def __init__(
        self,
        open_results: Callable[[StreamSpec, str], ResultsSource],
        open_events: Callable[[str], EventSource],
        open_progress: Callable[[], ProgressSource],
    ) -> None:
        self._open_results = open_results
        self._open_events = open_events
        self._open_progress = open_progress
        self._kept: dict[tuple[str, str], Kept[Any]] = {}
        self._lock = Lock()

    def results(self, spec: StreamSpec, name: str) -> Results:
        """The last day's windows. Raises ClientError, or ConfigError if the platform file is wrong."""

        def asked() -> Callable[[], Results]:
            opened = _once(lambda: self._open_results(spec, name))
            return lambda: opened().read(time.time() - PAST_SECONDS)

        return self._get(("results", f"{spec.name}.{name}"), asked, RESULTS_SECONDS)

    def progress(self) -> ProgressSnapshot:
        """Recent progress of all streams' queries. Raises ClientError, or ConfigError for an invalid platform
        file."""

        def asked() -> Callable[[], ProgressSnapshot]:
            opened = _once(self._open_progress)

            def read() -> ProgressSnapshot:
                now = time.time()
                return opened().read(now - queries.PAST_SECONDS, now)

            return read

        return self._get(("progress", ""), asked, PROGRESS_SECONDS)

    def verdicts(self, spec: StreamSpec) -> dict[str, Document | ClientError | None]:
        """Part of the stream -> its newest verdict, None before the first, or why it cannot be read.

        Raises ConfigError where the platform file is wrong.
        """
        return {part: self._verdict(history_name(spec.name, part)) for part in spec.parts}

    def _verdict(self, history: str) -> Document | ClientError | None:
        def asked() -> Callable[[], Document | None]:
            opened = _once(lambda: self._open_events(history))
            return lambda: opened().latest("verdict")

        try:
            return self._get(("verdict", history), asked, VERDICT_SECONDS)
        except ClientError as error:
            # It is shown in the verdict's place: what else is known of the stream is shown all the same.
            return error

    def _get(self, key: tuple[str, str], asked: Callable[[], Callable[[], T]], seconds: float) -> T:
        with self._lock:
            if key not in self._kept:
                self._kept[key] = Kept(asked(), seconds, PATIENCE_SECONDS)
        answer: T = self._kept[key].get()
        return answer


def _once(make: Callable[[], T]) -> Callable[[], T]:
    """``make``'s first result for good; where it raises, it is called again."""
    made: list[T] = []

    def get() -> T:
        if not made:
            made.append(make())
        return made[0]

    return get


@cache
def sources() -> Sources:
    """The sources of the platform file of role ``airflow``. Nothing is read or connected yet."""
    return Sources(open_results, open_history, open_progress)


def open_results(spec: StreamSpec, name: str) -> ResultsSource:
    """The results table of a query in the lake of the platform file of role ``airflow``."""
    # Here and not at the top: PyIceberg takes a second to import, and the API server should not wait for it.
    from sluice.clients.lake.results_table import ResultsReader
    from sluice.clients.table import Lake

    return ResultsReader(Lake.open(platforms.load("airflow")), spec, name)


def open_history(name: str) -> EventSource:
    """The history ``name`` in the ledger of the platform file of role ``airflow``."""
    from sluice.clients.history import History
    from sluice.io.s3 import connect

    platform = platforms.load("airflow")
    return History(connect(platform.s3), platform.lake.ledger, name)


def open_progress() -> ProgressSource:
    """The progress topic on the Kafka of the platform file of role ``airflow``."""
    from sluice.clients.progress import ProgressReader

    return ProgressReader(platforms.load("airflow").kafka)
