"""What a stream.toml must hold beside the right types: names, bounds, and what belongs together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sluice.config import schema as table_schema
from sluice.config.reading import limits, names
from sluice.config.reading.toml import IDENTIFIER, IDENTIFIER_FIX, ConfigError
from sluice.config.reading.urls import check_url
from sluice.config.reading.values import shown
from sluice.config.sections import backfill as backfill_spec
from sluice.config.sections import cluster as cluster_spec
from sluice.config.sections import csv as csv_spec
from sluice.config.sections import generator as generator_spec
from sluice.config.sections import query as query_spec
from sluice.config.sections.maintenance import Maintenance
from sluice.config.sections.records import checks as records_checks
from sluice.config.sections.sink import SinkKind
from sluice.config.sections.topic import (
    LOG_APPEND_TIME,
    MAX_MESSAGE,
    POSITIONS_TOPIC,
    PROGRESS_TOPIC,
    TIMESTAMP_TYPE,
    UNDECLARED,
    Topic,
)
from sluice.config.stream import SourceType
from sluice.core.offsets.start import EARLIEST, Start, StartInvalid

if TYPE_CHECKING:
    from sluice.config.sections.feed import Feed
    from sluice.config.stream import StreamSpec

# A function in a module of a stream's folder.
FUNCTION = r"[a-z_][a-z0-9_]*:[a-z_][a-z0-9_]*"
# A schema's file.
SCHEMA = r"[A-Za-z0-9][A-Za-z0-9._-]*\.(avsc|ddl|proto)"
# Folders in the source bucket, none of them "." or "..".
PREFIX = r"((?!\.{1,2}/)[A-Za-z0-9_.=-]+/)*"
# Without scheme, port and path.
HOST = r"[A-Za-z0-9][A-Za-z0-9._-]*|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*"
# In Airflow's lists and menus.
MAX_TITLE = 100
# Least message size of a feed's topic: headers take up to 16 KiB of it, and a longer event is cut.
MIN_FEED_MESSAGE = 64 * 1024
# The package of the jobs, and the installation itself in notifications.
RESERVED = ("common", "sluice")


def check(spec: StreamSpec, where: str) -> None:
    """Raises ConfigError naming ``where``, the key and the value."""
    if not IDENTIFIER.fullmatch(spec.name) or spec.name in RESERVED:
        raise ConfigError(
            f"{where}: name {shown(spec.name)}. {IDENTIFIER_FIX}, and not {' or '.join(RESERVED)}"
        )
    if len(spec.title) > MAX_TITLE:
        raise ConfigError(f"{where}: title {shown(spec.title)}. Fix: use at most {MAX_TITLE} characters")
    if spec.records:
        records_checks.check(spec.records, spec.schema, where)
        _check_records(spec, where)
    if not re.fullmatch(SCHEMA, spec.schema) and (spec.schema or not spec.records):
        raise ConfigError(
            f"{where}: schema {shown(spec.schema)}. Fix: name a file of the stream's folder, an Avro schema "
            "(.avsc), columns (.ddl) or a Protobuf schema (.proto)"
        )
    names.check_table(spec.table, where)
    names.check_topic(spec.topic.name, where)
    table_schema.parse_all(spec.partition_by, where)
    (_check_own_topic if spec.topic.managed else _check_topic_of_others)(spec.topic, where)
    _check_numbers(spec, where)
    _check_source(spec, where)
    if spec.feed:
        _check_feed(spec.feed, spec.topic, where)
    if spec.generator:
        generator_spec.check(spec.generator, where)
    _check_queries(spec, where)
    cluster_spec.check(spec.cluster, where)
    if spec.backfill:
        if spec.source is not SourceType.CSV:
            instead = ", and declare [intervals]" if spec.source is SourceType.TOPIC else ""
            raise ConfigError(
                f"{where}: [backfill] with [{spec.source}]: only files are loaded by it. Fix: remove "
                f"[backfill]{instead}"
            )
        backfill_spec.check(spec.backfill, spec.source_prefix, where)
    if spec.intervals:
        if spec.topic.managed:
            raise ConfigError(
                f"{where}: [intervals] with [{spec.source}]: they are of a topic of others, by the times of "
                "its records. Fix: remove [intervals]"
            )
        backfill_spec.check_times(spec.intervals, "intervals", where)
    names.check_distinct([*tables(spec), *topics(spec)], where)


def tables(spec: StreamSpec) -> list[str]:
    """Every table and folder that the stream writes, as messages name it."""
    sinks = [sink for query in spec.queries.values() for sink in query.sinks]
    results = [sink.table for sink in sinks if sink.kind == SinkKind.ICEBERG]
    own = [spec.table, spec.quarantine_table, *([spec.queries_table] if spec.queries else [])]
    return [
        *(f"table {table} of the lake" for table in [*own, *results]),
        *(f"table {sink.table} of {sink.connection}" for sink in sinks if sink.kind == SinkKind.JDBC),
        *(f"folder {sink.prefix}" for sink in sinks if sink.prefix),
    ]


def topics(spec: StreamSpec) -> list[str]:
    """Every topic that the stream writes or reads, as messages name it."""
    sinks = [sink for query in spec.queries.values() for sink in query.sinks]
    return [f"topic {name}" for name in (spec.topic.name, *(sink.topic for sink in sinks if sink.topic))]


def own_topics(spec: StreamSpec) -> list[str]:
    """Those of :func:`topics` that no other stream may have: it may read a topic of others too."""
    return topics(spec)[0 if spec.topic.managed else 1 :]


def _check_own_topic(topic: Topic, where: str) -> None:
    limits.check(topic, "topic", where)
    if topic.replication_factor == 0:
        raise ConfigError(f"{where}: topic replication_factor is 0; it must be at least 1. Fix: correct it")
    if topic.start != EARLIEST:
        raise ConfigError(
            f"{where}: topic start {shown(topic.start)} of a topic that is managed: the stream begins with "
            "its first record. Fix: remove it, or write managed = false"
        )
    if not re.fullmatch("[0-9]{1,10}", text := topic.config.get(MAX_MESSAGE, "0")):
        raise ConfigError(
            f"{where}: topic config {MAX_MESSAGE} is {shown(text)}. Fix: write a number of bytes"
        )


def _check_topic_of_others(topic: Topic, where: str) -> None:
    declared = {
        "partitions": topic.partitions != UNDECLARED,
        "replication_factor": topic.replication_factor != limits.BROKER_DEFAULT,
        "config": bool(topic.config),
    }
    for key, is_declared in declared.items():
        if is_declared:
            raise ConfigError(
                f"{where}: topic {key} with managed = false: the topic is taken as it is, and nothing of it "
                f"is set. Fix: remove {key}, or managed"
            )
    if topic.registry:
        raise ConfigError(
            f"{where}: topic registry with managed = false: nothing is registered for a topic of others. "
            "Fix: remove it; records that name schemas are declared by registry = true below [records]"
        )
    try:
        Start.parse(topic.start)
    except StartInvalid as error:
        raise ConfigError(f"{where}: topic start: {error}") from error


def _check_numbers(spec: StreamSpec, where: str) -> None:
    for name in ("budget", "consumer", "supervision", "maintenance"):
        limits.check(getattr(spec, name), name, where)
    maintenance = spec.maintenance
    # One that is not declared follows.
    is_declared = maintenance.history_days != Maintenance.history_days
    if is_declared and maintenance.history_days < maintenance.restore_horizon_days:
        raise ConfigError(
            f"{where}: maintenance history_days is {maintenance.history_days} and restore_horizon_days "
            f"{maintenance.restore_horizon_days}: a restored catalog needs the history since. Fix: declare "
            "history_days of as many days at least"
        )


def _check_records(spec: StreamSpec, where: str) -> None:
    if spec.topic.managed:
        raise ConfigError(
            f"{where}: [records] and a topic of Sluice's own: the section is for topics that others fill. "
            "Fix: remove it, or declare managed = false below [topic]; a schema registry for Sluice's own "
            "topic is registry = true below [topic]"
        )
    if spec.decode:
        raise ConfigError(
            f"{where}: [records] with decode {shown(spec.decode)}: both say how a record is read. Fix: "
            "remove one"
        )


def _check_source(spec: StreamSpec, where: str) -> None:
    if spec.decode and spec.is_avro:
        raise ConfigError(
            f"{where}: decode {shown(spec.decode)} with schema {spec.schema!r}: its records are Avro. Fix: "
            "leave decode out, or add [feed] or [generator] with a schema.ddl"
        )
    if spec.csv.adds_columns and spec.topic.registry:
        raise ConfigError(
            f"{where}: [csv] new_columns {spec.csv.new_columns!r} with topic registry = true: the registry "
            "has the stream's schema alone, and no file's. Fix: remove one of them"
        )
    if spec.decode and spec.consumer.by_reference:
        raise ConfigError(
            f"{where}: [consumer] by_reference with decode {shown(spec.decode)}, which has no reference. "
            "Fix: leave by_reference out"
        )
    if spec.topic.registry and (spec.feed or not spec.is_avro):
        what = "[feed]" if spec.feed else f"schema {shown(spec.schema)}"
        raise ConfigError(
            f"{where}: topic registry with {what}: what is registered is the Avro schema of rows that a load "
            "sends. Fix: remove registry, or declare a schema.avsc, without [feed] and decode"
        )
    if spec.source is SourceType.CSV:
        csv_spec.check(spec.csv, where)
    if not re.fullmatch(PREFIX, spec.source_prefix):
        raise ConfigError(
            f"{where}: [csv] prefix {shown(spec.source_prefix)}. Fix: write folders of letters, digits and _ "
            '. = - that end with "/", or "" for the whole bucket'
        )
    references = {"decode": spec.decode}
    if spec.feed:
        references |= {"feed event": spec.feed.event, "feed rewind": spec.feed.rewind}
    if spec.generator:
        references["generator rows"] = spec.generator.rows
    for key, value in references.items():
        if value and not re.fullmatch(FUNCTION, value):
            raise ConfigError(f"{where}: {key} {shown(value)}. Fix: write it as module:function")


def _check_feed(feed: Feed, topic: Topic, where: str) -> None:
    limits.check(feed, "feed", where)
    if topic.max_message_bytes < MIN_FEED_MESSAGE:
        raise ConfigError(
            f"{where}: topic {MAX_MESSAGE} is {topic.max_message_bytes}; a feed's must be at least "
            f"{MIN_FEED_MESSAGE}. Fix: raise it"
        )
    if not feed.event:
        raise ConfigError(f"{where}: feed event ''. Fix: write it as module:function")
    if not IDENTIFIER.fullmatch(feed.event_id):
        raise ConfigError(f"{where}: feed event_id: column {shown(feed.event_id)}. {IDENTIFIER_FIX}")
    check_url(feed.url, f"{where}: feed url")
    if not feed.user_agent.isascii() or not feed.user_agent.isprintable():
        raise ConfigError(
            f"{where}: feed user_agent {shown(feed.user_agent)} cannot be in a header. Fix: use ASCII only"
        )
    for host in feed.allow_redirects_to:
        if not re.fullmatch(HOST, host):
            raise ConfigError(
                f"{where}: feed allow_redirects_to {shown(host)} is no host. Fix: write the name or address "
                "alone"
            )
    if feed.resume and not feed.resume.position:
        raise ConfigError(
            f'{where}: feed resume position is empty. Fix: write "saved", "latest" or a position'
        )


def _check_queries(spec: StreamSpec, where: str) -> None:
    timestamps = spec.topic.config.get(TIMESTAMP_TYPE)
    for name, query in spec.queries.items():
        query_spec.check(name, query, where)
        # What a topic of others has is seen when its queries start, and before each load.
        if query.window and spec.topic.managed and timestamps != LOG_APPEND_TIME:
            raise ConfigError(
                f"{where}: query {name} has windows, and topic config {TIMESTAMP_TYPE} is "
                f"{shown(timestamps)}: a sender whose clock is ahead would move the watermark. Fix: write "
                f'"{TIMESTAMP_TYPE}" = "{LOG_APPEND_TIME}" below [topic.config]'
            )
    query_spec.check_places(spec.queries, where)
    for reserved, purpose in ((PROGRESS_TOPIC, "progress"), (POSITIONS_TOPIC, "positions of feeds")):
        if f"topic {reserved.name}" in topics(spec):
            raise ConfigError(f"{where}: topic {reserved.name!r} is reserved for {purpose}. Fix: use another")
