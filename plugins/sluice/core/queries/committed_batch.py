"""A query's newest batch in a topic: the offset of its consumer group, and who may commit it."""

from __future__ import annotations

import json
from dataclasses import dataclass

# The group's offset is on this partition of the topic, whatever the batch's partitions.
PARTITION = 0
NO_BATCH = -1


@dataclass(frozen=True)
class CommittedBatch:
    """Offset of a consumer group, committed in one transaction with the records of ``batch``."""

    epoch: int
    batch: int = NO_BATCH

    @property
    def offset(self) -> int:
        """The group's offset: the number of the next batch."""
        return self.batch + 1

    def text(self) -> str:
        """The metadata of the group's offset."""
        return json.dumps({"epoch": self.epoch}, separators=(",", ":"))


def parse(offset: int, text: str) -> CommittedBatch:
    """Raises ValueError for another offset, as one set by hand."""
    try:
        epoch = json.loads(text)["epoch"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"offset {offset} with the metadata {text!r} is no committed batch") from error
    if not isinstance(epoch, int) or isinstance(epoch, bool) or offset < 0:
        raise ValueError(f"offset {offset} with the metadata {text!r} is no committed batch")
    return CommittedBatch(epoch, offset - 1)


def group(stream: str, query: str) -> str:
    """The consumer group of a query's topics; no heartbeat's group has this name."""
    return f"sluice-{stream}-query-{query}"


def transactional_id(stream: str, query: str, topic: str) -> str:
    """Return the id of the one producer that may write: Kafka fences its predecessor."""
    return f"{group(stream, query)}-{topic}"
