"""The systems of a running stack, reached with each role's rights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local.base import UsageError
from local.progress import ProgressDisplay
from local.runtime import roles
from local.runtime.context import Context
from local.runtime.home import StackDir
from local.services import airflow, kafka, minio, postgres, replay, streams
from sluice.cli.airflow_api import TIMEOUT_SECONDS, Airflow
from sluice.clients.kafka.login.properties import librdkafka
from sluice.clients.polling import wait_for
from sluice.config import connection, platform
from sluice.config import streams as stream_files
from sluice.config.platform import ROLES
from sluice.connection_check.needs import topics as declared_topics
from sluice.core.errors import Refused
from sluice.systems import Systems

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from sluice.clients.lake.catalog import Lake

_RIGHTS_SECONDS = 20.0


class BaseStack(ABC):
    """One stack's systems: embedded (local.stack.stack) or in containers (local.containers.stack)."""

    home: StackDir
    # Whether checkpoints are in a bucket: where processes have no folder in common.
    has_checkpoint_bucket = False

    @property
    @abstractmethod
    def context(self) -> Context:
        """Raises UsageError if an artifact is missing, or for an invalid setting."""

    @property
    @abstractmethod
    def secrets(self) -> dict[str, str]: ...

    @abstractmethod
    def up(self, board: ProgressDisplay | None = None) -> None:
        """Wait until all services are healthy; start them where that is this command's duty."""

    @abstractmethod
    def is_running(self) -> bool: ...

    @abstractmethod
    def next_steps(self, figures: Path, query: str) -> str:
        """For the end of a demo: its file, if it stays, and how to see rows."""

    def provisioning(self) -> dict[str, Callable[[], None]]:
        """Service → what makes its users, rights, buckets and databases; each is idempotent."""
        made: dict[str, Callable[[], None]] = {"postgres": lambda: postgres.provision(self.context)}
        if self.context.external is None:
            topics, others = declared_topics(stream_files.load_valid().specs)
            results = streams.result_topics()
            users = {role: (f"sluice-{role}", self.secrets[f"minio_{role}"]) for role in ROLES}
            made["kafka"] = lambda: kafka.provision(self.context, topics, results, others)
            made["minio"] = lambda: minio.provision(self.context, users, self.has_checkpoint_bucket)
        return made

    def allow_reading(self, topic: str) -> bool:
        """Give the roles the least rights on a topic that others fill, as of a stream's; False if Kafka is
        not the stack's own. Raises UsageError without such a topic, and KafkaException."""
        if self.context.external is not None:
            return False
        if topic not in kafka.topics(self.context):
            raise UsageError(f"topic {topic!r} does not exist on the stack's Kafka. Fix: correct its name")
        kafka.provision(self.context, [], others={topic: ""})

        def applied() -> bool:
            with suppress(Refused):
                return self.systems("airflow").kafka.find(topic) is not None
            return False

        # A broker applies a right a moment after it is kept.
        return wait_for(applied, _RIGHTS_SECONDS)

    def airflow(self, timeout: float = TIMEOUT_SECONDS) -> Airflow:
        """Airflow's REST API as the operator; `timeout`: seconds, of each try."""
        password = self.secrets["airflow_operator"]
        return Airflow(airflow.url(self.context), airflow.USER, password, timeout)

    def systems(self, role: str) -> Systems:
        """Clients with a role's rights."""
        environ = {
            platform.DIRECTORY_VARIABLE: str(self.home.platform),
            connection.DIRECTORY_VARIABLE: str(self.home.connections),
        }
        return Systems(role, environ=environ)

    def platform(self, role: str) -> platform.Platform:
        return self.systems(role).platform

    def s3(self, role: str) -> S3Client:
        return self.systems(role).s3

    def admin_s3(self) -> S3Client:
        """boto3's client with all rights (not with an external S3)."""
        return minio.admin_s3(self.context)

    def source_s3(self) -> S3Client:
        """boto3's client that may write the source bucket; with SLUICE_EXTERNAL only if role airflow may."""
        return self.s3("airflow") if self.context.external is not None else self.admin_s3()

    def kafka(self, role: str) -> dict[str, Any]:
        """librdkafka's settings with a role's rights; `admin` is the superuser (not of an external Kafka)."""
        return kafka.admin_config(self.context) if role == "admin" else librdkafka(self.platform(role).kafka)

    def lake(self, role: str) -> Lake:
        return self.systems(role).lake

    def platform_documents(self) -> dict[str, roles.Document]:
        """The platform file of each role, as plain data. Raises UsageError for an invalid external one."""
        context = self.context
        replayed = context.feed == replay.REPLAY
        specs = stream_files.load_valid().specs
        feeds = replay.feeds(specs, context.ports[replay.NAME]) if replayed else {}
        documents = roles.documents(
            self.home,
            context.network,
            self.secrets,
            feeds,
            registry=context.registry is not None,
            rest_catalog=context.rest_catalog is not None,
        )
        if context.external is not None:
            documents = roles.external(documents, Path(context.external))
        return documents

    def write_platform_files(self) -> bool:
        """Write them; whether one changed."""
        return roles.write(self.home.platform, self.platform_documents())
