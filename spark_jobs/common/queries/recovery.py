"""How an owner comes to the checkpoint of a query: from where its table and its sinks say that it stands."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from sluice.model.queries.state import QueryState
from sluice.model.spec.query import Mode, Query
from spark_jobs.common.queries.state_table import QueryStateWriter
from spark_jobs.common.sinks.base import Sink
from spark_jobs.common.spark import offset_log as plans
from spark_jobs.common.spark.checkpoint import Checkpoint, CheckpointCorrupted, Checkpoints

log = logging.getLogger(__name__)


def checkpoint(
    spark: SparkSession, root: str, owner: QueryStateWriter, name: str, sinks: Sequence[Sink]
) -> Checkpoint:
    """The checkpoint from which query ``name`` goes on, after ``owner`` took over; every sink is entered.

    What its table says is in all sinks is forked, and with it the plan of a batch that some sink has already.
    Where no checkpoint holds that, or a sink lacks what no later batch would bring, everything is counted
    anew from the lake: results are upserted under higher versions, so sinks come out right. Raises Fenced
    from a sink where a later owner entered, and LookupError for a query without measures in such a case.
    """
    query, state = owner.spec.queries[name], owner.before[name]
    held = {sink.name: sink.open(owner.epoch) for sink in sinks}
    checkpoints = Checkpoints(spark, root, f"{owner.spec.name}-{name}")
    newest = last_started_batch(name, state, held, query)
    if newest is not None:
        if newest < 0:
            return checkpoints.create(owner.epoch)
        try:
            behind_batch = state.batch if newest == state.batch else newest - 1
            restored = checkpoints.restore(
                owner.epoch, state.checkpoint_epochs, behind_batch, newest, stateful=bool(query.aggregates)
            )
            _refuse_gap(restored, state, behind_batch)
            return restored
        except LookupError as error:
            if query.mode == Mode.APPEND:
                raise behind(name, state, held) from error
            log.warning("%s", error)
    log.warning("query %s counts all of %s anew, its sinks being at %s", name, owner.spec.table, held)
    owner.rebuild(name, max([state.number, *(number for number in held.values() if number is not None)]))
    return checkpoints.create(owner.epoch)


def _refuse_gap(restored: Checkpoint, state: QueryState, batch: int) -> None:
    """Between what the table says and the batch that runs again, nothing was read. Raises CheckpointCorrupted
    else: the table is older than the checkpoint."""
    if batch > state.batch:
        planned = plans.parse(restored.plan(batch), f"{restored.uri}/offsets/{batch}")
        if planned.source != state.source_snapshot_id:
            raise CheckpointCorrupted(
                f"{restored.uri}: batch {batch} read up to snapshot {planned.source}, and the last that is "
                f"known up to {state.source_snapshot_id}"
            )


def last_started_batch(
    name: str, state: QueryState, held: Mapping[str, int | None], query: Query
) -> int | None:
    """The newest batch (numbered as in the streaming query) that some sink of a query has, where it goes on
    from ``state``; None where all must be counted anew, because no batch to come would bring what a sink
    lacks.

    ``held``: sink -> the newest batch that it holds, as sinks number them (None: none). A batch that is in a
    sink and not in ``state`` is planned already, and runs again. Raises LookupError where rows, which cannot
    be counted anew, would be missing.
    """
    lacking = [sink for sink, number in held.items() if number is None or number < state.number]
    if state.batch >= 0 and lacking and query.mode != Mode.COMPLETE:
        if query.mode == Mode.APPEND:
            raise behind(name, state, held)
        return None
    return max(
        [state.batch, *(number - state.batch_offset for number in held.values() if number is not None)]
    )


def behind(name: str, state: QueryState, held: Mapping[str, int | None]) -> LookupError:
    """What is said where rows cannot be counted anew."""
    found = ", ".join(f"{sink} at {'none' if number is None else number}" for sink, number in held.items())
    return LookupError(
        f"query {name} stands at batch {state.number}, {found}: rows would be missing or twice; put back "
        "what is missing, or give the query a new name and its sink a new prefix"
    )
