"""One observation of a component: what its process, Kafka and the lake showed at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.model.health.heartbeat import Beat
from sluice.model.health.json_record import JsonRecord
from sluice.model.health.process import ProcessStatus

# The keys of ``Sample.trouble``: the systems that a look asks.
PROCESS, KAFKA, LAKE = "process", "kafka", "lake"


@dataclass(frozen=True)
class Position(JsonRecord):
    """What ``main`` says of the stream; times in seconds since 1970, offsets per partition.

    ``[starts, ends)`` is published. ``at``: when the newest snapshot of the stream was made, ``batch_at`` the
    newest batch's; ``owned_at``: when it last changed hands; both None where no such snapshot is kept.
    ``topic_id`` is None where the snapshot does not carry it; ``longest_batch`` (seconds, of the last 20
    batches) where none says when it began.
    """

    token: int
    at: float
    owned_at: float | None
    starts: dict[int, int]
    ends: dict[int, int]
    topic_id: str | None = None
    longest_batch: float | None = None
    batch_at: float | None = None

    @property
    def records(self) -> int:
        """How many offsets are published."""
        return sum(end - self.starts.get(partition, 0) for partition, end in self.ends.items())


@dataclass(frozen=True)
class Sample(JsonRecord):
    """One look, at ``at`` (the observer's clock, seconds since 1970). What did not answer is None.

    ``trouble`` says why, system (PROCESS, KAFKA, LAKE) -> reason. ``published`` is also None, without
    trouble, before the stream's first snapshot, and ``topic_id`` where the broker knows no ids.
    ``expiring``: partition -> the first offset that retention leaves alone for the policy's ``risk_seconds``,
    None where it was not asked or nothing is ever deleted; ``expires_in``: seconds within which the first
    unread record is deleted, where that is sooner. Of the consumer; of another component there are the
    process and ``heartbeat``: the newest of its group, whoever gave it, None before the first.
    """

    at: float
    process: ProcessStatus | None
    topic_id: str | None = None
    begins: dict[int, int] | None = None
    ends: dict[int, int] | None = None
    expiring: dict[int, int] | None = None
    published: Position | None = None
    trouble: dict[str, str] = field(default_factory=dict)
    expires_in: float | None = None
    heartbeat: Beat | None = None

    def first_unread(self, partition: int) -> int:
        """The offset with which the stream goes on; where it never read the partition, the topic's first."""
        begin = (self.begins or {}).get(partition, 0)
        return self.published.ends.get(partition, begin) if self.published else begin

    def unread(self) -> dict[int, int]:
        """Partition -> how many offsets of the topic are not published; only those where there are any."""
        waiting = {
            partition: end - self.first_unread(partition) for partition, end in (self.ends or {}).items()
        }
        return {partition: count for partition, count in waiting.items() if count > 0}
