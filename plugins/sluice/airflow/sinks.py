"""The sinks of a stream's queries: made as declared, or only looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from sluice.airflow import connections
from sluice.config.sections.sink import SinkKind
from sluice.config.sections.topic import Topic
from sluice.core.queries.fence import fence_key

if TYPE_CHECKING:
    from sluice.airflow.hook import PlatformHook
    from sluice.config.connection import Database
    from sluice.config.sections.sink import Sink
    from sluice.config.stream import StreamSpec

# Readers need the newest record of each key, and `compare_sinks` reads all: Kafka compacts no segment that it
# still writes to, by default for a week, which of mode complete has every result of each batch.
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.2", "segment.ms": "3600000"}

# Whether the streams' processes have a connection as it is now.
IsExported = Callable[[str, "Database"], bool]


class NotAsDeclared(Exception):
    """A sink that is to be made, or changed: the message names it."""


def provision(systems: PlatformHook, spec: StreamSpec) -> list[str]:
    """Make what is missing; a line per sink. A connection is exported with the tables in its database.

    Raises ClientError, ConfigError, AirflowFailException.
    """
    return list(_lines(spec, lambda name, sink: _provision(systems, spec, name, sink)))


def check(systems: PlatformHook, spec: StreamSpec, is_exported: IsExported) -> list[str]:
    """The lines of :func:`provision` where that has nothing to do. Reads only: of a topic what the brokers
    have, also where an operator makes it. Raises NotAsDeclared, and as :func:`provision`."""
    return list(_lines(spec, lambda name, sink: _check(systems, spec, is_exported, name, sink)))


def _lines(spec: StreamSpec, of_sink: Callable[[str, Sink], str]) -> Iterator[str]:
    for name, query in spec.queries.items():
        for sink in query.sinks:
            yield f"query {name}, {sink.name}: {of_sink(name, sink)}"


def _provision(systems: PlatformHook, spec: StreamSpec, name: str, sink: Sink) -> str:
    from sluice.clients.databases import results as databases

    match SinkKind(sink.kind):
        case SinkKind.JDBC:
            database, query = connections.database(sink.connection), spec.queries[name]
            key = fence_key(spec.name, name)
            made = databases.provision(database, sink.table, query, spec.result_types(name), key)
            has_changed = connections.export(sink.connection, database, systems.platform.kubernetes)
            return f"{made}{' (connection changed)' if has_changed else ''}"
        case SinkKind.KAFKA:
            return str(systems.topics.provision(_topic(spec, sink)).message())
        case _:
            return "nothing to create"


def _check(systems: PlatformHook, spec: StreamSpec, is_exported: IsExported, name: str, sink: Sink) -> str:
    from sluice.clients.databases import results as databases
    from sluice.clients.kafka.broker_topics import TopicDiff, is_as_declared

    match SinkKind(sink.kind):
        case SinkKind.JDBC:
            database, query = connections.database(sink.connection), spec.queries[name]
            if not databases.is_provisioned(database, sink.table, query, spec.result_types(name)):
                raise NotAsDeclared(f"{sink.name}: a table is missing in {database.where}, or differs")
            if not is_exported(sink.connection, database):
                raise NotAsDeclared(
                    f"{sink.name}: connection {sink.connection} changed, or is not known to be exported"
                )
            return str(databases.ProvisionResult(database.where, ()))
        case SinkKind.KAFKA:
            if not is_as_declared(systems.kafka, _topic(spec, sink)):
                raise NotAsDeclared(f"{sink.name}: topic {sink.topic!r} is missing, or differs")
            return TopicDiff(sink.topic).message()
        case _:
            return "nothing to create"


def _topic(spec: StreamSpec, sink: Sink) -> Topic:
    return Topic(sink.topic, sink.partitions, spec.topic.replication_factor, COMPACTED)
