"""The hook: the clients of role ``airflow``; and the mixin of tasks and triggers over a stream."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook, Variable

from sluice import airflow_secrets
from sluice.airflow.masks import masked
from sluice.config import streams
from sluice.ledger.keys import history_name
from sluice.ledger.marks import LedgerMarks
from sluice.systems import Systems

if TYPE_CHECKING:
    from sluice.config.platform import Platform
    from sluice.config.reading.references import AirflowSecrets
    from sluice.config.stream import StreamSpec
    from sluice.ledger.documents import Ledger
    from sluice.ledger.history import History
    from sluice.ledger.known_tables import KnownTables
    from sluice.supervision.checks.check import Check
    from sluice.supervision.observer.sampler import Sampler
    from sluice.supervision.rules.sample import Sample


class PlatformHook(BaseHook, Systems):
    """The systems, with their secrets masked in Airflow's logs; none is in its database, unless a platform
    file refers to it there."""

    @property
    def airflow_secrets(self) -> AirflowSecrets:
        return airflow_secrets.read

    def load(self, role: str) -> Platform:
        return masked(super().load(role))

    def sampler(self, spec: StreamSpec, component: str) -> Sampler:
        from sluice.supervision.observer.sampler import Sampler

        return Sampler(self.kafka, lambda: self.tables(spec.name), self.runtime, spec, component)

    def observed(self, spec: StreamSpec, component: str) -> list[Sample]:
        """The observer's samples. Raises ClientError if it does not answer, or is not configured."""
        from sluice.supervision.observer.client import ObserverClient

        return ObserverClient.open(self.platform).samples(spec, component)

    def report_check(self, check: Check) -> None:
        """To the process that serves its metrics, if there is one. Raises ClientError."""
        metrics = self.platform.metrics
        if metrics is not None and metrics.checks_url:
            from sluice.supervision.checks.report import report

            report(metrics.checks_url, metrics.token, check)


class StreamMixin:
    """Work over ``stream`` (a folder of spark_jobs/), whose declaration is read when it runs."""

    stream: str
    component: str

    @cached_property
    def spec(self) -> StreamSpec:
        """Raises ConfigError."""
        return streams.load(self.stream)

    @cached_property
    def platform_hook(self) -> PlatformHook:
        return PlatformHook()

    @cached_property
    def ledger(self) -> Ledger:
        return self.platform_hook.ledger(self.stream)

    def marks_of(self, ledger: Ledger) -> LedgerMarks:
        """What ``ledger`` must have, by Airflow's Variables: neither ledger nor catalog restores them."""
        return LedgerMarks(ledger, Variable)

    @cached_property
    def tables(self) -> KnownTables:
        """The stream's tables, against what the ledger knows of them."""
        return self.platform_hook.tables(self.stream)

    @cached_property
    def history(self) -> History:
        """The history of ``component``. Raises ConfigError if the stream has no such component."""
        return self.platform_hook.history(history_name(self.stream, self.spec.component(self.component).name))


class StreamClients(StreamMixin):
    """The clients of a trigger's requests. They are for one thread at a time."""

    def __init__(self, stream: str, component: str) -> None:
        self.stream = stream
        self.component = component

    def close(self) -> None:
        if "platform_hook" in vars(self):
            self.platform_hook.close()
