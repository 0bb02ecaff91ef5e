"""A stream's declaration, ``stream.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from sluice.config import folders
from sluice.config import schema as table_schema
from sluice.config.reading.files import declared_text
from sluice.config.reading.toml import ConfigError
from sluice.config.schema import Partition, parse_ddl
from sluice.config.sections import query as query_spec
from sluice.config.sections.backfill import Backfill, Intervals
from sluice.config.sections.cluster import Cluster
from sluice.config.sections.consumer import Budget, Consumer
from sluice.config.sections.csv import Csv
from sluice.config.sections.feed import Feed
from sluice.config.sections.generator import Generator
from sluice.config.sections.maintenance import Maintenance
from sluice.config.sections.query import Query
from sluice.config.sections.records.declaration import Format, Records
from sluice.config.sections.supervision import Supervision
from sluice.config.sections.topic import Topic
from sluice.config.tables import lake_tables, written_tables

# The component that every stream has.
CONSUMER = "consumer"
COMPONENTS = (CONSUMER, "producer", "queries")
# The task of a load that sends rows.
PRODUCE = "produce"
# For `spark-submit`; elsewhere it is `python -m spark_jobs`.
ENTRY_POINT = folders.STREAMS / "__main__.py"
# In a feed's user_agent it stands for a contact address.
PLACEHOLDER_CONTACT = "@example."


class SourceType(StrEnum):
    """A load's source: the table of stream.toml with this name; ``csv`` without any. ``topic``: records of
    others, in a topic that is not managed."""

    CSV = "csv"
    FEED = "feed"
    GENERATOR = "generator"
    # No section of its own: `[topic]` with ``managed = false``.
    TOPIC = "topic"


@dataclass(frozen=True)
class Component:
    """A long-running process of a stream. ``program``: its name at the runtime; ``arguments``: of Python."""

    name: str
    program: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class StreamSpec:
    """All that a stream declares; :attr:`is_ddl` says what ``schema`` is."""

    name: Annotated[
        str,
        "the folder's name: at most 63 lower-case letters, digits and `_`, a letter first; not `common` or "
        "`sluice`",
    ]
    schema: Annotated[
        str,
        "the schema's file in the folder: `schema.avsc`, or `schema.ddl`, whose columns may all be null; "
        "`schema.proto` with `[records]` of `protobuf`; none with `[records]` of `text` or `bytes`",
    ] = field(default="", kw_only=True)
    table: Annotated[
        str,
        "`namespace.table`, each part as a stream's name; the quarantine is `<table>_quarantine`",
    ]
    topic: Topic
    budget: Budget
    consumer: Consumer = field(default_factory=Consumer)
    title: Annotated[str, "the stream's display name in Airflow; default: its name"] = ""
    decode: Annotated[
        str,
        "`module:function` of the folder: from the topic's records to rows; only with `schema.ddl`, whose "
        "records are JSON objects without it",
    ] = ""
    partition_by: Annotated[
        list[str],
        "the table's partitioning: a column, or `truncate(<width>, column)`: a text's first characters, a "
        "number rounded down; cannot be changed later",
    ] = field(default_factory=list)
    csv: Csv = field(default_factory=Csv)
    generator: Generator | None = None
    feed: Feed | None = None
    records: Records | None = None
    queries: Annotated[
        dict[str, Query],
        "one section `[queries.<name>]` per continuous query: [below](#queries)",
    ] = field(default_factory=dict)
    supervision: Supervision = field(default_factory=Supervision)
    maintenance: Maintenance = field(default_factory=Maintenance)
    backfill: Backfill | None = None
    intervals: Intervals | None = None
    cluster: Cluster = field(default_factory=Cluster)

    @property
    def label(self) -> str:
        return self.title or self.name

    @property
    def folder(self) -> Path:
        return (folders.of_stream(self.name) or [folders.STREAMS / self.name])[0]

    @property
    def schema_file(self) -> Path:
        return self.folder / self.schema

    @property
    def source(self) -> SourceType:
        if self.feed:
            return SourceType.FEED
        if not self.topic.managed:
            return SourceType.TOPIC
        return SourceType.GENERATOR if self.generator else SourceType.CSV

    @property
    def source_prefix(self) -> str:
        """The prefix of the keys that a load or a backfill may read."""
        return self.csv.prefix.replace("{name}", self.name)

    def feed_url(self, feeds: Mapping[str, str]) -> str:
        """The feed's URL of ``feeds`` (of a platform file), else its own.

        Raises ConfigError for a stream without a feed, and for requests to the feed's own servers without a
        contact address, which they may block.
        """
        if self.feed is None:
            raise ConfigError(f"stream {self.name!r} has no feed. Fix: add [feed] to its stream.toml")
        if self.name in feeds:
            return feeds[self.name]
        if PLACEHOLDER_CONTACT in self.feed.user_agent:
            raise ConfigError(
                f"feed user_agent {self.feed.user_agent!r} has no contact address for {self.feed.url}. "
                f"Fix: put your own into it, in the stream.toml of {self.name}"
            )
        return self.feed.url

    @property
    def is_avro(self) -> bool:
        """Whether the topic's records are Avro: of an Avro schema, or of CSV files with columns in DDL."""
        if self.records:
            return self.records.format == Format.AVRO
        return self.schema.endswith(".avsc") or (self.source is SourceType.CSV and not self.decode)

    @property
    def planning_task(self) -> str:
        """The task of a load that plans it: the same that sends its rows, if any are sent."""
        return "plan" if self.source is SourceType.TOPIC else PRODUCE

    @property
    def uses_registry(self) -> bool:
        """Whether the topic's records name schemas of a registry."""
        return self.topic.registry or bool(self.records and self.records.registry)

    @property
    def subjects(self) -> tuple[str, ...]:
        """The registry's, of the topic's values: the declared ones, or that of serializers' default."""
        return tuple(self.records.subjects if self.records else ()) or (f"{self.topic.name}-value",)

    @property
    def follows(self) -> bool:
        """Whether the table's columns follow the schemas of its records."""
        if self.records:
            return self.records.follows
        return self.source is SourceType.CSV and self.csv.adds_columns

    @property
    def follows_fingerprints(self) -> bool:
        """As :attr:`follows`, of records that name their schemas by fingerprints."""
        return self.follows and not self.uses_registry

    @property
    def is_ddl(self) -> bool:
        """Whether ``schema`` lists the table's columns in Spark's DDL."""
        return not self.schema.endswith((".avsc", ".proto"))

    @property
    def is_protobuf(self) -> bool:
        """Whether ``schema`` is a Protobuf schema, whose message the topic's records are."""
        return self.schema.endswith(".proto")

    @property
    def ddl_columns(self) -> dict[str, str]:
        """Column of a value -> Spark's type in DDL, of a stream without an Avro schema. Raises
        ConfigError."""
        if self.records and not self.records.has_schema:
            return self.records.value_columns
        where = f"{self.name}/{self.schema}"
        return parse_ddl(declared_text(self.schema_file), where, is_of_others=self.records is not None)

    def result_types(self, query: str) -> dict[str, str]:
        """Column of a query's result -> type in Spark's DDL. Raises ConfigError for an unknown column."""
        columns = self.ddl_columns | (self.records.query_columns if self.records else {})
        return query_spec.result_types(query, self.queries[query], columns, f"{self.name}/stream.toml")

    @property
    def partitions(self) -> list[Partition]:
        return table_schema.parse_all(self.partition_by, self.name)

    @property
    def quarantine_table(self) -> str:
        return f"{self.table}_quarantine"

    @property
    def queries_table(self) -> str:
        """Committed progress, late rows and number of early rows of the stream's queries."""
        return f"queries.{self.name}"

    @property
    def program(self) -> str:
        return component(self.name, CONSUMER).program

    @property
    def components(self) -> dict[str, Component]:
        """The stream's long-running processes: ``consumer``, ``producer`` of a feed, ``queries`` if declared.

        A producer without a feed runs once per load.
        """
        declared = {CONSUMER: True, "producer": self.feed, "queries": self.queries}
        return {name: component(self.name, name) for name, section in declared.items() if section}

    def tables_of(self, component: str) -> list[str]:
        """The Iceberg tables to which a component commits as long as it runs."""
        of_stream = written_tables(self)
        if component == CONSUMER:
            return of_stream
        return [name for name in lake_tables(self) if name not in of_stream] if component == "queries" else []

    def component(self, name: str) -> Component:
        if name not in self.components:
            raise ConfigError(
                f"stream {self.name!r} has no component {name!r}; it has {', '.join(self.components)}. Fix: "
                "name one of these"
            )
        return self.components[name]


def component(stream: str, name: str) -> Component:
    """One of COMPONENTS, whether the stream declares it or not."""
    program = f"stream-{stream}" if name == CONSUMER else f"stream-{stream}-{name}"
    return Component(name, program, ("-m", "spark_jobs", name, stream))
