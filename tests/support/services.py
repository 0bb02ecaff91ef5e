"""Single services of the embedded stack, without supervisord and Airflow: up in seconds, ended with the
test."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from minio.credentials import StaticProvider
from minio.minioadmin import MinioAdmin

from local.runtime import roles
from local.runtime.context import Context
from local.runtime.ports import HOST, Network, free_ports, free_range
from local.runtime.registry_access import registry_section
from local.runtime.supervisord import Program
from local.services import kafka, minio, postgres, registry, rest_catalog
from local.setup.optional import ensure_registry, ensure_rest_catalog
from local.stack.stack import Stack, wait_until
from sluice.clients.kafka.login.properties import java
from sluice.config import platform
from sluice.config.platform import ROLES, Platform
from sluice.config.platform_sections.catalog import GLUE, MYSQL, REST, SQL
from sluice.config.reading.toml import dump
from tests.support import glue_server
from tests.support.catalog_proxy import CatalogProxy, through
from tests.support.catalogs import SIGNED
from tests.support.jvm import QUICK
from tests.support.mysql_catalog import MysqlCatalog
from tests.support.signature_gate import REGION, SERVICE, SignatureGate

START_SECONDS = 60
STOP_SECONDS = 30


class Services:
    """Kafka, MinIO and PostgreSQL in a folder of their own, each started when it is asked for."""

    def __init__(self, folder: Path, postgres_settings: Mapping[str, str] | None = None) -> None:
        """``postgres_settings``: additional ones of the server."""
        # Never started: it knows where everything is, and under which names and passwords.
        self.stack = Stack(folder, free_ports=True, java_options=QUICK)
        self.stack.home.prepare()
        self.stack.home.remember(ports=self.stack.ports)
        documents = roles.documents(self.stack.home, Network(self.stack.ports), self.stack.secrets)
        roles.write(self.stack.home.platform, documents)
        self._postgres_settings = postgres_settings or {}
        self._running: dict[str, tuple[subprocess.Popen[bytes], signal.Signals]] = {}
        self._started: dict[str, tuple[Program, Callable[[], str]]] = {}

    @cached_property
    def kafka(self) -> dict[str, Any]:
        """A broker with the roles' users. Returns the superuser's configuration for librdkafka."""
        context = self.stack.context
        kafka.prepare(context)
        self._start(kafka.program(context), lambda: kafka.probe(context))
        return kafka.admin_config(context)

    @cached_property
    def registry_context(self) -> Context:
        """The context of a stack that has a schema registry."""
        return replace(self.stack.context, registry=ensure_registry().path)

    @cached_property
    def registry(self) -> str:
        """A schema registry on that PostgreSQL, named by the platform files from then on. Returns the address
        of Confluent's API."""
        context = self.registry_context
        documents = roles.documents(self.stack.home, context.network, context.secrets, registry=True)
        roles.write(self.stack.home.platform, documents)
        self.postgres  # noqa: B018
        postgres.provision(context)
        registry.prepare(context)
        self._start(registry.program(context), lambda: registry.probe(context))
        return str(registry_section("reader", context.network, context.secrets)["url"])

    @cached_property
    def rest_catalog_context(self) -> Context:
        """The context of a stack that has a REST catalog."""
        return replace(self.stack.context, rest_catalog=ensure_rest_catalog().path)

    @cached_property
    def rest_catalog(self) -> str:
        """Iceberg's REST catalog on that PostgreSQL and that MinIO. Returns its address; the roles' tokens
        are `catalog_<role>` among the secrets."""
        context = self.rest_catalog_context
        self.postgres  # noqa: B018
        self.minio  # noqa: B018
        postgres.provision(context)
        minio.provision(context, self.s3_users)
        rest_catalog.prepare(context)
        self._start(rest_catalog.program(context), lambda: rest_catalog.probe(context))
        return rest_catalog.url(context)

    def on_rest(self, role: str) -> Platform:
        """A role's platform file with that REST catalog; those that are written have PostgreSQL."""
        context, address = self.rest_catalog_context, self.rest_catalog
        made = roles.documents(self.stack.home, context.network, context.secrets, rest_catalog=True)[role]
        return platform.parse(dump(made), f"{role} on {address}")

    @cached_property
    def glue(self) -> str:
        """AWS Glue, beside that MinIO. Returns its address."""
        self.minio  # noqa: B018
        (port,) = free_ports(1, set(self.stack.ports.values()), free_range(os.environ))
        address = f"http://{HOST}:{port}"
        program = glue_server.program(self.stack.home.root / glue_server.NAME, port)
        self._start(program, lambda: glue_server.probe(address))
        return address

    @cached_property
    def glue_proxy(self) -> CatalogProxy:
        """A proxy before that Glue, which changes nothing unless a test says so."""
        return CatalogProxy(self.glue).__enter__()

    def on_glue(self, role: str) -> Platform:
        """A role's platform file with that Glue, through the proxy; its keys are those of S3."""
        address = self.glue_proxy.url
        made = roles.documents(self.stack.home, self.stack.context.network, self.stack.secrets)[role]
        made["lake"]["catalog"] = {"type": GLUE, "endpoint": address}
        return platform.parse(dump(made), f"{role} on {address}")

    @cached_property
    def signed(self) -> tuple[CatalogProxy, SignatureGate]:
        """That REST catalog behind AWS's check of signed requests: a key for each of its roles."""
        secrets, known = self.stack.secrets, (*roles.CATALOG_WRITERS, *roles.CATALOG_READERS)
        gate = SignatureGate({f"AKIA{role}": (f"of-{role}", secrets[f"catalog_{role}"]) for role in known})
        return CatalogProxy(self.rest_catalog, gate).__enter__(), gate

    def on_signed(self, role: str) -> Platform:
        """A role's platform file with that catalog, by keys that are none of S3."""
        own = {"access_key": f"AKIA{role}", "secret_key": f"of-{role}", "token": ""}
        signing = {"signing_name": SERVICE, "region": REGION}
        return through(self.signed[0].url, self.on_rest(role), **own, **signing)

    @cached_property
    def mysql(self) -> MysqlCatalog:
        """MariaDB with a catalog's database and the roles' users."""
        return MysqlCatalog()

    def on_mysql(self, role: str) -> Platform:
        """A role's platform file with that catalog."""
        found = self.stack.platform(role)
        return replace(found, lake=replace(found.lake, catalog=self.mysql.catalog(role)))

    def on(self, catalog: str, role: str) -> Platform:
        """A role's platform file with this kind of catalog."""
        if catalog == SQL:
            return self.stack.platform(role)
        kinds = {REST: self.on_rest, GLUE: self.on_glue, MYSQL: self.on_mysql, SIGNED: self.on_signed}
        return kinds[catalog](role)

    def make_topic(self, name: str, partitions: int) -> None:
        """A topic with the roles' rights on it; recreated if it is there. Ready when this returns."""
        admin = AdminClient({**self.kafka, "log_level": 0})
        kafka.provision(self.stack.context, [name])

        def partitions_now() -> int:
            found = admin.list_topics(timeout=10).topics.get(name)
            return len(found.partitions) if found else 0

        if partitions_now():
            admin.delete_topics([name])[name].result(20)
            wait_until(f"the end of topic {name}", lambda: partitions_now() == 0, 20, 0.05)
        # Records of tests may be years old: retention would delete them at its next check.
        topic = NewTopic(name, partitions, 1, config={"retention.ms": "-1"})
        admin.create_topics([topic])[name].result(20)
        wait_until(f"topic {name}", lambda: partitions_now() == partitions, 20, 0.05)

    def spark_kafka(self) -> dict[str, str]:
        """The options of Spark's Kafka source, as the superuser."""
        user, password = self.kafka["sasl.username"], self.kafka["sasl.password"]
        server = replace(self.stack.platform("consumer").kafka, username=user, password=password)
        return {f"kafka.{key}": value for key, value in java(server).items()}

    def send(self, topic: str, values: dict[int, list[bytes]]) -> None:
        """Records without keys: partition -> values."""
        producer = Producer({**self.kafka, "linger.ms": 5, "log_level": 0})
        for partition, bodies in values.items():
            for body in bodies:
                producer.produce(topic, body, partition=partition)
        assert producer.flush(30) == 0

    @cached_property
    def minio(self) -> Any:
        """MinIO with the buckets and the roles' users. Returns the root user's boto3 client."""
        context = self.stack.context
        minio.prepare(context)
        self._start(minio.program(context), lambda: minio.probe(context))
        minio.provision(context, self.s3_users)
        return minio.admin_s3(context)

    @property
    def s3_users(self) -> dict[str, tuple[str, str]]:
        """MinIO's logins of the roles."""
        return {role: (f"sluice-{role}", self.stack.secrets[f"minio_{role}"]) for role in ROLES}

    @property
    def minio_url(self) -> str:
        return minio.url(self.stack.context)

    @property
    def s3_secret(self) -> str:
        """The secret key of the users that :meth:`make_s3_user` makes."""
        return self.stack.secrets["minio_consumer"]

    def make_s3_user(self, name: str, bucket: str, actions: list[str]) -> None:
        """A user of MinIO that may list a bucket and do ``actions`` with its objects."""
        statements = [
            {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [f"arn:aws:s3:::{bucket}"]},
            {"Effect": "Allow", "Action": actions, "Resource": [f"arn:aws:s3:::{bucket}/*"]},
        ]
        admin = MinioAdmin(
            endpoint=self.minio_url.removeprefix("http://"),
            credentials=StaticProvider(minio.ROOT_USER, self.stack.secrets["minio_root"]),
            secure=False,
        )
        admin.policy_add(name, policy={"Version": "2012-10-17", "Statement": statements})
        admin.user_add(name, self.s3_secret)
        admin.policy_set(name, user=name)

    @cached_property
    def postgres(self) -> Callable[[], Any]:
        """PostgreSQL with the catalog's database and users. Returns what opens a superuser's connection."""
        context = self.stack.context
        postgres.prepare(context, print)
        # Each query's session has a catalog of its own, which Spark does not close: two connections of each
        # of the hundreds of queries that the tests run in one process.
        settings = {"max_connections": "500", **self._postgres_settings}
        program = postgres.program(context, postgres.installation(context), **settings)
        self._start(program, lambda: postgres.probe(context))
        postgres.provision(context)
        return lambda: postgres.connect(context)

    def _start(self, program: Program, probe: Callable[[], str]) -> None:
        self._started[program.name] = program, probe
        log = self.stack.home.logs / f"{program.name}.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                list(program.command),
                env=dict(program.environment),
                cwd=program.directory,
                stdout=out,
                stderr=out,
            )
        # Each as it likes to be asked to stop: PostgreSQL's TERM would wait for its clients.
        self._running[program.name] = (process, signal.Signals[f"SIG{program.options['stopsignal']}"])
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                probe()
            except Exception as error:
                if process.poll() is not None or time.monotonic() > deadline:
                    end = log.read_text()[-2000:]
                    raise AssertionError(f"{program.name} did not start ({error}):\n{end}") from error
                time.sleep(0.2)
            else:
                return

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a service that runs; after SIGSTOP it answers nothing any more."""
        process = self._running[name][0]
        process.send_signal(number)
        if number is signal.SIGSTOP:
            # Its threads stop when they are scheduled next; until then one may answer.
            wait_until(f"{name} to be stopped", lambda: _states(process.pid) == {"T"}, 30, 0.01)

    def crash(self, name: str, seconds: float) -> None:
        """Kill a service that runs; after so many seconds it is back, with its data."""
        process, _ = self._running[name]
        process.kill()
        process.wait()
        time.sleep(seconds)
        self._start(*self._started[name])

    def stop(self) -> None:
        """End all of them, and remove their data."""
        if "glue_proxy" in self.__dict__:
            self.glue_proxy.__exit__()
        if "signed" in self.__dict__:
            self.signed[0].__exit__()
        for process, number in reversed(self._running.values()):
            process.send_signal(number)
        for process, _ in self._running.values():
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if "mysql" in self.__dict__:
            self.mysql.stop()
        postgres.remove(self.stack.home)


def _states(pid: int) -> set[str]:
    """The states of a process's threads, as ``man 5 proc_pid_stat`` names them."""
    stats = [task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/stat")]
    # After the name, which may hold anything but ends with the last parenthesis.
    return {stat.rpartition(")")[2].split()[0] for stat in stats}
