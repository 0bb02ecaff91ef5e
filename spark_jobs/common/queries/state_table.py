"""The table of a stream's query states and late rows, and its writer. Early rows are only counted: which
they are follows from their own columns.

A batch goes to all sinks of its query first; then one commit to this table says so. So after a crash a sink
is at most one batch ahead of the table; that batch is planned in the checkpoint, and runs again.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.config import query_definition
from sluice.config.stream import StreamSpec
from sluice.core.queries import progress
from sluice.core.queries.progress import QueryState
from spark_jobs.common.lake import tables
from spark_jobs.common.lake.iceberg import MAIN
from spark_jobs.common.lake.writer_lease import WriterLease

COLUMNS = (
    "query STRING NOT NULL",
    "batch BIGINT NOT NULL COMMENT 'as the sinks number it'",
    "window_start TIMESTAMP NOT NULL COMMENT 'of the window that was final when the row came'",
    "_kafka_partition INT NOT NULL",
    "_kafka_offset BIGINT NOT NULL",
)
# The task compare_sinks reads recent batches.
KEEP_SNAPSHOTS = 20


class QueryStateWriter(WriterLease):
    """The writer of one stream's queries. Only :meth:`rebuild` and :meth:`publish` are thread-safe."""

    def __init__(self, spark: SparkSession, spec: StreamSpec) -> None:
        tables.create(spark, spec.queries_table, COLUMNS)
        super().__init__(spark, spec.queries_table, f"the queries of {spec.name}")
        self.spec = spec
        self.states: dict[str, QueryState] = {}
        # Before this writer: with the writers whose checkpoints may hold the newest batch.
        self.before: Mapping[str, QueryState] = {}
        self._lock = threading.Lock()

    def acquire(self) -> None:
        """Become the writer, also again after ConcurrentCommit; read the states before.

        Raises ConfigError if a query's definition has changed.
        """

        def read() -> None:
            summaries = (snapshot.summary for snapshot in self.table.snapshots(MAIN))
            self.before = query_definition.read(summaries, self.spec.queries, self.table.name)

        def summary() -> dict[str, str]:
            self.states = {name: state.acquired(self.branch) for name, state in self.before.items()}
            return progress.summary("epoch-start", self.spec.name, self.epoch, self.states)

        self._acquire(read, summary)

    def rebuild(self, query: str, number: int) -> None:
        """Start ``query`` from the beginning, with batch numbers above ``number``."""
        # Queries that started earlier publish meanwhile, each the states of all.
        with self._lock:
            self.states = {**self.states, query: self.states[query].rebuild(self.branch, number)}

    def leave_uncorrected(self, query: str, source_changes: int) -> None:
        """Continue ``query`` without the newest of so many changes; committed with its next batch."""
        with self._lock:
            self.states = {**self.states, query: self.states[query].leave_uncorrected(source_changes)}

    def keep_types(self, query: str, types: Mapping[str, str]) -> None:
        """Continue ``query`` with values of these types; committed with its next batch."""
        with self._lock:
            self.states = {**self.states, query: replace(self.states[query], types=dict(types))}

    def start(self, query: str, source_at: int, source_changes: int, types: Mapping[str, str]) -> None:
        """Commit that the first batch of ``query`` reads the stream's table as of ``source_at`` (ms since
        1970), so that the snapshots from then on are kept for the next one. ``source_changes``: number of
        changes until then; ``types``: of the values that the query keeps. Raises as :meth:`publish`."""
        with self._lock:
            state = replace(
                self.states[query],
                source_snapshot_at=source_at,
                source_changes=source_changes,
                checkpoints=[self.branch],
                types=dict(types),
            )
            after = {**self.states, query: state}
            self.stage_summary(progress.summary("query-start", self.spec.name, self.epoch, after))
            self._publish(KEEP_SNAPSHOTS)
            self.states = after

    def publish(self, query: str, state: QueryState, late: DataFrame | None) -> None:
        """Commit that all sinks of ``query`` are at ``state``, and the ``late`` rows of its newest batch.

        Raises Fenced, or ConcurrentCommit if maintenance moved ``main``; then nothing is committed.
        """
        with self._lock:
            after = {**self.states, query: replace(state, checkpoints=[self.branch])}
            summary = progress.summary("batch", self.spec.name, self.epoch, after)
            if late is None:
                self.stage_summary(summary)
            else:
                rows = late.select(F.lit(query).alias("query"), F.lit(state.number).alias("batch"), "*")
                self.write_branch(rows, summary)
            self._publish(KEEP_SNAPSHOTS)
            self.states = after
