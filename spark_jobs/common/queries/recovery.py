"""Restore a query's checkpoint from the state in its table and the batches in its sinks."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from sluice.config.platform_sections.lake import CATALOG
from sluice.config.sections.query import Mode, Query
from sluice.core.error_codes import ErrorCode
from sluice.core.queries.progress import QueryState
from spark_jobs.common.consumer.state import changes_until
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from spark_jobs.common.queries import aggregate, first_batch
from spark_jobs.common.queries.state_table import QueryStateWriter
from spark_jobs.common.sinks.base import Sink
from spark_jobs.common.spark import offset_log as plans
from spark_jobs.common.spark.checkpoint import Checkpoint, CheckpointCorrupted, Checkpoints

log = logging.getLogger(__name__)


class SourceLost(LookupError):
    """The stream's table no longer has a snapshot from which a query would continue."""

    code = ErrorCode.PARTIAL_SNAPSHOT_READ


def checkpoint(
    spark: SparkSession, root: str, writer: QueryStateWriter, name: str, sinks: Sequence[Sink]
) -> Checkpoint:
    """The checkpoint from which query ``name`` resumes; opens its sinks.

    It is copied from an earlier epoch at the batch of the query's state, with the plan of a batch that some
    sink has. If no checkpoint has that, a sink misses a batch, the stream's table has lost the snapshots to
    continue from, a change came since, or a column whose values it keeps has another type, the query is
    rebuilt: all results are written again with higher versions, and all others are removed. A query without
    aggregates is not corrected, and says so in its state. Raises Fenced, ConcurrentCommit,
    PartialSnapshotRead, and LookupError for a query without aggregates that cannot be resumed: a rebuild
    would duplicate its rows.
    """
    query, state = writer.spec.queries[name], writer.before[name]
    source = IcebergTable(spark, writer.spec.table)
    changes = changes_until(source.snapshots(MAIN), source.head(MAIN)).of_rows
    sink_batches = {sink.name: sink.open(writer.epoch) for sink in sinks}
    checkpoints = Checkpoints(spark, root, f"{writer.spec.name}-{name}")
    newest = last_started_batch(name, state, sink_batches, query)
    is_changed = newest is not None and newest >= 0 and changes != state.source_changes
    if is_changed:
        log.warning(
            "query %s: rows of %s changed %d times", name, source.name, changes - state.source_changes
        )
        if query.mode == Mode.APPEND:
            writer.leave_uncorrected(name, changes)
    types = aggregate.state_types(spark.table(f"{CATALOG}.{source.name}").schema, query)
    has_other_types = state.has_other_types(types)
    if has_other_types:
        log.warning("query %s: its state is of %s, and %s has %s", name, state.types, source.name, types)
    if newest is not None and (query.mode == Mode.APPEND or not (is_changed or has_other_types)):
        if newest < 0:
            return _start(spark, writer, name, checkpoints, types)
        try:
            _check_kept(name, source, state.source_snapshot_id)
            resumed = state.batch if newest == state.batch else newest - 1
            restored = checkpoints.restore(
                writer.branch, state.checkpoints, resumed, newest, stateful=bool(query.aggregates)
            )
            _check_no_gap(restored, state, resumed)
            # The batch that runs again, and the one before it. The first batch has none before it.
            for batch in {max(resumed, 0), newest}:
                _check_kept(name, source, plans.read(restored, batch).source)
            writer.keep_types(name, types)
            return restored
        except SourceLost as error:
            if query.mode == Mode.APPEND:
                raise SourceLost(
                    f"{error}; rows would be missing or duplicated. Fix: give the query a new name and its "
                    "sink a new prefix"
                ) from error
            log.warning("%s", error)
        except LookupError as error:
            if query.mode == Mode.APPEND:
                raise _behind(name, state, sink_batches) from error
            log.warning("%s", error)
    log.warning("query rebuilt query=%s table=%s sinks=%s", name, writer.spec.table, sink_batches)
    numbers = [number for number in sink_batches.values() if number is not None]
    writer.rebuild(name, max([state.number, *numbers]))
    return _start(spark, writer, name, checkpoints, types)


def _start(
    spark: SparkSession,
    writer: QueryStateWriter,
    name: str,
    checkpoints: Checkpoints,
    types: Mapping[str, str],
) -> Checkpoint:
    created = checkpoints.create(writer.branch)
    snapshot = first_batch.plan(spark, created, writer.spec.table)
    source = IcebergTable(spark, writer.spec.table)
    writer.start(name, snapshot.at_ms, changes_until(source.snapshots(MAIN), snapshot.id).of_rows, types)
    return created


def _check_kept(name: str, source: IcebergTable, snapshot_id: int | None) -> None:
    """Raise SourceLost unless ``main`` descends from a snapshot that the query has read, or plans to."""
    if snapshot_id is not None and not source.on_main(snapshot_id):
        raise SourceLost(
            f"query {name} has read {source.name} up to snapshot {snapshot_id}, which is not on main any "
            "more: it expired while the queries were stopped, or the catalog was restored"
        )


def _check_no_gap(restored: Checkpoint, state: QueryState, batch: int) -> None:
    """Raises CheckpointCorrupted if the checkpoint read more than the state says: the table is older."""
    if batch > state.batch:
        planned = plans.read(restored, batch)
        if planned.source != state.source_snapshot_id:
            raise CheckpointCorrupted(
                f"{restored.uri}: batch {batch} read up to snapshot {planned.source}, the last "
                f"committed batch up to {state.source_snapshot_id}"
            )


def last_started_batch(
    name: str, state: QueryState, sink_batches: Mapping[str, int | None], query: Query
) -> int | None:
    """The newest batch (the streaming query's number) that some sink has; None to rebuild the query, because
    a sink misses a batch that no later one repeats. In mode complete that is the first: later ones repeat all
    results, and remove none.

    ``sink_batches``: sink -> its newest batch (the sinks' number; None: empty). Raises LookupError for a
    query without aggregates, which cannot be rebuilt.
    """
    needed = state.batch_offset if query.mode == Mode.COMPLETE else state.number
    behind_sinks = [sink for sink, number in sink_batches.items() if number is None or number < needed]
    if state.batch >= 0 and behind_sinks:
        if query.mode == Mode.APPEND:
            raise _behind(name, state, sink_batches)
        return None
    started = [number - state.batch_offset for number in sink_batches.values() if number is not None]
    return max([state.batch, *started])


def _behind(name: str, state: QueryState, sink_batches: Mapping[str, int | None]) -> LookupError:
    found = ", ".join(
        f"{sink} at {'none' if number is None else number}" for sink, number in sink_batches.items()
    )
    return LookupError(
        f"query {name} is at batch {state.number}, {found}: rows would be missing or duplicated; restore the "
        "sink, or give the query a new name and its sink a new prefix"
    )
