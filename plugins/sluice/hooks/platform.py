"""Clients of role ``airflow``, and the mixin of tasks and triggers over a stream."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook

from sluice.hooks.masks import masked
from sluice.model.spec import platform as platforms
from sluice.model.spec import stream as streams
from sluice.model.spec.ledger import history_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mypy_boto3_s3 import S3Client

    from sluice.clients.kafka_admin import KafkaAdmin
    from sluice.clients.kafka_topics import KafkaTopics
    from sluice.clients.known_tables import KnownTables
    from sluice.clients.lake.batches import BatchLog
    from sluice.clients.lake.catalog import Lake
    from sluice.clients.ledger import History, Ledger
    from sluice.clients.objects import Bucket
    from sluice.model.checks import Check
    from sluice.model.spec.platform import Platform
    from sluice.model.spec.stream import StreamSpec
    from sluice.runtime.base import Runtime
    from sluice.runtime.observer import Observer

ROLE = "airflow"


class PlatformHook(BaseHook):
    """Clients from the platform file of role ``airflow``; no secret is in Airflow's database or logs.

    Each is opened at its first use, and its library imported then: every task and the DAG processor import
    this module, and PyIceberg alone takes a second. Raises ConfigError for an invalid platform file.
    """

    @cached_property
    def platform(self) -> Platform:
        return masked(platforms.load(ROLE))

    @cached_property
    def kafka(self) -> KafkaAdmin:
        from sluice.clients.kafka_admin import KafkaAdmin

        return KafkaAdmin(self.platform.kafka)

    @cached_property
    def topics(self) -> KafkaAdmin | KafkaTopics:
        """What provisions topics: the brokers, or with [strimzi] in the platform file its operator."""
        if self.platform.strimzi is None:
            return self.kafka
        from sluice.clients.kafka_topics import KafkaTopics

        return KafkaTopics(self.platform.strimzi, self.kafka)

    @cached_property
    def lake(self) -> Lake:
        """Not cached if the catalog does not answer, so that a trigger can retry."""
        from sluice.clients.lake.catalog import Lake

        return Lake.open(self.platform)

    @cached_property
    def s3(self) -> S3Client:
        """For all threads. To make one takes 5 ms."""
        from sluice.io.s3 import connect

        return connect(self.platform.s3)

    @cached_property
    def source(self) -> Bucket:
        return self.bucket(self.platform.source.bucket)

    def bucket(self, name: str) -> Bucket:
        from sluice.clients.objects import Bucket

        return Bucket(self.s3, name)

    def remove_objects(self, bucket: str, keys: Iterable[str]) -> None:
        """Delete the objects as role ``maintenance``; no other client of a task may delete."""
        from sluice.clients.remove_objects import ROLE as MAINTENANCE
        from sluice.clients.remove_objects import remove
        from sluice.io.s3 import connect

        remove(connect(masked(platforms.load(MAINTENANCE)).s3), bucket, keys)

    def report_check(self, check: Check) -> None:
        """To the process that serves its metrics, if there is one. Raises ClientError."""
        metrics = self.platform.metrics
        if metrics is not None and metrics.checks_url:
            from sluice.clients.checks import report

            report(metrics.checks_url, metrics.token, check)

    def ledger(self, stream: str) -> Ledger:
        from sluice.clients.ledger import Ledger

        return Ledger(self.s3, self.platform.lake.ledger, stream)

    def batch_log(self, table: str) -> BatchLog:
        """Of a stream's table, as it is now."""
        from sluice.clients.lake.batches import FOLDER, BatchLog
        from sluice.clients.ledger import Ledger

        found = self.lake.table(table)
        return BatchLog(found, Ledger(self.s3, found.location(), FOLDER))

    def history(self, name: str) -> History:
        """The history ``name`` (``ledger.history_name`` of a component)."""
        from sluice.clients.ledger import History

        return History(self.s3, self.platform.lake.ledger, name)

    def tables(self, stream: str) -> KnownTables:
        """The stream's tables, against what the ledger knows of them."""
        if stream not in self._tables:
            from sluice.clients.known_tables import KnownTables

            self._tables[stream] = KnownTables(self.lake, self.history(stream))
        return self._tables[stream]

    @cached_property
    def _tables(self) -> dict[str, KnownTables]:
        return {}

    def brief_history(self, name: str) -> History:
        """:meth:`history` for a callback, which Airflow ends soon: its requests end within seconds."""
        from sluice.clients.ledger import History
        from sluice.io.s3 import connect_briefly

        return History(connect_briefly(self.platform.s3), self.platform.lake.ledger, name)

    def observer(self, spec: StreamSpec, component: str) -> Observer:
        from sluice.runtime.observer import Observer

        return Observer(self.kafka, lambda: self.tables(spec.name), self.runtime, spec, component)

    @cached_property
    def runtime(self) -> Runtime:
        """The machine's supervisord, or the cluster's Kubernetes."""
        from sluice.runtime.opened import open_runtime

        return open_runtime(self.platform)

    def close(self) -> None:
        """Close what holds connections."""
        if "lake" in vars(self):
            self.lake.close()


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

    @cached_property
    def tables(self) -> KnownTables:
        """The stream's tables, against what the ledger knows of them."""
        return self.platform_hook.tables(self.stream)

    @cached_property
    def history(self) -> History:
        """Of ``component``. Raises ConfigError if the stream has no such component."""
        return self.platform_hook.history(history_name(self.stream, self.spec.component(self.component).name))


class StreamClients(StreamMixin):
    """The clients of a trigger's requests. They are for one thread at a time."""

    def __init__(self, stream: str, component: str) -> None:
        self.stream = stream
        self.component = component

    def close(self) -> None:
        if "platform_hook" in vars(self):
            self.platform_hook.close()
