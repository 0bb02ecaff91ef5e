"""Data of the pages, cached for seconds, so that many viewers cost as much as one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from sluice import airflow_secrets
from sluice.catalog_check.status import CatalogStatus, status
from sluice.clients.kafka.query_progress import ProgressSnapshot
from sluice.clients.s3.requests import QUICK
from sluice.config import platform as platforms
from sluice.config.platform_sections.catalog import SQL
from sluice.config.stream import StreamSpec
from sluice.config.streams import Declared, load_valid
from sluice.core.json_record import Document
from sluice.ledger.keys import EVENTS, history_name
from sluice.supervision.observer.client import ObserverClient
from sluice.supervision.observer.component_view import LastCheck
from sluice.supervision.observer.live import Live
from sluice.systems import ROLE, Systems
from sluice.web.data.airflow_db import (
    LoadRun,
    OpenApproval,
    last_checks,
    open_approvals,
    unverified_runs,
)
from sluice.web.data.cache import TtlCache
from sluice.web.data.observed import Observed
from sluice.web.query_json import PROGRESS_WINDOW_SECONDS

if TYPE_CHECKING:
    # PyIceberg takes a second to import, and the API server should not wait for it.
    from sluice.clients.lake.results.table import Results
    from sluice.clients.registry.client import RegistryClient
    from sluice.config.reading.references import AirflowSecrets
    from sluice.core.schema_versions.stream import StreamSchema
    from sluice.ledger.documents import Ledger
    from sluice.ledger.history import History

T = TypeVar("T")

# The windows that a page offers.
PAST_SECONDS = 24 * 3600.0
RESULTS_SECONDS = 2.0
PROGRESS_SECONDS = 5.0
AIRFLOW_SECONDS = 5.0
LOG_SECONDS, LOG_BYTES = 5.0, 65_536
# Events of all kinds: a LIST for each, and a GET for each that is shown and was not read before.
EVENTS_SECONDS, MAX_EVENTS, MAX_DOCUMENTS = 30.0, 30, 2000
DECLARED_SECONDS = 10.0
# A request to the registry for each version that is shown, for all viewers.
SCHEMA_SECONDS = 30.0
# A secret that was replaced is used after so long.
STAMP_SECONDS = 10.0
# What was found of the catalog changes when a consumer starts.
CATALOG_SECONDS = 300.0
# For its connection, the next part of its answer, and all of it.
REGISTRY_SECONDS = 1.0, 2.0, 4.0


class PageSystems(Systems):
    """The systems, in Airflow's API server."""

    @property
    def airflow_secrets(self) -> AirflowSecrets:
        return airflow_secrets.read


@dataclass(frozen=True)
class AirflowState:
    """State of all streams: ``checks`` by stream, open ``approvals``, ``runs`` of unverified loads."""

    checks: dict[str, LastCheck]
    approvals: Sequence[OpenApproval]
    runs: Sequence[LoadRun]


class Sources:
    """Data by the platform file of role ``airflow``, which is read at the first request.

    Every method blocks and raises ClientError, or ConfigError for an invalid platform file. A client that
    could not be opened is opened again by the next request. ``declared``: the streams.
    """

    def __init__(self, declared: Callable[[], Declared] | None = None) -> None:
        self._caches: dict[tuple[str, str], TtlCache[Any]] = {}
        self._lock = Lock()
        self._systems: Systems = PageSystems(s3_limits=QUICK)
        # Address -> event.
        self._documents: dict[str, Document] = {}
        self._quick_registry: RegistryClient | None = None
        self.declared = declared or TtlCache(load_valid, DECLARED_SECONDS).get
        self.observed = Observed(lambda: ObserverClient.open(self._systems.platform))

    def lives(self, spec: StreamSpec) -> dict[str, Live]:
        """What is known of each component."""
        return {component: self.observed.live(spec.name, component) for component in spec.components}

    def all_lives(self, specs: Iterable[StreamSpec]) -> dict[str, dict[str, Live]]:
        """Stream -> what is known of each component, in brief."""
        live = self.observed.all()
        return {
            spec.name: {component: live(spec.name, component) for component in spec.components}
            for spec in specs
        }

    def open_results(self, spec: StreamSpec, query: str) -> Callable[[float], Results]:
        from sluice.clients.lake.results.table import ResultsReader

        return ResultsReader(self._systems.lake, spec, query).read

    def open_progress(self) -> Callable[[float, float], ProgressSnapshot]:
        from sluice.clients.kafka.progress import ProgressReader

        return ProgressReader(self._systems.platform.kafka).read

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
        return self._systems.platform.metrics.token if self._systems.platform.metrics else None

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
            histories = {
                name: self._systems.history(history_name(spec.name, name)) for name in spec.components
            }
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

    def _registry(self) -> RegistryClient:
        # A page does not wait for one that is down as a step does.
        if self._quick_registry is None:
            from sluice.clients.registry.client import RegistryClient
            from sluice.clients.registry.http import Limits

            limits = Limits(*REGISTRY_SECONDS)
            self._quick_registry = RegistryClient(self._systems.platform.need_registry(), limits)
        return self._quick_registry

    def schema(self, spec: StreamSpec) -> StreamSchema:
        """The schema of the stream's table; a registry that does not answer is a problem of the answer."""

        def load() -> StreamSchema:
            from sluice.trace.stream_schema import stream_schema

            systems = self._systems
            table = systems.lake.table(spec.table)
            return stream_schema(spec, table, systems.s3, self._registry)

        return self._get(("schema", spec.name), load, SCHEMA_SECONDS)

    def catalog(self) -> CatalogStatus:
        """What was found of the lake's catalog, by one question to it in minutes."""

        def load() -> CatalogStatus:
            from sluice.catalog_check import kept

            systems = self._systems
            declared = systems.platform.lake.catalog
            if declared.type == SQL:
                return status(SQL, None)
            return status(declared.type, kept.found(systems.lake.catalog, declared.check_namespace))

        return self._get(("catalog", ""), load, CATALOG_SECONDS)

    def left_to_catalog(self) -> list[str]:
        """What is not done or not shown here by the platform file's declaration, a line each. No request."""
        return self._systems.platform.lake.left_to_catalog()

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

    def ledger(self, stream: str) -> Ledger:
        return self._systems.ledger(stream)

    def log(self, spec: StreamSpec, component: str) -> list[str]:
        """The last lines of the log of the component's process."""

        def load() -> list[str]:
            # Not shared: supervisord's client is for one thread at a time.
            return PageSystems().runtime.tail(spec.component(component).program, LOG_BYTES)

        return self._get(("log", spec.component(component).program), load, LOG_SECONDS)

    def _get(self, key: tuple[str, str], load: Callable[[], T], seconds: float) -> T:
        with self._lock:
            entry: TtlCache[T] = self._caches.setdefault(key, TtlCache(load, seconds))
        return entry.get()


_stamp = TtlCache(lambda: platforms.stamp(ROLE), STAMP_SECONDS)


def sources() -> Sources:
    """The API server's one instance; another one when its platform file, or a file to which that refers, has
    changed."""
    return _sources(_stamp.get())


@lru_cache(maxsize=1)
def _sources(_: platforms.Stamp) -> Sources:
    return Sources()
