"""A topic that others fill, and a stream over it, without a stack: records have times, and no content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sluice.clients.kafka.admin import TopicDescription
from sluice.clients.lake.catalog import Lake
from sluice.config import streams
from sluice.config.sections.topic import Topic
from sluice.config.stream import StreamSpec
from sluice.core.json_record import Document
from sluice.ledger.batch_log import FOLDER
from sluice.ledger.batches import BatchLog
from sluice.ledger.documents import Ledger
from sluice.loads.planning.topic import Interval, TopicPlanner
from tests.support import lake as lakes
from tests.support.memory_s3 import MemoryS3
from tests.support.steps import ledger
from tests.support.verification import NotVerifiedError, RowsVerification

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
FORM: dict[str, Any] = {"until_time": None}
NAME = "shop.orders"


def at(minutes: float) -> datetime:
    """Minutes after noon."""
    return NOON + timedelta(minutes=minutes)


@dataclass
class OthersTopic:
    """``times``: partition -> the time of each record in minutes after noon, None of one without a record;
    ``first``: partition -> the first offset kept."""

    times: dict[int, list[float]] = field(default_factory=dict)
    first: dict[int, int] = field(default_factory=dict)
    id: str = "t1"
    configs: dict[str, str | None] = field(default_factory=dict)
    servers = "kafka:9092"

    def send(self, partition: int, *minutes: float) -> None:
        self.times.setdefault(partition, []).extend(minutes)

    def find(self, topic: str) -> TopicDescription | None:
        return TopicDescription(self.id, len(self.times)) if topic == NAME and self.times else None

    def describe(self, topic: str) -> TopicDescription:
        found = self.find(topic)
        assert found is not None
        return found

    def config(self, topic: str) -> dict[str, str | None]:
        return self.configs

    def begins(self, topic: str, partitions: int | None = None) -> dict[int, int]:
        return {partition: self.first.get(partition, 0) for partition in self.times}

    def ends(self, topic: str) -> dict[int, int]:
        return {partition: len(times) for partition, times in self.times.items()}

    def first_after(self, topic: str, at_ms: int, ends: Mapping[int, int]) -> dict[int, int]:
        found = self.first_records(topic, at_ms, ends)
        return {
            partition: found[partition][0] if partition in found else end for partition, end in ends.items()
        }

    def first_records(self, topic: str, at_ms: int, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        begins = self.begins(topic)
        kept = (
            (partition, offset, int(at(minutes).timestamp() * 1000))
            for partition in partitions
            for offset, minutes in enumerate(self.times[partition])
            if offset >= begins[partition]
        )
        # The last one that is put in is the first one of its partition.
        return {p: (offset, ms) for p, offset, ms in reversed([*kept]) if ms >= at_ms}


class OthersStream:
    """The topic, the stream's table (SQLite and files), and its ledger in memory."""

    def __init__(self, folder: Path, starts: Mapping[int, int] | None = None, partitions: int = 1) -> None:
        self.s3 = MemoryS3()
        self.ledger: Ledger = ledger("nyc_taxi", self.s3)
        self.lake: Lake = lakes.make(folder)
        self.kafka = OthersTopic({partition: [] for partition in range(partitions)})
        self.spec: StreamSpec = replace(
            streams.load("nyc_taxi"), topic=Topic(NAME, managed=False), backfill=None, decode=""
        )
        self.starts = dict(starts or dict.fromkeys(range(partitions), 0))
        self.published = dict(self.starts)
        self.platform = SimpleNamespace(kafka=SimpleNamespace(max_batch_bytes=64 << 20))
        self._commit([], "epoch-start")

    def batch_log(self, table: str) -> BatchLog:
        return BatchLog(self.lake.table(table), Ledger(self.s3.as_client(), "s3://w/nyc_taxi", FOLDER))

    def publish(self, without: Mapping[int, list[int]] | None = None) -> None:
        """What the consumer does with all that came. ``without``: partition -> offsets that it loses."""
        rows = [
            (partition, offset)
            for partition, end in self.kafka.ends(NAME).items()
            for offset in range(self.published.get(partition, 0), end)
            if offset not in (without or {}).get(partition, [])
        ]
        begins, ends = dict(self.published), self.kafka.ends(NAME)
        self.published = {**self.published, **ends}
        ranges = {p: (begins.get(p, 0), end) for p, end in ends.items() if end > begins.get(p, 0)}
        self._commit(rows, "batch", ranges)

    def _commit(
        self, rows: list[tuple[int, int]], kind: str, ranges: dict[int, tuple[int, int]] | None = None
    ) -> None:
        more = {"topic-id": self.kafka.id, "writer": "w1"}
        said = lakes.summary(kind, 1, self.published, self.starts, ranges, more)
        by_partition = [[row for row in rows if row[0] == partition] for partition in self.published]
        for of_partition in [found for found in by_partition if found] or [[]]:
            lakes.append(self.lake, of_partition, said, source=None)

    def plan(self, run: str, interval: Interval | None = None, **params: Any) -> tuple[Any, Any]:
        """The start and the end offsets of the load's plan."""
        planner = TopicPlanner(self.systems, self.spec, self.ledger, FORM)
        (source,) = planner.pin(run, params, interval)["sources"]
        return tuple(
            {int(p): offset for p, offset in source[name].items()}
            for name in ("start_offsets", "end_offsets")
        )  # type: ignore[return-value]

    def verify(self, run: str) -> Document:
        """The proof, after it was recorded. Raises NotVerifiedError."""
        verification = RowsVerification.of(self.systems, self.spec, self.ledger, run)
        load = verification.verify(5.0)
        if load.problems:
            raise NotVerifiedError("; ".join(load.problems))
        _, proof = verification.write_proof(load, lambda _: None)
        return proof

    @property
    def systems(self) -> Any:
        return self
