"""Data of the pages, cached for seconds, so that many viewers cost as much as one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from sluice.clients.kafka.query_progress import ProgressSnapshot
from sluice.config import platform as platforms
from sluice.config.stream import StreamSpec
from sluice.config.streams import Declared, load_valid
from sluice.core.errors import ClientError, Missing
from sluice.core.json_record import Document
from sluice.ledger.keys import EVENTS, history_name
from sluice.supervision.observer.client import ObserverClient
from sluice.systems import QUICK
from sluice.web.data.airflow_db import (
    LastCheck,
    LoadRun,
    OpenApproval,
    last_checks,
    open_approvals,
    unverified_runs,
)
from sluice.web.data.cache import TtlCache
from sluice.web.data.observed import Observed
from sluice.web.views import PROGRESS_WINDOW_SECONDS

if TYPE_CHECKING:
    # PyIceberg takes a second to import, and the API server should not wait for it.
    from mypy_boto3_s3 import S3Client

    from sluice.clients.lake.results.table import Results
    from sluice.config.platform import Platform
    from sluice.ledger.history import History

T = TypeVar("T")

# The windows that a page offers.
PAST_SECONDS = 24 * 3600.0
RESULTS_SECONDS = 2.0
HEALTH_SECONDS = 5.0
PROGRESS_SECONDS = 5.0
AIRFLOW_SECONDS = 5.0
LOG_SECONDS, LOG_BYTES = 5.0, 65_536
# Events of all kinds: a LIST for each, and a GET for each that is shown and was not read before.
EVENTS_SECONDS, MAX_EVENTS, MAX_DOCUMENTS = 30.0, 30, 2000
DECLARED_SECONDS = 10.0


@dataclass(frozen=True)
class AirflowState:
    """State of all streams: ``checks`` by stream, open ``approvals``, ``runs`` of unverified loads."""

    checks: dict[str, LastCheck]
    approvals: Sequence[OpenApproval]
    runs: Sequence[LoadRun]


class Sources:
    """Results, health and progress, from the platform file of role ``airflow``, read at the first request.

    Every method blocks and raises ClientError, or ConfigError for an invalid platform file. A client that
    could not be opened is opened again by the next request. ``declared``: the streams.
    """

    def __init__(self, declared: Callable[[], Declared] | None = None) -> None:
        self._caches: dict[tuple[str, str], TtlCache[Any]] = {}
        self._lock = Lock()
        # Address -> event.
        self._documents: dict[str, Document] = {}
        self.declared = declared or TtlCache(load_valid, DECLARED_SECONDS).get
        self.observed = Observed(self._open_observer)

    @cached_property
    def _platform(self) -> Platform:
        return platforms.load("airflow")

    def _open_observer(self) -> ObserverClient:
        access = self._platform.observer
        if access is None:
            raise Missing("the platform file of role 'airflow' has no [observer]. Fix: add its url and token")
        return ObserverClient(access)

    def open_results(self, spec: StreamSpec, query: str) -> Callable[[float], Results]:
        from sluice.clients.lake.catalog import Lake
        from sluice.clients.lake.results.table import ResultsReader

        return ResultsReader(Lake.open(self._platform), spec, query).read

    def open_history(self, name: str) -> Callable[[str], Document | None]:
        from sluice.ledger.history import History

        return History.open(self._platform, name).latest

    def open_progress(self) -> Callable[[float, float], ProgressSnapshot]:
        from sluice.clients.kafka.progress import ProgressReader

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

    def metrics_token(self) -> str | None:
        """None if the platform file has none."""
        return self._platform.metrics.token if self._platform.metrics else None

    def airflow(self) -> AirflowState:
        """What Airflow's database says of all streams."""

        def load() -> AirflowState:
            from airflow.utils.session import create_session

            known = self.declared()
            names = [*(spec.name for spec in known.specs), *known.invalid]

            def dags(*kinds: str) -> list[str]:
                return [f"{name}_{kind}" for name in names for kind in kinds]

            with create_session() as session:
                return AirflowState(
                    last_checks(names, session),
                    open_approvals(dags("change"), session),
                    unverified_runs(dags("load", "backfill"), session),
                )

        return self._get(("airflow", ""), load, AIRFLOW_SECONDS)

    def events(self, spec: StreamSpec) -> list[tuple[str, Document]]:
        """Component and event: the newest MAX_EVENTS of the stream, newest first."""

        def load() -> list[tuple[str, Document]]:
            histories = {name: self.open_events(history_name(spec.name, name)) for name in spec.components}
            keys = [
                (at, name, key)
                for name, history in histories.items()
                for kind in EVENTS
                for key, at in history.newest_keys(kind, MAX_EVENTS)
            ]
            newest = sorted(keys, reverse=True)[:MAX_EVENTS]
            found = ((name, self._event(histories[name], key)) for _, name, key in newest)
            return [(name, event) for name, event in found if event is not None]

        return self._get(("events", spec.name), load, EVENTS_SECONDS)

    def _event(self, history: History, key: str) -> Document | None:
        """Written once, so it is read once."""
        uri = history.uri(key)
        if uri not in self._documents:
            if len(self._documents) >= MAX_DOCUMENTS:
                self._documents.clear()
            document = history.get(key)
            if document is None:
                return None
            self._documents[uri] = document
        return self._documents[uri]

    def open_events(self, name: str) -> History:
        from sluice.ledger.history import History

        return History(self._s3, self._platform.lake.ledger, name)

    @cached_property
    def _s3(self) -> S3Client:
        from sluice.clients.s3.requests import connect

        return connect(self._platform.s3, **QUICK)

    def log(self, spec: StreamSpec, component: str) -> list[str]:
        """The last lines of the log of the component's process."""

        def load() -> list[str]:
            from sluice.clients.processes.opened import open_runtime

            return open_runtime(self._platform).tail(spec.component(component).program, LOG_BYTES)

        return self._get(("log", spec.component(component).program), load, LOG_SECONDS)

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
