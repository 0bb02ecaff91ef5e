"""One observation of a component: what its process, Kafka and the lake showed at one moment."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from sluice.model.process import ProcessStatus
from sluice.model.tending import Beat

# The keys of ``Sample.trouble``: the systems that a look asks.
PROCESS, KAFKA, LAKE = "process", "kafka", "lake"


@dataclass(frozen=True)
class Position:
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

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"starts": _texts(self.starts), "ends": _texts(self.ends)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Position:
        return cls(**(data | {"starts": _offsets(data["starts"]), "ends": _offsets(data["ends"])}))


@dataclass(frozen=True)
class Sample:
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

    def to_json(self) -> dict[str, Any]:
        """For an event or a task's state: only what JSON knows."""
        return {
            "at": self.at,
            "process": self.process.to_json() if self.process else None,
            "topic_id": self.topic_id,
            "begins": _texts(self.begins),
            "ends": _texts(self.ends),
            "expiring": _texts(self.expiring),
            "published": self.published.to_json() if self.published else None,
            "trouble": dict(self.trouble),
            "expires_in": self.expires_in,
            "heartbeat": self.heartbeat.to_json() if self.heartbeat else None,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Sample:
        return cls(
            at=data["at"],
            process=ProcessStatus.from_json(data["process"]) if data["process"] else None,
            topic_id=data["topic_id"],
            begins=_offsets(data["begins"]),
            ends=_offsets(data["ends"]),
            expiring=_offsets(data["expiring"]),
            published=Position.from_json(data["published"]) if data["published"] else None,
            trouble=dict(data["trouble"]),
            expires_in=data["expires_in"],
            heartbeat=Beat.from_json(data["heartbeat"]) if data["heartbeat"] else None,
        )


def _texts(offsets: dict[int, int] | None) -> dict[str, int] | None:
    """JSON has no numbers for keys."""
    return None if offsets is None else {str(partition): offset for partition, offset in offsets.items()}


def _offsets(texts: dict[str, int] | None) -> Any:
    return None if texts is None else {int(partition): offset for partition, offset in texts.items()}
