"""A topic of Kafka, as it is declared."""

from __future__ import annotations

from dataclasses import dataclass, field

# Replication factor: the broker's default.
BROKER_DEFAULT = -1
MAX_MESSAGE = "max.message.bytes"
# A broker's default of it.
MAX_MESSAGE_BYTES = 1_048_588
# By the broker's clock: a record's timestamp is its arrival, whatever its sender's clock says.
TIMESTAMP_TYPE, LOG_APPEND_TIME = "message.timestamp.type", "LogAppendTime"


@dataclass(frozen=True)
class Topic:
    """``config``: other settings than the brokers' defaults, which also give a ``replication_factor`` of
    BROKER_DEFAULT."""

    name: str
    partitions: int
    replication_factor: int = BROKER_DEFAULT
    config: dict[str, str] = field(default_factory=dict)

    @property
    def max_message_bytes(self) -> int:
        """The largest batch of records that it takes, as declared, or by a broker's default."""
        return int(self.config.get(MAX_MESSAGE, MAX_MESSAGE_BYTES))


# Progress of every stream's queries; provisioned by each load. The broker deletes whole segments only.
PROGRESS_TOPIC = Topic(
    "sluice-progress", 1, BROKER_DEFAULT, {"retention.ms": "604800000", "segment.ms": "86400000"}
)
