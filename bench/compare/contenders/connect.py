"""The Iceberg Kafka Connect sink: a standalone worker, JSON, a table in a JDBC catalog of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, IcebergType, IntegerType, NestedField, StringType, TimestampType

from bench.compare.contenders.jobs import check, check_runs, total_records
from bench.compare.figures import Figures
from bench.compare.meter import S3Calls
from bench.compare.records import json_columns
from bench.compare.stack import LIMIT_SECONDS, BenchStack, phase
from local.runtime.ports import HOST
from local.runtime.roles import WAREHOUSE
from local.services import minio, postgres
from local.setup.jar_sets import ensure_jars
from local.stack.stack import wait_until
from sluice.clients.kafka.login.properties import java
from sluice.config.reading.files import write_private

COMMIT_SECONDS = 5
TASKS = 2
HEAP = "-Xmx1g"
_TYPES: Mapping[str, IcebergType] = {
    "int": IntegerType(),
    "double": DoubleType(),
    "string": StringType(),
    "timestamp_ntz": TimestampType(),
}
_LOG4J = """\
status = warn
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSSX}{UTC} %p %c{1}: %m%n%ex
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
"""
_FAILED = re.compile(r"unrecoverable exception|ERROR Stopping|Failed to start")
_STARTED = re.compile(r"^(\S+) INFO \S+: .*Sink task finished initialization and start", re.M)


class Connect:
    """A worker with one sink connector, which writes table ``bench.<name>``."""

    def __init__(self, bench: BenchStack, name: str) -> None:
        self.bench, self.name = bench, name
        self.folder = f"files/{name}/"
        self.control_topic = f"control-{name}"
        self.table = f"bench.{name}"
        with postgres.cursor(bench.stack.context) as current:
            current.execute(f'create database "{name}"')
        # Kept: PostgreSQL starts a process for each, and it is asked ten times a second.
        self._connection = postgres.connect(bench.stack.context, name)
        self._connection.autocommit = True
        self.catalog = self._catalog()
        self.catalog.create_namespace("bench")
        self.catalog.create_table(self.table, schema())
        bench.make_topic(self.control_topic)

    def consume(self, topic: str, rows: int) -> Figures:
        """From the start of its tasks until all rows are in the table's current snapshot."""
        jars, calls = ensure_jars("connect"), S3Calls(self.bench.stack)
        looks = 0
        location, published = self._location(), 0

        def is_done() -> bool:
            nonlocal location, looks, published
            now = self._location()
            if now != location:
                location, looks = now, looks + 1
                published = self.rows()
            if failed := _FAILED.search(log.read_text(errors="replace")):
                raise RuntimeError(
                    f"the worker failed:\n{log.read_text(errors='replace')[failed.start() :][:4000]}"
                )
            check_runs(process, log)
            return published >= rows

        with self.bench.started(self._command(jars, topic), self.name) as (process, meter, log):
            wait_until(f"{rows} rows in {self.table}", is_done, LIMIT_SECONDS, 0.1)
            ended, looks = self._last_commit(), looks + 1
        found, look = calls.figures(), S3Calls(self.bench.stack)
        check(f"rows of {self.table}", self.rows(), rows)
        ours = look.figures()
        found |= {name: value - ours.get(name, 0.0) * looks for name, value in found.items()}
        text = log.read_text(errors="replace")
        began = min(datetime.fromisoformat(at).timestamp() for at in _STARTED.findall(text))
        return (
            phase(meter, rows, began, ended)
            | found
            | {"start_seconds": round(began - meter.samples["job"][0][0], 2)}
            | self.bench.stored(self.folder)
        )

    def rows(self) -> int:
        return total_records(self.catalog.load_table(self.table))

    def _last_commit(self) -> float:
        head = self.catalog.load_table(self.table).current_snapshot()
        return head.timestamp_ms / 1000 if head else 0.0

    def _location(self) -> str:
        # The pointer costs no S3 call.
        with self._connection.cursor() as current:
            current.execute("select metadata_location from iceberg_tables")
            row = current.fetchone()
        return str(row[0]) if row else ""

    def _catalog(self) -> Catalog:
        context = self.bench.stack.context
        login = f"{postgres.SUPERUSER}:{context.secrets['postgres_admin']}"
        return load_catalog(
            self.name,
            **{
                "type": "sql",
                "uri": f"postgresql+psycopg2://{login}@{HOST}:{context.ports['postgres']}/{self.name}",
                "warehouse": f"s3://{WAREHOUSE}/{self.folder.rstrip('/')}",
                "s3.endpoint": minio.url(context),
                "s3.region": "us-east-1",
                "s3.access-key-id": minio.ROOT_USER,
                "s3.secret-access-key": context.secrets["minio_root"],
            },
        )

    def _command(self, jars: Path, topic: str) -> list[str | Path]:
        folder = self.bench.folder / self.name
        worker, sink = folder / "worker.properties", folder / "sink.properties"
        write_private(worker, properties(self._worker(folder)))
        write_private(sink, properties(self._sink(topic)))
        write_private(folder / "log4j2.properties", _LOG4J)
        java = self.bench.stack.context.java
        return [
            *(java, HEAP, "-XX:+UseG1GC", f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}"),
            *("-cp", f"{jars}/*", "org.apache.kafka.connect.cli.ConnectStandalone", worker, sink),
        ]

    def _worker(self, folder: Path) -> dict[str, str]:
        login = java(self.bench.superuser())
        clients = ("", "producer.", "consumer.", "admin.")
        return {
            **{f"{client}{key}": value for client in clients for key, value in login.items()},
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            "offset.storage.file.filename": str(folder / "offsets"),
            # Port 0: any that is free.
            "listeners": f"http://{HOST}:0",
            # The sink hears of a commit only after a poll, which ends with new records or after this time.
            "offset.flush.interval.ms": "1000",
            "consumer.max.poll.records": "20000",
            "consumer.max.partition.fetch.bytes": str(8 * 1024 * 1024),
        }

    def _sink(self, topic: str) -> dict[str, str]:
        context = self.bench.stack.context
        catalog = {
            "type": "jdbc",
            "uri": f"jdbc:postgresql://{HOST}:{context.ports['postgres']}/{self.name}",
            "jdbc.user": postgres.SUPERUSER,
            "jdbc.password": context.secrets["postgres_admin"],
            "jdbc.schema-version": "V1",
            "warehouse": f"s3://{WAREHOUSE}/{self.folder.rstrip('/')}",
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "client.region": "us-east-1",
            "s3.endpoint": minio.url(context),
            "s3.access-key-id": minio.ROOT_USER,
            "s3.secret-access-key": context.secrets["minio_root"],
            "s3.path-style-access": "true",
        }
        return {
            "name": self.name,
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "tasks.max": str(TASKS),
            "topics": topic,
            "iceberg.catalog": self.name,
            "iceberg.tables": self.table,
            "iceberg.control.topic": self.control_topic,
            "iceberg.control.commit.interval-ms": str(COMMIT_SECONDS * 1000),
            **{f"iceberg.kafka.{key}": value for key, value in java(self.bench.superuser()).items()},
            **{f"iceberg.catalog.{key}": value for key, value in catalog.items()},
        }


def schema() -> Schema:
    """The columns of the JSON records, as in Sluice's table."""
    columns = enumerate(json_columns().items(), start=1)
    return Schema(*(NestedField(n, name, _TYPES[kind], required=False) for n, (name, kind) in columns))


def settings() -> dict[str, object]:
    return {"commit_interval_seconds": COMMIT_SECONDS, "tasks.max": TASKS, "heap": HEAP}


def properties(values: Mapping[str, str]) -> str:
    """As Java's properties file."""
    return "".join(f"{key}={value}\n" for key, value in values.items())
