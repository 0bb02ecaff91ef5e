"""Steps of a load: provision the topics, and the sinks of the queries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.empty import EmptyOperator

from sluice.airflow import connections
from sluice.airflow.failures import failed
from sluice.airflow.operators.base import StreamOperator
from sluice.airflow.operators.load.interval import is_interval
from sluice.clients.query_state import fence_key
from sluice.config.query import SinkKind
from sluice.config.sections.topic import PROGRESS_TOPIC, Topic
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused
from sluice.loads import inventory

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.config.query import Sink


# The broker rejects other records: Spark's source overflows on a timestamp of nanoseconds, at each start
# again. After: Kafka 4's default, an hour. Before: 100 years, so replayed history is within.
TIMESTAMP_BOUNDS = {
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "3153600000000",
}


def with_timestamp_bounds(topic: Topic) -> Topic:
    """The topic with TIMESTAMP_BOUNDS, unless it declares others. With LogAppendTime they have no effect."""
    return replace(topic, config=TIMESTAMP_BOUNDS | topic.config)


class ProvisionTopicOperator(StreamOperator):
    """Create the topic, add partitions, change declared configs and TIMESTAMP_BOUNDS; return the diff.

    Fails without retries instead of shrinking: fewer partitions, another replication factor. The first
    attempt also records the run's ``baseline.json`` for the audit; of an interval, task `produce` does.
    """

    does = "creates or adjusts the topic as `stream.toml` declares it"
    fails_if = "it would shrink"

    def work(self, context: Context) -> dict[str, Any]:
        topics = self.platform_hook.topics
        self._check_topic_not_lost()
        diff = topics.provision(with_timestamp_bounds(self.spec.topic))
        for changed in (diff, topics.provision(PROGRESS_TOPIC)):
            self.log.info("%s", changed.message())
        if self.spec.feed is not None:
            self._check_limit(self.platform_hook.kafka.max_message_bytes(self.spec.topic.name))
        if not is_interval(self):
            # Of an interval, its plan's own.
            inventory.record_before(self.platform_hook.lake, self.spec, self.ledger, context["run_id"])
        return diff.to_json()

    def _check_limit(self, taken: int) -> None:
        """Raises Refused if the feed's producer, which knows the declaration alone, would send events that
        the topic does not take: one of them would end it at each start."""
        declared = self.spec.topic.max_message_bytes
        if taken < declared:
            raise Refused(
                f"topic {self.spec.topic.name!r} takes messages of at most {taken} bytes, the producer of "
                f'{self.stream!r} sends up to {declared}. Fix: declare "max.message.bytes" = {taken} in '
                "[topic.config] of stream.toml",
                ErrorCode.TOPIC_MISMATCH,
            )

    def _check_topic_not_lost(self) -> None:
        """Raises AirflowFailException instead of creating a topic again whose records the table has."""
        position = self.platform_hook.lake.position(self.spec.table)
        if position is None or not any(position.ends.values()):
            return
        try:
            self.platform_hook.kafka.describe(self.spec.topic.name)
        except Missing as error:
            raise failed(
                ErrorCode.TOPIC_NOT_FOUND,
                f"topic {self.spec.topic.name!r} was deleted: {self.spec.table} has its records up to "
                f"{position.ends}. A new one would have other records at these offsets. Fix: restore the "
                "topic, or give the stream a new table and a new topic (docs/operating.md, Topic was "
                "recreated)",
            ) from error


# Readers need the newest record of each key, and reconciliation reads all: Kafka compacts no segment that it
# still writes to, by default for a week, which of mode complete has every result of each batch.
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.2", "segment.ms": "3600000"}


class ProvisionSinksOperator(StreamOperator):
    """Create each sink's table or compacted topic if it is missing; return a line per sink.

    A database's connection is exported for the stream's process, which runs outside Airflow: to a file that
    only its user may read, or on a Kubernetes cluster to a Secret. Fails, naming the connection, if a
    database does not answer, refuses, or has another table of that name.
    """

    does = "creates missing tables and topics of the queries"
    fails_if = "a sink does not answer, or refuses"

    # Iceberg's tables are the queries' own.
    checked = None

    def work(self, context: Context) -> dict[str, Any]:
        done = [
            f"query {name}, {self._provision(name, sink)}"
            for name, query in self.spec.queries.items()
            for sink in query.sinks
        ]
        for line in done:
            self.log.info("%s", line)
        return {"sinks": done}

    def _provision(self, name: str, sink: Sink) -> str:
        from sluice.clients.databases import results as databases

        query = self.spec.queries[name]
        match SinkKind(sink.kind):
            case SinkKind.JDBC:
                database = connections.database(sink.connection)
                types, key = self.spec.result_types(name), fence_key(self.stream, name)
                made = databases.provision(database, sink.table, query, types, key)
                cluster = self.platform_hook.platform.kubernetes
                has_changed = connections.export(sink.connection, database, cluster)
                changed = " (connection changed)" if has_changed else ""
                return f"{sink.name}: {made}{changed}"
            case SinkKind.KAFKA:
                topic = Topic(sink.topic, sink.partitions, self.spec.topic.replication_factor, COMPACTED)
                return f"{sink.name}: {self.platform_hook.topics.provision(topic).message()}"
            case _:
                return f"{sink.name}: nothing to create"


class SinksProvisionedOperator(EmptyOperator):
    """A leaf beside the queries, which run whatever ``provision_sinks`` found: the run's state is that of its
    leaves. The scheduler decides it, so it costs no worker."""

    does = "nothing: with it the run fails if `provision_sinks` did, whatever `queries` finds"
    fails_if = "`provision_sinks` failed"

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
