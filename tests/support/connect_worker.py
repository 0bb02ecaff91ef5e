"""A Kafka Connect worker with Debezium, and the PostgreSQL whose changes it sends: both write to topics that
are no stream's own, and know nothing of Sluice."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx

from local.runtime.ports import HOST, choose
from local.services import postgres
from local.setup.bootstrap import java_home
from local.setup.jar_sets import ensure_jars
from local.stack.stack import wait_until
from sluice.config.reading.files import write_private
from tests.support.jvm import QUICK
from tests.support.services import Services

START_SECONDS = 90
LOG4J = """\
status = warn
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
logger.debezium.name = io.debezium
logger.debezium.level = info
"""


class SourceDatabase:
    """A PostgreSQL of its own that keeps what logical decoding needs."""

    def __init__(self, folder: Path) -> None:
        self._services = Services(folder, postgres_settings={"wal_level": "logical"})
        self._services.postgres  # noqa: B018 - started

    @property
    def login(self) -> dict[str, str]:
        """As Debezium's connector is configured."""
        stack = self._services.stack
        return {
            "database.hostname": HOST,
            "database.port": str(stack.ports["postgres"]),
            "database.user": postgres.SUPERUSER,
            "database.password": stack.secrets["postgres_admin"],
            "database.dbname": "postgres",
        }

    def run(self, *transactions: str) -> None:
        """Run statements, those of one text in one transaction."""
        connection = self._connection
        for statements in transactions:
            with connection, connection.cursor() as cursor:
                cursor.execute(statements)

    @cached_property
    def _connection(self) -> Any:
        return self._services.postgres()

    def stop(self) -> None:
        self._connection.close()
        self._services.stop()


class ConnectWorker:
    """One worker in distributed mode, which exactly-once delivery needs: records, and the source's position,
    are committed in one transaction."""

    def __init__(self, services: Services, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.log = folder / "connect.log"
        port = choose({}, {}, free=True)["postgres"]
        self.url = f"http://{HOST}:{port}"
        worker, log4j = folder / "worker.properties", folder / "log4j2.properties"
        settings = self._settings(services, port)
        write_private(worker, "".join(f"{name}={value}\n" for name, value in settings.items()))
        write_private(log4j, LOG4J)
        command = [
            *(str(java_home() / "bin" / "java"), "-Xmx384m", "-XX:+UseSerialGC", *QUICK.split()),
            *(f"-Dlog4j2.configurationFile={log4j}", "-cp", f"{ensure_jars('producers')}/*"),
            *("org.apache.kafka.connect.cli.ConnectDistributed", str(worker)),
        ]
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(command, cwd=folder, stdout=out, stderr=out)
        wait_until("the worker", self._answers, START_SECONDS, 0.2)

    def start(self, name: str, config: Mapping[str, str]) -> None:
        """Start a connector; returns when its task runs."""
        answer = httpx.put(
            f"{self.url}/connectors/{name}/config", json=dict(config), timeout=60, trust_env=False
        )
        assert answer.is_success, f"{answer.status_code}: {answer.text}"
        wait_until(f"connector {name}", lambda: self.runs(name), START_SECONDS, 0.2)

    def stop(self) -> None:
        # Asked to stop it commits what it has, and leaves its group: a test needs neither.
        self._process.kill()
        self._process.wait()

    def runs(self, name: str) -> bool:
        """Whether a connector's task runs. Fails if it failed."""
        found = self._get(f"/connectors/{name}/status")
        states = [task["state"] for task in found.get("tasks", ())]
        assert "FAILED" not in states, json.dumps(found)
        return states == ["RUNNING"]

    def _answers(self) -> bool:
        assert self._process.poll() is None, self.log.read_text()[-3000:]
        try:
            # Before it has joined its group it has no resources yet: 404.
            return httpx.get(f"{self.url}/connectors", timeout=10, trust_env=False).is_success
        except httpx.HTTPError:
            return False

    def _get(self, path: str) -> Any:
        answer = httpx.get(f"{self.url}{path}", timeout=10, trust_env=False)
        # Until the task is assigned there is no status.
        return {} if answer.status_code == httpx.codes.NOT_FOUND else answer.raise_for_status().json()

    @staticmethod
    def _settings(services: Services, port: int) -> dict[str, str]:
        login = java_login(services)
        json_converter = "org.apache.kafka.connect.json.JsonConverter"
        return {
            **{
                f"{client}{key}": value
                for client in ("", "producer.", "consumer.")
                for key, value in login.items()
            },
            "group.id": "connect",
            "listeners": f"http://{HOST}:{port}",
            "exactly.once.source.support": "enabled",
            "key.converter": json_converter,
            "key.converter.schemas.enable": "false",
            "value.converter": json_converter,
            "value.converter.schemas.enable": "false",
            **{
                f"{topic}.storage.{setting}": value
                for topic in ("offset", "config", "status")
                for setting, value in (("topic", f"connect-{topic}"), ("replication.factor", "1"))
            },
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
            # By default three minutes until a task's producer is fenced.
            "scheduled.rebalance.max.delay.ms": "0",
        }


def java_login(services: Services) -> dict[str, str]:
    """The superuser's, for a client in Java."""
    return {key.removeprefix("kafka."): value for key, value in services.spark_kafka().items()}


def avro_converters(services: Services) -> dict[str, str]:
    """A connector's settings: Confluent's wire format, with schemas of the embedded registry, which a
    producer may register."""
    address = services.stack.context.network.address("registry")
    settings = {
        "": "io.apicurio.registry.utils.converter.AvroConverter",
        # Its own API: that of Confluent's is for other clients.
        ".apicurio.registry.url": f"http://{address}/apis/registry/v2",
        ".apicurio.auth.username": "sluice-producer",
        ".apicurio.auth.password": services.stack.secrets["registry_producer"],
        ".apicurio.registry.auto-register": "true",
        # A new version when the table has a new column.
        ".apicurio.registry.auto-register.if-exists": "RETURN_OR_UPDATE",
        ".apicurio.registry.as-confluent": "true",
        ".apicurio.registry.use-id": "contentId",
        ".apicurio.registry.headers.enabled": "false",
    }
    return {f"{part}.converter{name}": value for part in ("key", "value") for name, value in settings.items()}
