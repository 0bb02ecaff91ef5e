"""Topic, sinks.

Step 1 of a load: provision the stream's topic and that of progress, and record the bucket's counts.

Where a stream's queries put their results: made where it is missing, and handed over to their process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from sluice.hooks.connections import write_connection_file
from sluice.hooks.failures import failed
from sluice.model.error_codes import ErrorCode
from sluice.model.queries.state import fence_key
from sluice.model.spec import connection as databases
from sluice.model.spec.query import SinkKind
from sluice.model.spec.stream import PROGRESS_TOPIC, Topic
from sluice.operators.base import StreamOperator
from sluice.operators.load import inventory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

    from sluice.model.spec.connection import Database
    from sluice.model.spec.query import Query, Sink


class ProvisionTopicOperator(StreamOperator):
    """Create the topic, add partitions, change declared configs; return the diff.

    Refuses to shrink (red, not retried): fewer partitions, or another replication factor. The first attempt
    of a run also records ``baseline.json``, which the audit measures against.
    """

    does = "creates or adjusts the topic as `stream.toml` declares it"
    fails_if = "it would have to shrink"

    def work(self, context: Context) -> dict[str, Any]:
        kafka = self.platform_hook.kafka
        diff = kafka.provision(self.spec.topic)
        for changed in (diff, kafka.provision(PROGRESS_TOPIC)):
            self.log.info("%s", changed.message())
        inventory.record_before(self.platform_hook, self.spec, self.ledger, context["run_id"])
        return diff.as_dict()


# A reader needs the newest record of each key, for as long as the stream lives.
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.2"}


class ProvisionSinksOperator(StreamOperator):
    """Make each sink's table or compacted topic where it is missing; return what was done, a line for each.

    Idempotent. A database is reached by its Airflow connection, which is written for the stream's process
    into a file that only its user may read: the process runs outside Airflow, and can ask nobody for it. Red,
    naming the connection or the place, where a database does not answer, refuses, or holds another table of
    that name: so a run of this step is also the verdict on the sinks.
    """

    does = "creates missing tables and topics of the queries"
    fails_if = "a sink does not answer, or refuses"

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
        query = self.spec.queries[name]
        match SinkKind(sink.kind):
            case SinkKind.JDBC:
                where = connection(sink.connection)
                types, key = self.spec.result_types(name), fence_key(self.stream, name)
                made = self.provision_table(where, sink.table, query, types, key)
                changed = (
                    " (its connection is another than before)"
                    if write_connection_file(sink.connection, where)
                    else ""
                )
                return f"{sink.name}: {made}{changed}"
            case SinkKind.KAFKA:
                topic = Topic(sink.topic, sink.partitions, self.spec.topic.replication_factor, COMPACTED)
                return f"{sink.name}: {self.platform_hook.kafka.provision(topic).message()}"
            case _:
                return f"{sink.name}: needs nothing"

    def provision_table(
        self, where: Database, table: str, query: Query, types: Mapping[str, str], key: str
    ) -> object:
        """Make a query's table where it is missing; says what was done."""
        from sluice.clients import database as client

        return client.provision(where, table, query, types, key)


def connection(name: str) -> Database:
    """What Airflow knows of a connection, as a database. Raises AirflowFailException naming it where there is
    none, ConfigError where it is of no database that a sink can write to."""
    try:
        found = BaseHook.get_connection(name)
    except AirflowNotFoundException as error:
        raise failed(
            ErrorCode.CONNECTION_NOT_FOUND,
            f"connection {name!r} does not exist; add it in Airflow under Admin, or set "
            f"AIRFLOW_CONN_{name.upper()}",
        ) from error
    return databases.from_connection(
        found.conn_type,
        found.host,
        found.port,
        found.schema,
        found.login,
        found.password,
        options=found.extra_dejson,
        name=name,
    )
