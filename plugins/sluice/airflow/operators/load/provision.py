"""Steps of a load: provision the topics, and the sinks of the queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.airflow import forms, sinks
from sluice.airflow.operators.base import StreamOperator
from sluice.airflow.operators.load.interval import is_interval
from sluice.config.csv_reading import reading_of
from sluice.config.stream import SourceType
from sluice.loads.sending import schema, topic
from sluice.loads.sources import csv_object
from sluice.loads.written import inventory

if TYPE_CHECKING:
    from airflow.sdk import Context


class ProvisionTopicOperator(StreamOperator):
    """Create the topic, add partitions, change declared configs and the bounds of times; return the diff.

    Fails without retries instead of shrinking: fewer partitions, another replication factor; and for a schema
    that its subject refuses. The first attempt also records the run's ``baseline.json`` for the audit; of an
    interval, task `produce` does. While there is no table, objects that do not fit the declaration are
    refused here: those of its first load.
    """

    does = "creates or adjusts the topic as `stream.toml` declares it, and registers its schema if declared"
    fails_if = (
        "it would shrink, or the schema does not go with its subject; without a table, also if an object "
        "does not fit the declaration"
    )

    def work(self, context: Context) -> dict[str, Any]:
        self._check_first(context)
        changed = topic.provision(self.platform_hook, self.spec)
        for diff in changed:
            self.log.info("%s", diff.message())
        if registered := schema.register(self.platform_hook, self.spec):
            self.log.info("%s", registered)
        if not is_interval(self):
            # A load of an interval has its baseline in its plan.
            inventory.record_before(self.platform_hook.lake, self.spec, self.ledger, context["run_id"])
        return changed[0].to_json()

    def _check_first(self, context: Context) -> None:
        """The columns of a table keep their types, so what a first load cannot read is found before the next
        step makes one. Of an interval, task `produce` finds it."""
        hook, spec = self.platform_hook, self.spec
        is_csv = spec.source is SourceType.CSV and not is_interval(self)
        if not is_csv or hook.lake.position(spec.table) is not None:
            return
        usual, given = forms.defaults(spec), context["params"]
        chosen = {name: given.get(name) or usual[name] for name in ("source_prefix", "objects")}
        bucket = hook.source.within(spec.source_prefix, reading_of(spec))
        csv_object.check_first(bucket, chosen["source_prefix"], chosen["objects"] or ())


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
        done = sinks.provision(self.platform_hook, self.spec)
        for line in done:
            self.log.info("%s", line)
        return {"sinks": done}
