"""A feed's figures, read from the lake: which events of it are there, and how often."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyiceberg.table import Table

from local import evidence
from local.evidence import Coordinates, Held, Offsets

PLACE = ("_kafka_partition", "_kafka_offset")


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

    def count(self, held: Held) -> int:
        """How many of these coordinates lie in it."""
        return sum(
            int(((held[part] >= begin) & (held[part] < end)).sum())
            for part, (begin, end) in self.offsets.items()
            if part in held
        )

    def mask(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Which rows' coordinates lie in it; those without any do not."""
        partitions = batch.column(PLACE[0]).fill_null(-1).to_numpy(zero_copy_only=False)
        offsets = batch.column(PLACE[1]).fill_null(-1).to_numpy(zero_copy_only=False)
        inside = np.zeros(batch.num_rows, np.bool_)
        for partition, (begin, end) in self.offsets.items():
            inside |= (partitions == partition) & (offsets >= begin) & (offsets < end)
        return inside


@dataclass(frozen=True)
class Found:
    """What the lake holds of a span. `ids`: of its rows' events; `ids_read`: of all rows that were read, also
    those that came later; `again`: of them, how many rows are of an event that is there already. `held`:
    coordinates, table and quarantine together, repeats kept."""

    rows: int
    quarantined: int
    ids: set[str]
    ids_read: set[str]
    again: int
    held: Held

    def gaps(self, span: Span) -> int:
        """Offsets of the span that nothing holds."""
        return evidence.gaps(
            self.held, {part: begin for part, (begin, _) in span.offsets.items()}, span.offsets
        )


def gather(
    rows: Iterable[pa.RecordBatch], aside: Iterable[pa.RecordBatch], span: Span, event_id: str
) -> Found:
    """Out of batches with coordinates, those of the table with the event's id in column `event_id`."""
    in_table, in_quarantine = Coordinates(), Coordinates()
    inside_rows = every = 0
    ids: set[str] = set()
    ids_read: set[str] = set()
    for batch in rows:
        inside = span.mask(batch)
        in_table.add(batch)
        every += batch.num_rows
        inside_rows += int(inside.sum())
        ids_read.update(batch.column(event_id).to_pylist())
        ids.update(batch.filter(pa.array(inside)).column(event_id).to_pylist())
    for batch in aside:
        in_quarantine.add(batch)
    # Two attempts at a batch may both set a record aside, and it counts once.
    put_aside = in_quarantine.once()
    return Found(
        rows=inside_rows,
        quarantined=span.count(put_aside),
        ids=ids,
        ids_read=ids_read,
        again=every - len(ids_read),
        held=evidence.both(in_table.held(), put_aside),
    )


def read(table: Table, quarantine: Table, span: Span, event_id: str, since: float) -> Found:
    """From the branches main of both. `since`: when the span began, seconds since 1970; what Kafka got before
    is not read."""
    came = f"_kafka_timestamp >= '{datetime.fromtimestamp(since, UTC).isoformat()}'"
    return gather(
        table.scan(came, selected_fields=(*PLACE, event_id)).to_arrow_batch_reader(),
        quarantine.scan(came, selected_fields=PLACE).to_arrow_batch_reader(),
        span,
        event_id,
    )
