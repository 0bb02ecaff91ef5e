"""A stream's declaration, ``stream.toml``."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from sluice.model.spec import backfill as backfill_spec
from sluice.model.spec import cluster as cluster_spec
from sluice.model.spec import overrides
from sluice.model.spec import query as query_spec
from sluice.model.spec import schema as table_schema
from sluice.model.spec.backfill import Backfill
from sluice.model.spec.cluster import Cluster
from sluice.model.spec.config import IDENTIFIER, ConfigError, build, toml
from sluice.model.spec.generator import Generator
from sluice.model.spec.maintenance import Maintenance
from sluice.model.spec.query import Query
from sluice.model.spec.schema import Partition, parse_ddl

log = logging.getLogger(__name__)

# plugins/sluice/model/spec/stream.py -> the repository, and in an image the same layout.
STREAMS = Path(__file__).resolve().parents[4] / "spark_jobs"
# The component that every stream has.
CONSUMER = "consumer"
# Further folders with streams in them, separated as in PATH.
VARIABLE = "SLUICE_STREAMS"
# For `spark-submit`; elsewhere it is `python -m spark_jobs`.
ENTRY_POINT = STREAMS / "__main__.py"
# A function in a module of a stream's folder.
FUNCTION = r"[a-z_][a-z0-9_]*:[a-z_][a-z0-9_]*"
# Folders in the source bucket, none of them "." or "..".
PREFIX = r"((?!\.{1,2}/)[A-Za-z0-9_.=-]+/)*"
# Replication factor: the broker's default.
BROKER_DEFAULT = -1
# By the broker's clock: a record's timestamp is its arrival, whatever its sender's clock says.
TIMESTAMP_TYPE, LOG_APPEND_TIME = "message.timestamp.type", "LogAppendTime"
# In a feed's user_agent it stands for a contact address.
PLACEHOLDER_CONTACT = "@example."


class SourceType(StrEnum):
    """A load's source: the table of stream.toml with this name; ``csv`` without any."""

    CSV = "csv"
    FEED = "feed"
    GENERATOR = "generator"


@dataclass(frozen=True)
class Topic:
    """``config``: other settings than the brokers' defaults, which also give a ``replication_factor`` of
    BROKER_DEFAULT."""

    name: str
    partitions: int
    replication_factor: int = BROKER_DEFAULT
    config: dict[str, str] = field(default_factory=dict)


# Progress of every stream's queries; provisioned by each load. The broker deletes whole segments only.
PROGRESS_TOPIC = Topic(
    "sluice-progress", 1, BROKER_DEFAULT, {"retention.ms": "604800000", "segment.ms": "86400000"}
)


@dataclass(frozen=True)
class Consumer:
    """Seconds between micro-batches, and their maximum number of records."""

    trigger_seconds: int = 5
    max_offsets_per_trigger: int = 3_000_000


@dataclass(frozen=True)
class Budget:
    """Cost of one micro-batch in the bucket. A load's audit enforces versions and delete markers. S3 calls
    (0: not declared) are documentation, which only tests over MinIO's metrics enforce."""

    versions_per_batch: int
    s3_calls_per_batch: int = 0
    delete_markers: int = 0


@dataclass(frozen=True)
class Supervision:
    """Limits of supervision; :class:`sluice.model.health.status.Health` says what each decides.

    ``retention_margin_seconds``: unread records are at risk if retention deletes them within it. After
    ``max_restarts`` within ``restart_window_seconds`` a person decides. ``shutdown_grace_seconds``: for the
    batch in flight. ``max_rejected_percent``: of the records of the last batches; 100 sets no limit.
    """

    interval_seconds: int = 120
    stall_timeout_seconds: int = 60
    startup_timeout_seconds: int = 90
    lag_window_seconds: int = 300
    retention_margin_seconds: int = 21_600
    max_restarts: int = 3
    restart_window_seconds: int = 1_800
    shutdown_grace_seconds: int = 20
    max_rejected_percent: int = 5

    @property
    def missed_seconds(self) -> int:
        """From the end of one run to the next; more than observing, acting and verifying take."""
        return 3 * self.interval_seconds


@dataclass(frozen=True)
class Csv:
    """``time_formats``: Spark's patterns, tried in this order. ``extra_columns``: the schema's map of strings
    for columns that it does not name; without it such a column is an error. ``prefix``: of the keys of the
    stream's objects in the source bucket, with the stream's ``{name}``; "": the whole bucket."""

    time_formats: list[str] = field(default_factory=lambda: ["yyyy-MM-dd HH:mm:ss"])
    extra_columns: str = ""
    prefix: str = "{name}/"


@dataclass(frozen=True)
class Feed:
    """A feed of Server-Sent Events that a long-running producer reads.

    ``url``: unless the platform file has another. ``user_agent``: with a contact address. ``event_id``: the
    table's column that is unique per event. ``event``, ``rewind``: functions that read an event and return
    the position to resume at (``spark_jobs.common.feed.event``). ``read_timeout_seconds``: without a byte.
    ``max_in_flight``: unacknowledged events. ``lock_seconds``: a starting producer waits for its predecessor.
    """

    url: str
    user_agent: str
    event_id: str
    event: str
    rewind: str = ""
    read_timeout_seconds: int = 30
    max_in_flight: int = 5_000
    lock_seconds: int = 30


@dataclass(frozen=True)
class Component:
    """A long-running process of a stream. ``program``: its name at the runtime; ``arguments``: of Python."""

    name: str
    program: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class StreamSpec:
    """``title``: in Airflow, by default its name. ``decode``: function from records to rows, unless Avro."""

    name: str
    schema: str
    table: str
    topic: Topic
    budget: Budget
    consumer: Consumer = field(default_factory=Consumer)
    title: str = ""
    decode: str = ""
    partition_by: list[str] = field(default_factory=list)
    csv: Csv = field(default_factory=Csv)
    generator: Generator | None = None
    feed: Feed | None = None
    queries: dict[str, Query] = field(default_factory=dict)
    supervision: Supervision = field(default_factory=Supervision)
    maintenance: Maintenance = field(default_factory=Maintenance)
    backfill: Backfill | None = None
    cluster: Cluster = field(default_factory=Cluster)

    @property
    def label(self) -> str:
        return self.title or self.name

    @property
    def folder(self) -> Path:
        return folders().get(self.name, STREAMS / self.name)

    @property
    def schema_file(self) -> Path:
        return self.folder / self.schema

    @property
    def source(self) -> SourceType:
        if self.feed:
            return SourceType.FEED
        return SourceType.GENERATOR if self.generator else SourceType.CSV

    @property
    def source_prefix(self) -> str:
        """Of the keys that a load or a backfill may read."""
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
        """Whether ``schema`` is an Avro schema; else it lists the table's columns in Spark's DDL."""
        return self.schema.endswith(".avsc")

    def result_types(self, query: str) -> dict[str, str]:
        """Column of a query's result -> type in Spark's DDL. Raises ConfigError for an unknown column."""
        if self.is_avro:
            raise ConfigError(f"stream {self.name!r}: queries need a schema in DDL, and it has {self.schema}")
        columns = parse_ddl(self.schema_file.read_text(), f"{self.name}/{self.schema}")
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
        return f"stream-{self.name}"

    @property
    def components(self) -> dict[str, Component]:
        """The stream's long-running processes: ``consumer``, ``producer`` of a feed, ``queries`` if declared.

        A producer without a feed runs once per load.
        """
        declared = (("producer", self.feed), ("queries", self.queries))
        programs = {"consumer": self.program} | {
            name: f"{self.program}-{name}" for name, section in declared if section
        }
        return {
            name: Component(name, program, ("-m", "spark_jobs", name, self.name))
            for name, program in programs.items()
        }

    def component(self, name: str) -> Component:
        if name not in self.components:
            raise ConfigError(
                f"stream {self.name!r} has no component {name!r}; it has {', '.join(self.components)}"
            )
        return self.components[name]


def parse(text: str, where: str, overriding: Mapping[str, Any] | None = None, of: str = "") -> StreamSpec:
    """``overriding``: other values, of the file ``of``. Raises ConfigError naming ``where`` and ``of``."""
    declared = toml(text, where)
    if overriding:
        declared, where = overrides.merge(declared, overriding), f"{where} with {of}"
    spec = build(StreamSpec, declared, where)
    if not IDENTIFIER.fullmatch(spec.name):
        raise ConfigError(f"{where}: name {spec.name!r}: use lower-case letters, digits and _")
    if not spec.schema.endswith((".avsc", ".ddl")):
        raise ConfigError(f"{where}: schema {spec.schema!r}: name an Avro schema (.avsc) or columns (.ddl)")
    _check_source(spec, declared, where)
    if not re.fullmatch(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*", spec.table):
        raise ConfigError(f"{where}: table {spec.table!r}: write it as namespace.table, in lower case")
    table_schema.parse_all(spec.partition_by, where)
    if spec.feed and not IDENTIFIER.fullmatch(spec.feed.event_id):
        raise ConfigError(f"{where}: column {spec.feed.event_id!r}: use lower-case letters, digits and _")
    if spec.feed and not spec.feed.url.startswith(("http://", "https://")):
        raise ConfigError(f"{where}: feed url {spec.feed.url!r}: write it with http:// or https://")
    feed = asdict(spec.feed) if spec.feed else {}
    for name, value in (
        ("topic partitions", spec.topic.partitions),
        *(
            [("topic replication_factor", spec.topic.replication_factor)]
            if spec.topic.replication_factor != BROKER_DEFAULT
            else []
        ),
        ("consumer trigger_seconds", spec.consumer.trigger_seconds),
        ("consumer max_offsets_per_trigger", spec.consumer.max_offsets_per_trigger),
        *((f"supervision {name}", value) for name, value in asdict(spec.supervision).items()),
        *((f"maintenance {name}", value) for name, value in asdict(spec.maintenance).items()),
        *((f"feed {name}", value) for name, value in feed.items() if isinstance(value, int)),
    ):
        if value < 1:
            raise ConfigError(f"{where}: {name} is {value}; it must be at least 1")
    if (percent := spec.supervision.max_rejected_percent) > 100:
        raise ConfigError(f"{where}: supervision max_rejected_percent is {percent}; it must be at most 100")
    for name, query in spec.queries.items():
        query_spec.check(name, query, where)
        timestamps = spec.topic.config.get(TIMESTAMP_TYPE)
        if query.window and timestamps != LOG_APPEND_TIME:
            raise ConfigError(
                f"{where}: query {name} has windows, and topic config {TIMESTAMP_TYPE} is {timestamps!r}: a "
                "sender whose clock is ahead would move the watermark. Fix: write "
                f'"{TIMESTAMP_TYPE}" = "{LOG_APPEND_TIME}" below [topic.config]'
            )
    query_spec.check_places(spec.queries, where)
    cluster_spec.check(spec.cluster, where)
    if spec.backfill:
        if spec.source is not SourceType.CSV:
            raise ConfigError(
                f"{where}: [backfill] with [{spec.source}]: only files have intervals. Fix: remove [backfill]"
            )
        backfill_spec.check(spec.backfill, spec.source_prefix, where)
    sinks = [sink for query in spec.queries.values() for sink in query.sinks]
    if PROGRESS_TOPIC.name in (spec.topic.name, *(sink.topic for sink in sinks)):
        raise ConfigError(
            f"{where}: topic {PROGRESS_TOPIC.name!r} is reserved for progress. Fix: use another"
        )
    return spec


def _check_source(spec: StreamSpec, declared: Mapping[str, Any], where: str) -> None:
    sources = [source for source in SourceType if source in declared]
    if len(sources) > 1:
        raise ConfigError(
            f"{where}: [{sources[0]}] and [{sources[1]}]: a stream has one source. Fix: keep one"
        )
    if spec.is_avro == bool(spec.decode):
        fix = "leave decode out" if spec.is_avro else 'add decode = "transforms:<function>"'
        raise ConfigError(f"{where}: decode {spec.decode!r} with schema {spec.schema!r}. Fix: {fix}")
    if spec.source is SourceType.CSV and not spec.is_avro:
        raise ConfigError(
            f"{where}: schema {spec.schema!r}: rows of CSV objects are sent as Avro. Fix: name an .avsc "
            "file, or add [feed] or [generator]"
        )
    if not re.fullmatch(PREFIX, spec.source_prefix):
        raise ConfigError(
            f"{where}: [csv] prefix {spec.source_prefix!r}: write folders of letters, digits and _ . = - "
            'that end with "/", or "" for the whole bucket'
        )
    references = {"decode": spec.decode}
    if spec.feed:
        references |= {"feed event": spec.feed.event, "feed rewind": spec.feed.rewind}
    if spec.generator:
        references["generator rows"] = spec.generator.rows
        for name, schema in spec.generator.schemas.items():
            missing = {"type", "default", "title", "description"} - set(schema)
            if missing:
                raise ConfigError(
                    f"{where}: generator params {name}: key {min(missing)!r} is missing. Fix: add it"
                )
    for key, value in references.items():
        if value and not re.fullmatch(FUNCTION, value):
            raise ConfigError(f"{where}: {key} {value!r}: write it as module:function")


def folders(environ: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """Stream -> its folder, below spark_jobs/ or a folder of SLUICE_STREAMS.

    Raises ConfigError for a missing folder, and for a stream in two of them.
    """
    found: dict[str, Path] = {}
    for root in (STREAMS, *map(Path, filter(None, environ.get(VARIABLE, "").split(os.pathsep)))):
        if not root.is_dir():
            raise ConfigError(
                f"{VARIABLE}: {root} is no folder. Fix: correct the path, or set the variable empty"
            )
        for path in (file.parent for file in root.glob("*/stream.toml")):
            if not IDENTIFIER.fullmatch(path.name):
                # A copy ("rides (2)") or an editor's own folder: no stream can have such a name.
                log.warning("%s is no stream: its folder's name must match %s", path, IDENTIFIER.pattern)
                continue
            if path.name in found:
                raise ConfigError(
                    f"stream {path.name!r} is in {found[path.name]} and in {path}. Fix: rename one"
                )
            found[path.name] = path
    return found


def names(environ: Mapping[str, str] = os.environ) -> list[str]:
    return sorted(folders(environ))


def load_all() -> list[StreamSpec]:
    """All streams. Raises ConfigError for an invalid one."""
    return [load(name) for name in names()]


@dataclass(frozen=True)
class Declared:
    """The valid streams, and of each invalid one the reason; ALL_STREAMS: of the folders themselves."""

    specs: Sequence[StreamSpec] = ()
    invalid: Mapping[str, str] = field(default_factory=dict)


ALL_STREAMS = "all streams"


def load_valid() -> Declared:
    """All streams; an invalid one does not affect the others."""
    specs, invalid = [], {}
    try:
        known = names()
    except ConfigError as error:
        return Declared(invalid={ALL_STREAMS: str(error)})
    for name in known:
        try:
            specs.append(load(name))
        except ConfigError as error:
            invalid[name] = str(error)
    return Declared(specs, invalid)


def load(name: str, environ: Mapping[str, str] = os.environ) -> StreamSpec:
    """The stream with this installation's overrides. Raises ConfigError if it is unknown or invalid."""
    known = folders(environ)
    if name not in known:
        raise ConfigError(f"stream {name!r} is unknown; streams are {', '.join(sorted(known)) or '(none)'}")
    path = known[name] / "stream.toml"
    file = environ.get(overrides.VARIABLE, "")
    overriding = overrides.read(file, sorted(known)).get(name) if file else None
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    spec = parse(text, str(path.relative_to(known[name].parents[1])), overriding, file)
    if spec.name != name:
        raise ConfigError(
            f"{path}: name is {spec.name!r}; the folder's is {name!r}. Fix: give both the same name"
        )
    return spec
