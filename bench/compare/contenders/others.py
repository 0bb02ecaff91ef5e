"""A topic that others fill, and who consumes it: Sluice, and the plain way into a table of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from bench.compare import orders
from bench.compare.contenders import plain
from bench.compare.contenders.jobs import Plain, Sluice, check, total_records
from bench.compare.figures import PLAIN, SLUICE, Figures
from bench.compare.stack import BenchStack
from local.runtime.ports import HOST
from local.runtime.roles import WAREHOUSE
from local.services import minio, postgres

# The plain way's catalog; not `lake`, whose settings Sluice's jobs have.
CATALOG = "shop"


def fill(bench: BenchStack, topic: str, rows: int, is_json: bool) -> str:
    """Create the topic, and send ``rows`` orders: as JSON, or as Avro in Confluent's wire format. Give it."""
    bench.make_topic(topic)
    # Confluent's client of the registry heeds a proxy of the environment, which reaches no loopback.
    os.environ.update({name: bench.environment[name] for name in ("NO_PROXY", "no_proxy")})
    encode = orders.as_json if is_json else orders.as_avro(registry(bench, "producer"), topic)
    orders.send(bench.stack.kafka("admin"), topic, rows, encode)
    check(f"records of {topic}", bench.records(topic), rows)
    return topic


def registry(bench: BenchStack, role: str) -> dict[str, Any]:
    """The settings of Confluent's client, with a role's rights."""
    found = bench.stack.platform(role).need_registry()
    return {"url": found.url, "basic.auth.user.info": f"{found.username}:{found.password}"}


class PlainTable(Plain):
    """Table ``shop.orders`` of a catalog of its own, in PostgreSQL, which Spark creates."""

    def __init__(self, bench: BenchStack, name: str, max_offsets: int, is_json: bool) -> None:
        super().__init__(bench, name, False, max_offsets)
        self.is_json, self.database = is_json, name.replace("-", "_")
        with postgres.cursor(bench.stack.context) as current:
            current.execute(f'create database "{self.database}"')

    def consumer(self, topic: str) -> list[str | Path]:
        fields = {**orders.FLAT, **orders.NESTED}
        settings = self.settings(
            topic,
            checkpoint=f"s3a://{WAREHOUSE}/{self.folder}checkpoint",
            max_offsets_per_trigger=str(self.max_offsets),
            registry={} if self.is_json else registry(self.bench, "reader"),
            columns=", ".join(f"{name} {kind}" for name, kind in fields.items()),
            catalog=self._spark_catalog(),
            table=f"{CATALOG}.bench.orders",
        )
        return [sys.executable, plain.__file__, "others", settings]

    def consume(self, topic: str, rows: int) -> Figures:
        """As that of the other plain way."""
        figures = self.measured(self.consumer(topic), rows) | self.bench.stored(self.folder)
        check(f"rows of {self.name}", total_records(self.table()), rows)
        return figures

    def table(self) -> Table:
        context = self.bench.stack.context
        login = f"{postgres.SUPERUSER}:{context.secrets['postgres_admin']}"
        catalog = load_catalog(
            CATALOG,
            **{
                "type": "sql",
                "uri": f"postgresql+psycopg2://{login}@{HOST}:{context.ports['postgres']}/{self.database}",
                "s3.endpoint": minio.url(context),
                "s3.region": "us-east-1",
                "s3.access-key-id": minio.ROOT_USER,
                "s3.secret-access-key": context.secrets["minio_root"],
            },
        )
        return catalog.load_table("bench.orders")

    def _spark_catalog(self) -> dict[str, str]:
        context = self.bench.stack.context
        options = {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "jdbc",
            ".uri": f"jdbc:postgresql://{HOST}:{context.ports['postgres']}/{self.database}",
            ".jdbc.user": postgres.SUPERUSER,
            ".jdbc.password": context.secrets["postgres_admin"],
            ".jdbc.schema-version": "V1",
            ".warehouse": f"s3://{WAREHOUSE}/{self.folder.rstrip('/')}",
            ".io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            ".client.region": "us-east-1",
            ".s3.endpoint": minio.url(context),
            ".s3.access-key-id": minio.ROOT_USER,
            ".s3.secret-access-key": context.secrets["minio_root"],
            ".s3.path-style-access": "true",
        }
        return {f"spark.sql.catalog.{CATALOG}{key}": value for key, value in options.items()}


def consume(
    bench: BenchStack, name: str, topic: str, rows: int, is_json: bool, is_plain_first: bool
) -> dict[str, Figures]:
    """Both consume the topic, in turn: the second one finds it in the page cache. Raises RuntimeError unless
    their tables have the same rows."""
    sluice, theirs = Sluice(bench, name), PlainTable(bench, f"plain-{name}", rows, is_json)
    found = {PLAIN: theirs.consume(topic, rows)} if is_plain_first else {}
    found[SLUICE] = sluice.consume(rows)
    if not is_plain_first:
        found[PLAIN] = theirs.consume(topic, rows)
    if different := orders.different_columns(sluice.stream.table(), theirs.table()):
        raise RuntimeError(f"{sluice.spec.table}: {', '.join(different)} differ from {theirs.name}")
    return found
