"""Jobs and tasks of the path, over pieces that are given in place of Kafka's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sluice.clients.kafka.log.range_reader import Epochs
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.platform_sections.s3 import S3
from sluice.config.schema import Partition
from sluice.core.decoding.decoder import OwnRecords
from sluice.core.offsets.ranges import IntervalSet
from sluice.core.record_batches.account import Account
from spark_jobs.common.consumer.direct.task import Duplicates, Job, Part, Task
from spark_jobs.common.lake.data_files.partitioned import Layout
from tests.support.field_ids import with_ids
from tests.support.numbered import NumberedDecoder

_PLACE = [("_kafka_partition", pa.int32()), ("_kafka_offset", pa.int64())]
_TIME = ("_kafka_timestamp", pa.timestamp("us", tz="UTC"))
_SOURCE = [("_source_id", pa.string()), ("_source_row", pa.int64()), ("_source_base_offset", pa.int64())]
TABLE = with_ids(pa.schema([*NumberedDecoder.schema, *_PLACE, _TIME, *_SOURCE]))
# Without the columns of a record that a producer rejects.
QUARANTINE = with_ids(
    pa.schema(
        [
            ("stage", pa.string()),
            ("reason", pa.string()),
            *_PLACE,
            _TIME,
            ("_kafka_timestamp_type", pa.int32()),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            *_SOURCE,
            ("quarantined_at", pa.timestamp("us", tz="UTC")),
        ]
    )
)


def account(start: int, until: int, **more: Any) -> Account:
    """All offsets have a record, unless ``more`` says otherwise."""
    none, every = IntervalSet(), IntervalSet.of([(start, until)])
    return Account(
        **{
            **dict.fromkeys(("control", "aborted", "absent"), none),
            "wanted": every,
            "records": every,
            "leader_epoch": 3,
            **more,
        }
    )


class Ranges:
    """A reader that yields the given pieces of each partition. ``events``: what was done with a partition."""

    def __init__(self, pieces: Mapping[int, Sequence[pa.RecordBatch]]) -> None:
        self.pieces, self.asked = pieces, list[tuple[int, IntervalSet, Epochs]]()
        self.events = list[tuple[str, int]]()

    def read(self, partition: int, wanted: IntervalSet, epochs: Epochs) -> Any:
        self.asked.append((partition, wanted, epochs))
        return _Read(self.pieces[partition], lambda what: self.events.append((what, partition)))


class _Read:
    def __init__(self, pieces: Sequence[pa.RecordBatch], note: Callable[[str], None]) -> None:
        self._pieces, self._note = pieces, note

    def ask_ahead(self) -> None:
        self._note("ask")

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        self._note("read")
        return iter(self._pieces)

    @property
    def account(self) -> Account:
        offsets = [offset for piece in self._pieces for offset in piece.column("offset").to_pylist()]
        return account(min(offsets, default=0), max(offsets, default=-1) + 1)


def job(*partition_by: str) -> Job:
    return Job(
        Kafka("localhost:1"),
        S3("a", "b"),
        "trips",
        "T",
        Layout(TABLE, "s3://lake/raw/t/data/", tuple(map(Partition, partition_by))),
        Layout(QUARANTINE, "s3://lake/raw/q/data/"),
        OwnRecords(NumberedDecoder()),
    )


def task(*partitions: int, duplicates: Duplicates | None = None) -> Task:
    parts = tuple(Part(one, IntervalSet.of([(0, 1)]), Epochs(2, 3)) for one in partitions)
    return Task(parts, duplicates)
