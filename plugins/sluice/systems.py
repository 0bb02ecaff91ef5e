"""One role's clients of every system, opened when they are first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from sluice.clients.s3.requests import BRIEF, USUAL, Limits, connect
from sluice.config import platform as platforms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mypy_boto3_s3 import S3Client

    from sluice.clients.kafka.admin import KafkaAdmin
    from sluice.clients.kafka.broker_topics import BrokerTopics
    from sluice.clients.kafka.strimzi_topics import KafkaTopics
    from sluice.clients.lake.catalog import Lake
    from sluice.clients.processes.base import Runtime
    from sluice.clients.registry.client import RegistryClient
    from sluice.clients.registry.schemas import RegistrySchemas
    from sluice.clients.s3.objects import Bucket
    from sluice.config.platform import Platform
    from sluice.config.reading.references import AirflowSecrets
    from sluice.ledger.batches import BatchLog
    from sluice.ledger.documents import Ledger
    from sluice.ledger.history import History
    from sluice.ledger.known_tables import KnownTables

ROLE = "airflow"


class Systems:
    """Clients from the platform file of ``role``, found by ``environ``; ``s3_limits``: of
    :func:`clients.s3.requests.connect`.

    Each is opened at its first use, and its library imported then: every task and the DAG processor import
    this module, and PyIceberg alone takes a second. Raises ConfigError for an invalid platform file.
    """

    role = ROLE
    s3_limits: Limits = USUAL
    environ: Mapping[str, str] | None = None

    def __init__(
        self, role: str = ROLE, s3_limits: Limits = USUAL, environ: Mapping[str, str] | None = None
    ) -> None:
        self.role, self.s3_limits, self.environ = role, s3_limits, environ

    @property
    def airflow_secrets(self) -> AirflowSecrets | None:
        """What follows references to Airflow's secrets, in Airflow's own processes; None elsewhere."""
        return None

    def load(self, role: str) -> Platform:
        return platforms.load(role, self.environ, self.airflow_secrets)

    @cached_property
    def platform(self) -> Platform:
        return self.load(self.role)

    @cached_property
    def kafka(self) -> KafkaAdmin:
        from sluice.clients.kafka.admin import KafkaAdmin

        return KafkaAdmin(self.platform.kafka)

    @cached_property
    def topics(self) -> BrokerTopics | KafkaTopics:
        """What provisions topics: the brokers, or with [strimzi] in the platform file its operator."""
        if self.platform.strimzi is None:
            from sluice.clients.kafka.broker_topics import BrokerTopics

            return BrokerTopics(self.kafka)
        from sluice.clients.kafka.strimzi_topics import KafkaTopics

        return KafkaTopics(self.platform.strimzi, self.kafka)

    @cached_property
    def lake(self) -> Lake:
        """Not cached if the catalog does not answer, so that a trigger can retry."""
        from sluice.clients.lake.catalog import Lake

        return Lake.open(self.platform, self.s3)

    @cached_property
    def registry(self) -> RegistryClient:
        """Raises ConfigError if the role's platform file has none."""
        from sluice.clients.registry.client import RegistryClient

        return RegistryClient(self.platform.need_registry())

    @cached_property
    def schemas(self) -> RegistrySchemas:
        """Those of the registry, as decoders read them. Raises as :attr:`registry`."""
        from sluice.clients.registry.schemas import RegistrySchemas

        return RegistrySchemas.of(self.platform)

    @cached_property
    def s3(self) -> S3Client:
        """For all threads. To make one takes 5 ms. What concerns a table that :attr:`lake` has read is sent
        with the table's own keys, if the catalog gives them."""
        from sluice.clients.catalogs.vended import client_of

        return client_of(self.platform, self.s3_limits)

    @cached_property
    def source(self) -> Bucket:
        return self.bucket(self.platform.source.bucket)

    def bucket(self, name: str) -> Bucket:
        from sluice.clients.s3.objects import Bucket

        return Bucket(self.s3, name)

    def as_maintenance(self) -> S3Client:
        """For what role ``maintenance`` alone may: delete objects, and write what is kept of a batch log."""
        from sluice.clients.s3.remove_objects import ROLE as MAINTENANCE

        return connect(self.load(MAINTENANCE).s3)

    def remove_objects(self, bucket: str, keys: Iterable[str]) -> None:
        """Delete the objects as role ``maintenance``; no other client of a task may delete."""
        from sluice.clients.s3.remove_objects import remove

        remove(self.as_maintenance(), bucket, keys)

    def ledger(self, stream: str) -> Ledger:
        from sluice.ledger.documents import Ledger

        return Ledger(self.s3, self.platform.lake.ledger, stream)

    def batch_log(self, table: str) -> BatchLog:
        """The batch log of a stream's table, as it is now."""
        from sluice.ledger.batches import BatchLog

        return BatchLog.open(self.s3, self.lake.table(table))

    def history(self, name: str) -> History:
        """The history ``name`` (``ledger.history_name`` of a component)."""
        from sluice.ledger.history import History

        return History(self.s3, self.platform.lake.ledger, name)

    def tables(self, stream: str) -> KnownTables:
        """The stream's tables, against what the ledger knows of them."""
        if stream not in self._tables:
            from sluice.ledger.known_tables import KnownTables

            self._tables[stream] = KnownTables(self.lake, self.history(stream))
        return self._tables[stream]

    @cached_property
    def _tables(self) -> dict[str, KnownTables]:
        return {}

    def brief_history(self, name: str) -> History:
        """:meth:`history` for a callback, which Airflow ends soon: its requests end within seconds."""
        from sluice.ledger.history import History

        return History(connect(self.platform.s3, BRIEF), self.platform.lake.ledger, name)

    @cached_property
    def runtime(self) -> Runtime:
        """The machine's supervisord, or the cluster's Kubernetes."""
        from sluice.clients.processes.opened import open_runtime

        return open_runtime(self.platform)

    def close(self) -> None:
        """Close what holds connections."""
        if "lake" in vars(self):
            self.lake.close()
        if "registry" in vars(self):
            self.registry.close()
