"""A feed's figures, read from the lake: which events of it are there, and how often."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from pyiceberg.table import Table

from local import evidence
from local.evidence import OFFSETS, Offsets
from sluice.clients import files
from sluice.clients.lake.arrow_sql import quoted

_INSIDE = "join topic on _kafka_partition = part and _kafka_offset >= first and _kafka_offset < until"


@dataclass(frozen=True)
class Span:
    """What came onto a topic between two moments: partition → offsets from, until."""

    offsets: Offsets

    @classmethod
    def between(cls, before: Mapping[int, int], topic: Offsets) -> Span:
        """From the ends `before` (a partition that was none then: from its first) to those of `topic`."""
        return cls({part: (before.get(part, begin), end) for part, (begin, end) in topic.items()})

    @property
    def records(self) -> int:
        return evidence.total(self.offsets.values())


@dataclass(frozen=True)
class Found:
    """What the lake holds of a span: `gaps` are offsets of it that nothing holds, `event_ids` the different
    ones of its rows. `missing`: of the events that were looked for, how many are in no row that was read;
    `duplicates`: offsets and event ids that were read more than once."""

    rows: int
    quarantined: int
    event_ids: int
    gaps: int
    missing: int
    duplicates: int


def gather(
    rows: pa.RecordBatchReader,
    aside: pa.RecordBatchReader,
    span: Span,
    event_id: str,
    wanted: Collection[str],
) -> Found:
    """Out of rows with OFFSETS, those of the table with the event's id in column `event_id`."""
    name = quoted(event_id)
    with evidence.held(rows, aside) as sql:
        exact = evidence.compare(sql, {}, span.offsets)
        ((inside, ids),) = sql.rows(f"select count(*), count(distinct {name}) from lake {_INSIDE}")
        ((put_aside,),) = sql.rows(f"select count(distinct (part, _kafka_offset)) from quarantine {_INSIDE}")
        ((again,),) = sql.rows(f"select count(*) - count(distinct {name}) from lake")
        events = pa.table({"id": pa.array(wanted, pa.string())})
        ((missing,),) = sql.rows(f"select count(*) from events anti join lake on id = {name}", events=events)
    return Found(inside, put_aside, ids, exact.gaps, missing, exact.duplicates + again)


def read(
    table: Table, quarantine: Table, span: Span, event_id: str, since: float, wanted: Collection[str]
) -> Found:
    """From the branches main of both. `since`: when the span began, seconds since 1970; what Kafka got before
    is not read."""
    came = files.at_least("_kafka_timestamp", datetime.fromtimestamp(since, UTC).isoformat())
    return gather(
        evidence.scan(table, (*OFFSETS, event_id), came),
        evidence.scan(quarantine, OFFSETS, came),
        span,
        event_id,
        wanted,
    )
