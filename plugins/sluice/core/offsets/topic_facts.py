"""What a topic of others is like: what a stream over it cannot do with, and what a person should know."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

COMPACT, DELETE = "compact", "delete"
# The broker's clock: a sender's, which may be ahead, is CreateTime.
LOG_APPEND_TIME = "LogAppendTime"
# A broker's default of max.message.bytes.
MAX_MESSAGE_BYTES = 1_048_588
_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class TopicFacts:
    """As the brokers describe it."""

    partitions: int
    """Their number."""
    cleanup_policy: str
    """`delete`, `compact` or both, with a comma."""
    retention_ms: int | None
    """The age at which records may be deleted; None: at none."""
    retention_bytes: int | None
    """The size of a partition above which its oldest records may be deleted; None: at none."""
    timestamp_type: str
    """`CreateTime`, by senders, or LOG_APPEND_TIME."""
    max_message_bytes: int
    """The largest batch of records that it takes, compressed."""

    @classmethod
    def of(cls, partitions: int, config: Mapping[str, str | None]) -> TopicFacts:
        """From the topic's configs, the brokers' defaults among them."""
        policy = config.get("cleanup.policy") or DELETE
        deletes = DELETE in policy.split(",")
        age, size = (int(config.get(key) or -1) for key in ("retention.ms", "retention.bytes"))
        return cls(
            partitions,
            policy,
            age if deletes and age >= 0 else None,
            size if deletes and size >= 0 else None,
            config.get("message.timestamp.type") or "CreateTime",
            int(config.get("max.message.bytes") or MAX_MESSAGE_BYTES),
        )

    @property
    def is_compacted(self) -> bool:
        return COMPACT in self.cleanup_policy.split(",")

    def problems(
        self, known: Collection[int], max_batch_bytes: int, windowed: Sequence[str] = ()
    ) -> list[str]:
        """Why a stream cannot read it. ``known``: the partitions that its table has; ``max_batch_bytes``: the
        largest batch that it reads; ``windowed``: its queries with windows."""
        found = []
        if missing := sorted(partition for partition in known if partition >= self.partitions):
            found.append(
                f"it has {self.partitions} partitions, and the table has records of partition {missing[-1]}: "
                "it was recreated. Fix: restore the topic, or give the stream a new table"
            )
        if self.max_message_bytes > max_batch_bytes:
            found.append(
                f"it takes batches of {self.max_message_bytes} bytes, and those of more than "
                f"{max_batch_bytes} bytes are not read. Fix: raise max_batch_mb below [kafka] in the "
                f"platform files to {-(-self.max_message_bytes // (1 << 20))} or more"
            )
        if windowed and self.timestamp_type != LOG_APPEND_TIME:
            found.append(
                f"its message.timestamp.type is {self.timestamp_type}, and queries with windows "
                f"({', '.join(windowed)}) need {LOG_APPEND_TIME}: a sender whose clock is ahead would move "
                "the watermark. Fix: ask administrators of the topic to set it, or remove the windows"
            )
        return found

    def remarks(self, margin_seconds: int) -> list[str]:
        """What is as it is, and should be known. ``margin_seconds``: how long before retention deletes
        unread records a person is told."""
        found = []
        if self.is_compacted:
            found.append(
                f"cleanup.policy is {self.cleanup_policy}: records that were compacted away before they were "
                "read are accounted for as absent; the table keeps each version of a key that was read"
            )
        if self.retention_ms is not None and self.retention_ms < margin_seconds * 1000:
            found.append(
                f"retention.ms is {self.retention_ms} ({self.retention_ms / _HOUR_MS:g} hours), less than "
                f"retention_margin_seconds ({margin_seconds}): unread records are always at risk"
            )
        if self.retention_bytes is not None:
            found.append(
                f"retention.bytes is {self.retention_bytes}: a burst may delete records before they are read"
            )
        if self.timestamp_type != LOG_APPEND_TIME:
            found.append(
                f"message.timestamp.type is {self.timestamp_type}: times are those of senders, so a record "
                "may come after the interval that its time is in"
            )
        return found

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
