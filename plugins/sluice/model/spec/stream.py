"""A stream's declaration: ``spark_jobs/<name>/stream.toml``, typed and validated."""

from __future__ import annotations

import logging
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from sluice.model.spec import overrides
from sluice.model.spec import query as query_words
from sluice.model.spec import schema as partitioning
from sluice.model.spec.config import ConfigError, build
from sluice.model.spec.generator import Generator
from sluice.model.spec.query import Query
from sluice.model.spec.schema import Partition, parse_ddl

log = logging.getLogger(__name__)

# plugins/sluice/model/spec/stream.py -> the repository, and in an image the same layout.
STREAMS = Path(__file__).resolve().parents[4] / "spark_jobs"
_FOLDER = re.compile(r"[a-z][a-z0-9_]*")
# The component that every stream has.
CONSUMER = "consumer"
# Further folders with streams in them, separated as in PATH.
VARIABLE = "SLUICE_STREAMS"
# What `spark-submit` is given; elsewhere it is `python -m spark_jobs`.
ENTRY_POINT = STREAMS / "__main__.py"
# A function in a module of a stream's folder.
FUNCTION = r"[a-z_][a-z0-9_]*:[a-z_][a-z0-9_]*"
# A replication factor that is left to the broker.
BROKER_DEFAULT = -1
# In a feed's user_agent: nobody has put their own address into it yet.
NO_USER = "@example."


class SourceType(StrEnum):
    """Where a load's records come from: one of these tables of stream.toml; ``csv`` without any."""

    CSV = "csv"
    FEED = "feed"
    GENERATOR = "generator"


@dataclass(frozen=True)
class Topic:
    """A topic as it must be: ``config`` holds only what is declared, the broker's defaults stay alone."""

    name: str
    partitions: int
    replication_factor: int = 1
    config: dict[str, str] = field(default_factory=dict)


# Progress of every stream's queries; provisioned by each load. The broker deletes whole segments only.
PROGRESS_TOPIC = Topic(
    "sluice-progress", 1, BROKER_DEFAULT, {"retention.ms": "604800000", "segment.ms": "86400000"}
)


@dataclass(frozen=True)
class Consumer:
    """How the stream reads: seconds between micro-batches, and records in one at most."""

    trigger_seconds: int = 5
    max_offsets_per_trigger: int = 3_000_000


@dataclass(frozen=True)
class Budget:
    """What one micro-batch may cost in the bucket.

    A load's audit enforces versions and delete markers; calls are counted by the S3 server alone, so a test
    over MinIO's own metrics enforces those.
    """

    s3_calls_per_batch: int
    versions_per_batch: int
    delete_markers: int = 0


@dataclass(frozen=True)
class Supervision:
    """When a stream counts as well, and what is done where it is not; all in seconds but ``max_restarts``.

    It is looked at every ``interval_seconds``. It is stalled when nothing of a backlog was published for
    ``stall_timeout_seconds`` (and for three times its longest batch), or when a started process did not take
    over within ``startup_timeout_seconds``; falling behind when the backlog grew for ``lag_window_seconds``;
    at risk when retention deletes unread records within ``retention_margin_seconds``. After ``max_restarts``
    within ``restart_window_seconds`` a person is asked. A stop has ``shutdown_grace_seconds`` for the batch
    in flight.
    """

    interval_seconds: int = 120
    stall_timeout_seconds: int = 60
    startup_timeout_seconds: int = 90
    lag_window_seconds: int = 300
    retention_margin_seconds: int = 21_600
    max_restarts: int = 3
    restart_window_seconds: int = 1_800
    shutdown_grace_seconds: int = 20

    @property
    def missed_seconds(self) -> int:
        """So long after the end of a run without another one, nobody can be said to look: three intervals,
        which is more than observing, acting and verifying take."""
        return 3 * self.interval_seconds


@dataclass(frozen=True)
class Csv:
    """CSV objects of the source bucket.

    ``time_formats``: Spark's patterns, tried in this order. ``extra_columns``: the schema's map of strings
    for columns that the schema does not name; without it such a column is refused.
    """

    time_formats: list[str] = field(default_factory=lambda: ["yyyy-MM-dd HH:mm:ss"])
    extra_columns: str = ""


@dataclass(frozen=True)
class Feed:
    """A feed of Server-Sent Events that a long-running producer reads.

    ``url`` is the default, a platform file may name another. ``user_agent`` says who asks and how to reach
    them. ``event_id`` is the table's column that is unique per event. The functions ``event`` and ``rewind``
    read an event and say where to resume: ``spark_jobs.common.feed.event``. After ``read_timeout_seconds``
    without a byte the connection counts as dead. At most ``max_in_flight`` events are sent and not yet
    acknowledged. A producer that starts waits up to ``lock_seconds`` for the end of its predecessor.
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
    """A long-running process of a stream: the name of its program at the runtime, and what Python runs."""

    name: str
    program: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class StreamSpec:
    """One stream: a topic, its schema, its producer and consumer, and its tables.

    ``title``: in Airflow, by default its name. ``decode``: the function from the topic's records to rows,
    unless the schema is Avro.
    """

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

    def feed_url(self, feeds: Mapping[str, str]) -> str:
        """Where the feed is read: at what ``feeds`` (of a platform file) says, or else at its own ``url``.

        Raises ConfigError for a stream without a feed, and where the feed's own servers would be asked in
        nobody's name: they may shut out who cannot be reached.
        """
        if self.feed is None:
            raise ConfigError(f"stream {self.name!r} has no feed; add [feed] to its stream.toml")
        if self.name in feeds:
            return feeds[self.name]
        if NO_USER in self.feed.user_agent:
            raise ConfigError(
                f"feed user_agent {self.feed.user_agent!r} names nobody who reads {self.feed.url}: put "
                f"your own address into it, in the stream.toml of {self.name}"
            )
        return self.feed.url

    @property
    def is_avro(self) -> bool:
        """Whether ``schema`` is an Avro schema; else it lists the table's columns in Spark's DDL."""
        return self.schema.endswith(".avsc")

    def result_types(self, query: str) -> dict[str, str]:
        """Column of a query's result -> type, in Spark's DDL. Raises ConfigError where the query names a
        column that the table has not, or the schema is no DDL."""
        if self.is_avro:
            raise ConfigError(f"stream {self.name!r}: queries need a schema in DDL, and it has {self.schema}")
        columns = parse_ddl(self.schema_file.read_text(), f"{self.name}/{self.schema}")
        return query_words.result_types(query, self.queries[query], columns, f"{self.name}/stream.toml")

    @property
    def partitions(self) -> list[Partition]:
        """``partition_by``, read."""
        return partitioning.parse_all(self.partition_by, self.name)

    @property
    def quarantine_table(self) -> str:
        return f"{self.table}_quarantine"

    @property
    def queries_table(self) -> str:
        """How far each of the stream's queries is, and which rows came too late for them."""
        return f"queries.{self.name}"

    @property
    def program(self) -> str:
        """The name under which the runtime knows the consumer."""
        return f"stream-{self.name}"

    @property
    def components(self) -> dict[str, Component]:
        """The stream's long-running processes: always ``consumer``; ``producer`` where it reads a feed,
        ``queries`` where it declares any. A producer without a feed runs once per load, and is none of
        them."""
        declared = (("producer", self.feed), ("queries", self.queries))
        programs = {"consumer": self.program} | {
            name: f"{self.program}-{name}" for name, there in declared if there
        }
        return {
            name: Component(name, program, ("-m", "spark_jobs", name, self.name))
            for name, program in programs.items()
        }

    def component(self, name: str) -> Component:
        """Raises ConfigError for a part that the stream does not have."""
        if name not in self.components:
            raise ConfigError(
                f"stream {self.name!r} has no part {name!r}; it has {', '.join(self.components)}"
            )
        return self.components[name]


def parse(text: str, where: str, overriding: Mapping[str, Any] | None = None, of: str = "") -> StreamSpec:
    """Parse a stream.toml; ``overriding``: other values, of the file ``of``.

    Raises ConfigError naming ``where`` and ``of``, the key, the value and the fix.
    """
    try:
        declared = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where}: not valid TOML: {error}") from error
    if overriding:
        declared, where = overrides.merge(declared, overriding), f"{where} with {of}"
    spec = build(StreamSpec, declared, where)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", spec.name):
        raise ConfigError(f"{where}: name {spec.name!r}: use lower-case letters, digits and _")
    if not spec.schema.endswith((".avsc", ".ddl")):
        raise ConfigError(f"{where}: schema {spec.schema!r}: name an Avro schema (.avsc) or columns (.ddl)")
    _check_source(spec, declared, where)
    if not re.fullmatch(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*", spec.table):
        raise ConfigError(f"{where}: table {spec.table!r}: write it as namespace.table, in lower case")
    partitioning.parse_all(spec.partition_by, where)
    if spec.feed and not re.fullmatch(r"[a-z][a-z0-9_]*", spec.feed.event_id):
        raise ConfigError(f"{where}: column {spec.feed.event_id!r}: use lower-case letters, digits and _")
    if spec.feed and not spec.feed.url.startswith(("http://", "https://")):
        raise ConfigError(f"{where}: feed url {spec.feed.url!r}: write it with http:// or https://")
    for name, value in (
        ("topic partitions", spec.topic.partitions),
        ("topic replication_factor", spec.topic.replication_factor),
        ("consumer trigger_seconds", spec.consumer.trigger_seconds),
        ("consumer max_offsets_per_trigger", spec.consumer.max_offsets_per_trigger),
        *((f"supervision {name}", value) for name, value in asdict(spec.supervision).items()),
        *_numbers("feed", spec.feed),
    ):
        if value < 1:
            raise ConfigError(f"{where}: {name} is {value}; it must be at least 1")
    for name, query in spec.queries.items():
        query_words.check(name, query, where)
    sinks = [sink for query in spec.queries.values() for sink in query.sinks]
    if PROGRESS_TOPIC.name in (spec.topic.name, *(sink.topic for sink in sinks)):
        raise ConfigError(f"{where}: topic {PROGRESS_TOPIC.name!r} is reserved for progress; use another")
    return spec


def _check_source(spec: StreamSpec, declared: Mapping[str, Any], where: str) -> None:
    sources = [source for source in SourceType if source in declared]
    if len(sources) > 1:
        raise ConfigError(f"{where}: [{sources[0]}] and [{sources[1]}]: a stream has one source; keep one")
    if spec.is_avro == bool(spec.decode):
        fix = "leave decode out" if spec.is_avro else 'add decode = "transforms:<function>"'
        raise ConfigError(f"{where}: decode {spec.decode!r} with schema {spec.schema!r}; {fix}")
    if spec.source is SourceType.CSV and not spec.is_avro:
        raise ConfigError(
            f"{where}: schema {spec.schema!r}: rows of CSV objects are sent as Avro; name an .avsc file, "
            "or add [feed] or [generator]"
        )
    references = {"decode": spec.decode}
    if spec.feed:
        references |= {"feed event": spec.feed.event, "feed rewind": spec.feed.rewind}
    if spec.generator:
        references["generator rows"] = spec.generator.rows
        for name, schema in spec.generator.schemas.items():
            lacking = {"type", "default", "title", "description"} - set(schema)
            if lacking:
                raise ConfigError(
                    f"{where}: generator params {name}: key {min(lacking)!r} is missing; add it"
                )
    for key, value in references.items():
        if value and not re.fullmatch(FUNCTION, value):
            raise ConfigError(f"{where}: {key} {value!r}: write it as module:function")


def _numbers(section: str, declared: Feed | None) -> list[tuple[str, int]]:
    found = asdict(declared) if declared else {}
    return [(f"{section} {name}", value) for name, value in found.items() if isinstance(value, int)]


def folders(environ: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """Stream -> its folder, with a stream.toml: below spark_jobs/, and below each folder of SLUICE_STREAMS.

    Raises ConfigError for a folder that does not exist, and for a stream that is there twice.
    """
    found: dict[str, Path] = {}
    for root in (STREAMS, *map(Path, filter(None, environ.get(VARIABLE, "").split(os.pathsep)))):
        if not root.is_dir():
            raise ConfigError(f"{VARIABLE}: {root} is no folder; fix the path, or set the variable empty")
        for path in (file.parent for file in root.glob("*/stream.toml")):
            if not _FOLDER.fullmatch(path.name):
                # A copy ("rides (2)") or an editor's own folder: no stream can have such a name.
                log.warning("%s is no stream: its folder's name must match %s", path, _FOLDER.pattern)
                continue
            if path.name in found:
                raise ConfigError(f"stream {path.name!r} is in {found[path.name]} and in {path}; rename one")
            found[path.name] = path
    return found


def names(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The streams there are, sorted."""
    return sorted(folders(environ))


def load(name: str, environ: Mapping[str, str] = os.environ) -> StreamSpec:
    """Read the declaration of stream ``name``, with this installation's overrides.

    Raises ConfigError if there is no such stream, or if its declaration or the overrides are invalid.
    """
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
        raise ConfigError(f"{path}: name is {spec.name!r}; it must be the folder's, {name!r}")
    return spec
