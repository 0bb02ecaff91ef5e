"""The progress of queries, as summaries of their table have it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace

from sluice.core.tables.summary import EPOCH, KIND, QUERIES, STREAM

# A crash per batch adds one; the publisher, the last, is always kept.
MAX_CHECKPOINTS = 8


@dataclass(frozen=True)
class QueryState:
    """All sinks of the query have the stream's table up to the snapshot ``source_snapshot_id``.

    The stream's snapshots since ``source_snapshot_at`` are kept for the query. Before the first batch, which
    reads the table as of then, it is set alone.
    """

    definition: str
    """The text of ``config.query_definition``: another one needs a rebuild."""
    batch_offset: int = 0
    """Added to ``batch`` for the sinks, whose batch numbers never fall, also after a rebuild."""
    batch: int = -1
    """The newest of the streaming query; -1: none."""
    source_snapshot_id: int | None = None
    source_snapshot_at: int = 0
    """When that snapshot was committed, in ms since 1970."""
    watermark: int = 0
    """The newest batch's, in ms since 1970; 0 before the first."""
    late_rows: int = 0
    """Number, once per window; a rebuild counts them again."""
    early_rows: int = 0
    """Number, once each."""
    checkpoints: list[str] = field(default_factory=list)
    """Writers whose checkpoints may hold the batch, the latest first, the publisher last."""
    ends: dict[str, int] = field(default_factory=dict)
    """Partition -> end offset of the source's snapshot."""
    source_changes: int = 0
    """Number of changes of rows of the stream's table that it knows."""
    uncorrected: int = 0
    """How many of these its sinks do not have."""
    types: dict[str, str] = field(default_factory=dict)
    """Column -> Spark's type, of those whose values it has; none in a state of 0.1.0."""

    @property
    def number(self) -> int:
        """The newest batch by the sinks' numbers."""
        return self.batch_offset + self.batch

    def acquired(self, writer: str) -> QueryState:
        latest, publisher = [writer, *self.checkpoints[:-1]], self.checkpoints[-1:]
        return replace(self, checkpoints=[*latest[:MAX_CHECKPOINTS], *publisher])

    def rebuild(self, writer: str, number: int) -> QueryState:
        """Count everything again, in batches above ``number``."""
        return QueryState(definition=self.definition, batch_offset=number + 1, checkpoints=[writer])

    def has_other_types(self, types: Mapping[str, str]) -> bool:
        """Whether its values are of other types than these: equal ones would count twice. What it does not
        know, it has none of."""
        return bool(self.types) and self.types != types

    def leave_uncorrected(self, source_changes: int) -> QueryState:
        """After so many changes of the stream's table, the newest of which its sinks will not have."""
        more = source_changes - self.source_changes
        return replace(self, source_changes=source_changes, uncorrected=self.uncorrected + more)


def oldest_source(summaries: Iterable[Mapping[str, str]], queries: Iterable[str], default: int) -> int:
    """When the oldest snapshot was committed that one of ``queries`` read last, or begins with (ms since
    1970).

    From the newest of ``summaries`` (newest first) that has states; ``default`` if none has read one.
    """
    newest = next((summary for summary in summaries if QUERIES in summary), {})
    recorded = json.loads(newest.get(QUERIES, "{}"))
    states = [QueryState(**recorded[name]) for name in queries if name in recorded]
    return min((s.source_snapshot_at for s in states if s.source_snapshot_at), default=default)


def summary(kind: str, stream: str, epoch: int, states: Mapping[str, QueryState]) -> dict[str, str]:
    """Summary of a snapshot of the queries' table; ``kind``: epoch-start, query-start or batch."""
    return {
        KIND: kind,
        STREAM: stream,
        EPOCH: str(epoch),
        QUERIES: json.dumps({name: asdict(state) for name, state in states.items()}),
    }


def common_end_offsets(states: Iterable[QueryState]) -> dict[int, int]:
    """Partition -> end offset that all of the queries have reached."""
    end_offsets = [state.ends for state in states]
    partitions = {partition for ends in end_offsets for partition in ends}
    return {int(p): min(ends.get(p, 0) for ends in end_offsets) for p in sorted(partitions, key=int)}
