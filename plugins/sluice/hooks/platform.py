"""One role's clients; mixin for tasks over a stream.

The platform as Airflow's words see it: one role's clients, each opened when it is first needed.

What every step over a stream has: its declaration, its role's clients, the stream's ledger and history.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

from sluice.model.spec import platform as platforms
from sluice.model.spec import stream as streams
from sluice.model.spec.config import ConfigError

if TYPE_CHECKING:
    from sluice.clients.kafka_admin import KafkaAdmin
    from sluice.clients.lake.catalog import Lake
    from sluice.clients.ledger import History, Ledger
    from sluice.clients.objects import Bucket
    from sluice.model.spec.platform import Platform
    from sluice.model.spec.stream import StreamSpec
    from sluice.runtime.base import Runtime
    from sluice.runtime.observer import Observer


class PlatformHook(BaseHook):
    """Clients of ``role``, from its platform file; no Airflow connection and no secret in Airflow's database.

    The clients' libraries are imported where they are first used: every task and the DAG processor import
    this module, and PyIceberg alone takes a second. Raises ConfigError where the platform file is wrong.
    """

    def __init__(self, role: str = "airflow") -> None:
        super().__init__()
        self.role = role

    @cached_property
    def platform(self) -> Platform:
        return platforms.load(self.role)

    @cached_property
    def kafka(self) -> KafkaAdmin:
        from sluice.clients.kafka_admin import KafkaAdmin

        return KafkaAdmin(self.platform.kafka)

    @cached_property
    def lake(self) -> Lake:
        """Not kept where the catalog does not answer, so that a trigger can ask again."""
        from sluice.clients.lake.catalog import Lake

        return Lake.open(self.platform)

    @cached_property
    def source(self) -> Bucket:
        return self.bucket(self.platform.source.bucket)

    def bucket(self, name: str) -> Bucket:
        from sluice.clients.objects import Bucket
        from sluice.io.s3 import connect

        return Bucket(connect(self.platform.s3), name)

    def ledger(self, stream: str) -> Ledger:
        from sluice.clients.ledger import Ledger
        from sluice.io.s3 import connect

        return Ledger(connect(self.platform.s3), self.platform.lake.ledger, stream)

    def history(self, stream: str) -> History:
        from sluice.clients.ledger import History
        from sluice.io.s3 import connect

        return History(connect(self.platform.s3), self.platform.lake.ledger, stream)

    def observer(self, spec: StreamSpec, component: str) -> Observer:
        """Observes one component, over the clients that are open already."""
        from sluice.runtime.observer import Observer

        return Observer(self.kafka, lambda: self.lake, self.runtime, spec, component)

    @cached_property
    def runtime(self) -> Runtime:
        """Where the streams' processes run: the machine's supervisord."""
        from sluice.runtime.supervisord import SupervisorRuntime

        if self.platform.supervisor is None:
            raise ConfigError(
                f"the platform file of role {self.role!r} has no [supervisor]: add url, username and "
                "password, so that streams can be started and looked at"
            )
        return SupervisorRuntime(self.platform.supervisor)


class StreamMixin:
    """``stream`` (a folder of spark_jobs/) and ``role`` (a platform file); both are read when a task runs."""

    stream: str
    role: str

    @cached_property
    def spec(self) -> StreamSpec:
        return streams.load(self.stream)

    @cached_property
    def platform_hook(self) -> PlatformHook:
        return PlatformHook(self.role)

    @cached_property
    def ledger(self) -> Ledger:
        return self.platform_hook.ledger(self.stream)

    @cached_property
    def history(self) -> History:
        return self.platform_hook.history(self.stream)
