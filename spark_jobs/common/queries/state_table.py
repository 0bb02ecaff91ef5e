"""The owner of a stream's queries: how far each is, and which rows came too late, in a table of their own.

A batch goes to all sinks of its query first, each of which takes a batch's number once and refuses an earlier
owner; then one commit says that they have it. So between two batches the table tells where the sinks are, and
after a crash a sink is one batch ahead of it at most: that batch is planned in the checkpoint, and runs
again.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.model.queries import state as states
from sluice.model.queries.state import QueryState
from sluice.model.spec.stream import StreamSpec
from spark_jobs.common.lake import tables
from spark_jobs.common.lake.iceberg import MAIN
from spark_jobs.common.lake.writer_lease import LeasedWriter

COLUMNS = (
    "query STRING NOT NULL",
    "batch BIGINT NOT NULL COMMENT 'as the sinks number it'",
    "window_start TIMESTAMP NOT NULL COMMENT 'of the window that was final when the row came'",
    "_kafka_partition INT NOT NULL",
    "_kafka_offset BIGINT NOT NULL",
)
# A check looks batches up that are not long ago.
KEEP_SNAPSHOTS = 200


class QueryStateWriter(LeasedWriter[Mapping[str, QueryState]]):
    """Owns the queries of one stream from :meth:`acquire` on. :meth:`publish` may be called by the threads
    of several queries; the rest not."""

    def __init__(self, spark: SparkSession, spec: StreamSpec) -> None:
        tables.create(spark, spec.queries_table, COLUMNS)
        super().__init__(spark, spec.queries_table, f"the queries of {spec.name}")
        self.spark, self.spec = spark, spec
        self.states: dict[str, QueryState] = {}
        # Who may have the newest batch in a checkpoint, before this owner.
        self.before: Mapping[str, QueryState] = {}
        self._one_at_a_time = threading.Lock()

    def acquire(self) -> Mapping[str, QueryState]:
        """Become the owner, also once more after ConcurrentCommit. Returns where each query stands, with the
        holders of before. Raises ConfigError for a query that was declared otherwise when it was counted."""

        def read() -> None:
            summaries = (summary for _, summary in self.table.ancestors(MAIN))
            self.before = states.read(summaries, self.spec.queries, self.table.name)

        def summary(kind: str) -> dict[str, str]:
            self.states = {name: state.acquired(self.epoch) for name, state in self.before.items()}
            return states.summary(kind, self.spec.name, self.epoch, self.states)

        self._acquire(read, summary)
        return self.before

    def rebuild(self, query: str, number: int) -> None:
        """``query`` counts everything again, in batches numbered above ``number``; said with its first."""
        self.states[query] = self.states[query].rebuild(self.epoch, number)

    def publish(self, query: str, state: QueryState, late: DataFrame | None) -> None:
        """Say that all sinks of ``query`` are at ``state``, and which rows of its newest batch were ``late``.

        Raises Fenced when a later owner has taken over, ConcurrentCommit when maintenance moved ``main``;
        then it is not said.
        """
        with self._one_at_a_time:
            said = {**self.states, query: replace(state, checkpoint_epochs=[self.epoch])}
            summary = states.summary("batch", self.spec.name, self.epoch, said)
            if late is None:
                self.table.commit_empty(self.branch, summary)
            else:
                rows = late.select(F.lit(query).alias("query"), F.lit(state.number).alias("batch"), "*")
                self.write_branch(rows, summary)
            self._publish()
            self.states = said
            self._cleanup(KEEP_SNAPSHOTS)
