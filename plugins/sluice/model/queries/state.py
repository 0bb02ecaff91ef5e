"""How far each query is: table summary, topic offsets, fence row.

Where each query of a stream stands, as the summaries of the queries' own table say it. Pure.

How a query's topic says which batch it holds: names and texts that its writer and its readers share.

The mark is the offset of a consumer group, committed in one transaction with the batch's records. Pure.

The table of a foreign database that says who may write there, and how far they got.

One row per writer: its key (``<stream>/<query>``), the writer's epoch, and the last batch that is there. A
step of the DAG makes it, or the first writer; both as it is written here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace

from sluice.model.spec.config import ConfigError
from sluice.model.spec.query import Query

# A crash in each of its batches adds one; the publisher, the last, is always kept.
MAX_CHECKPOINT_EPOCHS = 8


@dataclass(frozen=True)
class QueryState:
    """What is in all sinks of one query: everything of the stream's table up to the snapshot
    ``source_snapshot_id``.

    ``batch`` is the number of the newest batch in its streaming query (-1: none yet), and ``batch_offset``
    what is added to it for the sinks, which know batches by numbers that never fall: a query that begins anew
    begins behind them. Late rows of batches below ``batch_offset`` count again. ``checkpoint_epochs``: the
    owners whose checkpoints may hold the batch, the latest first, the publisher last. ``ends``: what
    ``source_snapshot_id`` said of the topic. ``definition``: what was declared when it was counted.
    """

    definition: str
    batch_offset: int = 0
    batch: int = -1
    source_snapshot_id: int | None = None
    source_snapshot_at: int = 0
    watermark: int = 0
    late_rows: int = 0
    checkpoint_epochs: list[int] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """The newest batch as the sinks call it."""
        return self.batch_offset + self.batch

    def acquired(self, epoch: int) -> QueryState:
        latest, publisher = [epoch, *self.checkpoint_epochs[:-1]], self.checkpoint_epochs[-1:]
        return replace(self, checkpoint_epochs=[*latest[:MAX_CHECKPOINT_EPOCHS], *publisher])

    def rebuild(self, epoch: int, number: int) -> QueryState:
        """Everything is counted again, in batches whose numbers are above ``number``."""
        return QueryState(definition=self.definition, batch_offset=number + 1, checkpoint_epochs=[epoch])


def definition(query: Query) -> str:
    """What the results depend on, besides the code and the rows."""
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
    """The state of each query, from the newest summary that tells any, the newest first.

    A query that was not there then has counted nothing. Raises ConfigError for one that was declared
    otherwise: its sinks hold what another rule counted.
    """
    said = next((summary for summary in summaries if "sluice.queries" in summary), {})
    told = json.loads(said.get("sluice.queries", "{}"))
    states = {}
    for name, query in queries.items():
        there = QueryState(**told[name]) if name in told else QueryState(definition(query))
        if there.definition != definition(query):
            raise ConfigError(
                f"{where}: query {name} was {there.definition} and is {definition(query)} now: what "
                "its sinks hold was "
                "counted otherwise; give the query a new name, and its sinks new tables and topics"
            )
        states[name] = there
    return states


def summary(kind: str, stream: str, epoch: int, states: Mapping[str, QueryState]) -> dict[str, str]:
    """What a snapshot of the queries' table says: ``kind`` is init, epoch-start or batch."""
    return {
        "sluice.kind": kind,
        "sluice.stream": stream,
        "sluice.epoch": str(epoch),
        "sluice.queries": json.dumps({name: asdict(state) for name, state in states.items()}),
    }


def common_end_offsets(states: Iterable[QueryState]) -> dict[int, int]:
    """Partition -> up to which offset all of these queries have counted."""
    told = [state.ends for state in states]
    partitions = {partition for ends in told for partition in ends}
    return {int(p): min(ends.get(p, 0) for ends in told) for p in sorted(partitions, key=int)}


# The group's offsets are on this partition of the topic; the mark says nothing of partitions.
PARTITION = 0
NO_BATCH = -1


@dataclass(frozen=True)
class CommittedBatch:
    """``batch`` is the last that is whole (NO_BATCH: none yet), ``epoch`` the owner who said so."""

    epoch: int
    batch: int = NO_BATCH

    @property
    def offset(self) -> int:
        """As the group has it: the number of the batch that comes next."""
        return self.batch + 1

    def text(self) -> str:
        """The metadata of the group's offset."""
        return json.dumps({"epoch": self.epoch}, separators=(",", ":"))


def parse(offset: int, text: str) -> CommittedBatch:
    """Raises ValueError for what is no committed batch: somebody set the group's offsets by hand, say."""
    try:
        epoch = json.loads(text)["epoch"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"offset {offset} with the metadata {text!r} is no committed batch") from error
    if not isinstance(epoch, int) or isinstance(epoch, bool) or offset < 0:
        raise ValueError(f"offset {offset} with the metadata {text!r} is no committed batch")
    return CommittedBatch(epoch, offset - 1)


def group(stream: str, query: str) -> str:
    """The consumer group that keeps the marks of a query's topics; no part's heartbeat has this name."""
    return f"sluice-{stream}-query-{query}"


def transactional_id(stream: str, query: str, topic: str) -> str:
    """Of the one producer that may write: Kafka fences the one before."""
    return f"{group(stream, query)}-{topic}"


FENCE_TABLE = "sluice_fence"
_DDL = f"""
create table if not exists {FENCE_TABLE} (
    stream varchar(255) not null primary key,
    epoch bigint not null,
    batch bigint not null
)"""


def fence_ddl(dialect: str) -> str:
    """The statement that makes it where it is missing; ``dialect`` is SQLAlchemy's name of it."""
    # In MySQL and MariaDB a server may have been told otherwise: keys told apart by each character, and an
    # engine with transactions.
    mysql = " engine = InnoDB character set utf8mb4 collate utf8mb4_bin"
    return _DDL if dialect == "postgresql" else _DDL + mysql


def fence_key(stream: str, query: str) -> str:
    """The key of a query's row. Raises ValueError where it is longer than the column."""
    key = f"{stream}/{query}"
    if len(key) > 255:
        raise ValueError(f"{key}: longer than 255 characters; give stream or query a shorter name")
    return key
