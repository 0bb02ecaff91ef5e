"""Committed progress of queries: in table summaries, topic offsets and the fence table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace

from sluice.config.reading.toml import ConfigError
from sluice.config.sections.query import VERSION, Query
from sluice.core.tables.records import Headers

# A crash per batch adds one; the publisher, the last, is always kept.
MAX_CHECKPOINTS = 8


@dataclass(frozen=True)
class QueryState:
    """All sinks of the query have the stream's table up to the snapshot ``source_snapshot_id``.

    ``batch``: newest batch of the streaming query (-1: none); ``batch_offset`` is added to it for the sinks,
    whose batch numbers never fall, also after a rebuild, which counts late rows again. ``late_rows``: once
    per window; ``early_rows``: once each. ``checkpoints``:
    writers whose checkpoints may hold the batch, the latest first, the publisher last. ``ends``: end offsets
    of ``source_snapshot_id``. ``definition``: of :func:`definition`. ``source_changes``: number of changes of
    rows of the stream's table that it knows; of these, ``uncorrected`` are not in its sinks.

    The stream's snapshots since ``source_snapshot_at`` (ms since 1970) are kept for the query. Before the
    first batch, which reads the table as of then, it is set alone.
    """

    definition: str
    batch_offset: int = 0
    batch: int = -1
    source_snapshot_id: int | None = None
    source_snapshot_at: int = 0
    watermark: int = 0
    late_rows: int = 0
    early_rows: int = 0
    checkpoints: list[str] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)
    source_changes: int = 0
    uncorrected: int = 0

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

    def leave_uncorrected(self, source_changes: int) -> QueryState:
        """After so many changes of the stream's table, the newest of which its sinks will not have."""
        more = source_changes - self.source_changes
        return replace(self, source_changes=source_changes, uncorrected=self.uncorrected + more)


def definition(query: Query) -> str:
    """The parts of a declaration on which results depend."""
    measured: dict[str, object] = {
        "group_by": query.group_by,
        "aggregates": query.aggregates,
        "mode": query.mode,
    }
    if query.where:
        measured["where"] = {column: sorted(values) for column, values in query.where.items()}
    if query.window:
        window = asdict(query.window)
        measured |= {
            "event_time": query.event_time,
            "window": window,
            "watermark_minutes": query.watermark_minutes,
        }
    return json.dumps(measured, sort_keys=True)


def read(
    summaries: Iterable[Mapping[str, str]], queries: Mapping[str, Query], where: str
) -> dict[str, QueryState]:
    """The state of each query from the newest of ``summaries`` (newest first) that has states.

    A new query has an empty state. Raises ConfigError for one whose definition changed.
    """
    newest = next((summary for summary in summaries if "sluice.queries" in summary), {})
    recorded = json.loads(newest.get("sluice.queries", "{}"))
    states = {}
    for name, query in queries.items():
        state = QueryState(**recorded[name]) if name in recorded else QueryState(definition(query))
        if state.definition != definition(query):
            raise ConfigError(
                f"{where}: query {name} was {state.definition} and is {definition(query)} now: its "
                "definition changed. Fix: give the query a new name, and its sinks new tables and topics"
            )
        states[name] = state
    return states


def oldest_source(summaries: Iterable[Mapping[str, str]], queries: Iterable[str], default: int) -> int:
    """When the oldest snapshot was committed that one of ``queries`` read last, or begins with (ms since
    1970).

    From the newest of ``summaries`` (newest first) that has states; ``default`` if none has read one.
    """
    newest = next((summary for summary in summaries if "sluice.queries" in summary), {})
    recorded = json.loads(newest.get("sluice.queries", "{}"))
    states = [QueryState(**recorded[name]) for name in queries if name in recorded]
    return min((s.source_snapshot_at for s in states if s.source_snapshot_at), default=default)


def summary(kind: str, stream: str, epoch: int, states: Mapping[str, QueryState]) -> dict[str, str]:
    """Summary of a snapshot of the queries' table; ``kind``: epoch-start, query-start or batch."""
    return {
        "sluice.kind": kind,
        "sluice.stream": stream,
        "sluice.epoch": str(epoch),
        "sluice.queries": json.dumps({name: asdict(state) for name, state in states.items()}),
    }


def common_end_offsets(states: Iterable[QueryState]) -> dict[int, int]:
    """Partition -> end offset that all of the queries have reached."""
    end_offsets = [state.ends for state in states]
    partitions = {partition for ends in end_offsets for partition in ends}
    return {int(p): min(ends.get(p, 0) for ends in end_offsets) for p in sorted(partitions, key=int)}


# The group's offset is on this partition of the topic, whatever the batch's partitions.
PARTITION = 0
NO_BATCH = -1


@dataclass(frozen=True)
class CommittedBatch:
    """Offset of a consumer group, committed in one transaction with the records of ``batch``."""

    epoch: int
    batch: int = NO_BATCH

    @property
    def offset(self) -> int:
        """The group's offset: the number of the next batch."""
        return self.batch + 1

    def text(self) -> str:
        """The metadata of the group's offset."""
        return json.dumps({"epoch": self.epoch}, separators=(",", ":"))


def parse(offset: int, text: str) -> CommittedBatch:
    """Raises ValueError for another offset, as one set by hand."""
    try:
        epoch = json.loads(text)["epoch"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"offset {offset} with the metadata {text!r} is no committed batch") from error
    if not isinstance(epoch, int) or isinstance(epoch, bool) or offset < 0:
        raise ValueError(f"offset {offset} with the metadata {text!r} is no committed batch")
    return CommittedBatch(epoch, offset - 1)


# Headers of a record, as confluent-kafka has them.


def tombstone_headers(batch: int) -> Headers:
    """The headers of a record without a value: its key has no result any more, as of ``batch``."""
    return [(VERSION, str(batch).encode())]


def tombstone_version(headers: Headers | dict[str, str | bytes | None] | None) -> int:
    """The batch in :func:`tombstone_headers`. Raises ValueError for another record without a value."""
    found = dict(headers or ()).get(VERSION)
    if found is None or not found.isdigit():
        raise ValueError(f"it has no value, and its header {VERSION} is {found!r}")
    return int(found)


def group(stream: str, query: str) -> str:
    """The consumer group of a query's topics; no heartbeat's group has this name."""
    return f"sluice-{stream}-query-{query}"


def transactional_id(stream: str, query: str, topic: str) -> str:
    """Return the id of the one producer that may write: Kafka fences its predecessor."""
    return f"{group(stream, query)}-{topic}"


FENCE_TABLE = "sluice_fence"
_DDL = f"""
create table if not exists {FENCE_TABLE} (
    stream varchar(255) not null primary key,
    epoch bigint not null,
    batch bigint not null
)"""


def fence_ddl(dialect: str) -> str:
    """``dialect``: SQLAlchemy's name."""
    # A MySQL or MariaDB server may have other defaults than exact keys and an engine with transactions.
    mysql = " engine = InnoDB character set utf8mb4 collate utf8mb4_bin"
    return _DDL if dialect == "postgresql" else _DDL + mysql


def fence_key(stream: str, query: str) -> str:
    """Raises ValueError if it is longer than the column."""
    key = f"{stream}/{query}"
    if len(key) > 255:
        raise ValueError(f"{key}: longer than 255 characters. Fix: give stream or query a shorter name")
    return key
