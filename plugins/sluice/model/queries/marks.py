"""How a query's topic says which batch it holds: names and texts that its writer and its readers share.

The mark is the offset of a consumer group, committed in one transaction with the batch's records. Pure.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

# The group's offsets are on this partition of the topic; the mark says nothing of partitions.
PARTITION = 0
NO_BATCH = -1


@dataclass(frozen=True)
class Mark:
    """``batch`` is the last that is whole (NO_BATCH: none yet), ``token`` the owner who said so."""

    token: int
    batch: int = NO_BATCH

    @property
    def offset(self) -> int:
        """As the group has it: the number of the batch that comes next."""
        return self.batch + 1

    def text(self) -> str:
        """The metadata of the group's offset."""
        return json.dumps({"token": self.token}, separators=(",", ":"))


def parse(offset: int, text: str) -> Mark:
    """Raises ValueError for what is no mark: somebody set the group's offsets by hand, say."""
    try:
        token = json.loads(text)["token"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"offset {offset} with the metadata {text!r} is no mark") from error
    if not isinstance(token, int) or isinstance(token, bool) or offset < 0:
        raise ValueError(f"offset {offset} with the metadata {text!r} is no mark")
    return Mark(token, offset - 1)


def group(stream: str, query: str) -> str:
    """The consumer group that keeps the marks of a query's topics; no part's heartbeat has this name."""
    return f"sluice-{stream}-query-{query}"


def transactional_id(stream: str, query: str, topic: str) -> str:
    """Of the one producer that may write: Kafka fences the one before."""
    return f"{group(stream, query)}-{topic}"
