"""What is in the lake, read by PyIceberg with the reader's rights: the demo, the drills and the tests prove
their records by it, and by nothing that a job said."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyiceberg.table import Table

from local.errors import Problem
from local.stack import Stack
from sluice.model.stream import StreamSpec
from spark_jobs.common.topic import watermarks

Offsets = dict[int, tuple[int, int]]
Held = dict[int, NDArray[np.int64]]


def tables(stack: Stack, spec: StreamSpec) -> tuple[Table, Table]:
    """The stream's table and its quarantine, with the reader's rights."""
    catalog = stack.catalog("reader")
    return catalog.load_table(spec.table), catalog.load_table(spec.quarantine_table)


def stream_starts(table: Table) -> dict[int, int]:
    """Where the stream began on the topic, from the newest snapshot on main that a consumer made.

    Raises Problem when there is none: then nothing was ever published.
    """
    snapshot = table.current_snapshot()
    while snapshot is not None:
        summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        if "sluice.starts" in summary:
            return {
                int(partition): int(start)
                for partition, start in json.loads(summary["sluice.starts"]).items()
            }
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    raise Problem(f"table {'.'.join(table.name())}: no snapshot on main says where the stream began")


class Coordinates:
    """Offsets by partition, gathered batch by batch."""

    def __init__(self) -> None:
        self._parts: dict[int, list[NDArray[np.int64]]] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds a batch's coordinates; rows refused before they reached the topic have none."""
        on_topic = batch.filter(pc.is_valid(batch.column("_kafka_partition")))
        partitions = on_topic.column("_kafka_partition").to_numpy(zero_copy_only=False)
        values = np.asarray(on_topic.column("_kafka_offset").to_numpy(zero_copy_only=False), np.int64)
        for partition in np.unique(partitions):
            self._parts.setdefault(int(partition), []).append(values[partitions == partition])

    def held(self) -> Held:
        """Not sorted, repeats kept."""
        return {partition: np.concatenate(parts) for partition, parts in self._parts.items()}

    def once(self) -> Held:
        """Sorted, each once: two attempts at a batch may both set a record aside, and it counts once."""
        return {partition: np.unique(values) for partition, values in self.held().items()}


def both(table: Held, aside: Held) -> Held:
    """The table's coordinates and the quarantine's together, repeats kept."""
    nothing = np.empty(0, np.int64)
    return {
        partition: np.concatenate([table.get(partition, nothing), aside.get(partition, nothing)])
        for partition in table.keys() | aside.keys()
    }


def scan(table: Table, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The rows of main, streaming."""
    yield from table.scan(selected_fields=columns).to_arrow_batch_reader()


def gaps(held: Held, starts: dict[int, int], topic: Offsets) -> int:
    """Offsets from the stream's start to the topic's end that nothing holds."""
    missing = 0
    for partition, (begin, end) in topic.items():
        start = starts.get(partition, begin)
        values = np.unique(held.get(partition, np.empty(0, np.int64)))
        inside = int(((values >= start) & (values < end)).sum())
        missing += max(0, end - start) - inside
    return missing


def duplicates(held: Held) -> int:
    """Coordinates that are held more than once, each counted as often as it is too many."""
    return sum(int(len(values) - len(np.unique(values))) for values in held.values())


def strays(held: Held, starts: dict[int, int], topic: Offsets) -> int:
    """Coordinates that are held and not on the topic."""
    count = 0
    for partition, values in held.items():
        begin, end = topic.get(partition, (0, 0))
        start = starts.get(partition, begin)
        count += int(((values < start) | (values >= end)).sum())
    return count


@dataclass(frozen=True)
class Exactness:
    """How the lake compares with the topic: exact is none of each."""

    gaps: int
    duplicates: int
    strays: int
    records: int

    @property
    def is_exact(self) -> bool:
        return (self.gaps, self.duplicates, self.strays) == (0, 0, 0)

    def sentence(self) -> str:
        return (
            f"of {self.records} offsets {self.gaps} are missing, {self.duplicates} are there more than once, "
            f"{self.strays} are there and not on the topic"
        )


def exactness(stack: Stack, spec: StreamSpec) -> Exactness:
    """Every offset of the topic against the table and the quarantine, as they are now."""
    lake, quarantine = tables(stack, spec)
    topic = watermarks(stack.platform("reader").kafka, spec.topic.name)
    in_table, aside = Coordinates(), Coordinates()
    for batch in scan(lake, ("_kafka_partition", "_kafka_offset")):
        in_table.add(batch)
    for batch in scan(quarantine, ("_kafka_partition", "_kafka_offset")):
        aside.add(batch)
    held, starts = both(in_table.held(), aside.once()), stream_starts(lake)
    return Exactness(
        gaps=gaps(held, starts, topic),
        duplicates=duplicates(held),
        strays=strays(held, starts, topic),
        records=total((starts.get(partition, begin), end) for partition, (begin, end) in topic.items()),
    )


def total(values: Iterable[tuple[int, int]]) -> int:
    """Records between begin and end, over all partitions."""
    return sum(end - begin for begin, end in values)
