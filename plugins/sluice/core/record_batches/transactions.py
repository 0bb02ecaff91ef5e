"""Which batches of a fetch response belong to aborted transactions.

The response names them: a broker sends records of aborted transactions too, and who reads committed records
leaves them out. As Kafka's own consumer does it (CompletedFetch.nextFetchedRecord,
https://github.com/apache/kafka/blob/4.1.1/clients/src/main/java/org/apache/kafka/clients/consumer/internals/CompletedFetch.java).
"""

from __future__ import annotations

from collections.abc import Iterable

from sluice.core.record_batches.cursor import varint_at
from sluice.core.record_batches.header import Batch

# Type of a control record (KIP-98), the second short integer of its key: 0 abort, 1 commit.
_ABORT = 0


class AbortedTransactions:
    """Told of every batch of a response, in their order. ``named``: (producer id, first offset) of each."""

    def __init__(self, named: Iterable[tuple[int, int]]) -> None:
        self._coming = sorted(named, key=lambda transaction: transaction[1], reverse=True)
        self._open: set[int] = set()

    def has(self, batch: Batch) -> bool:
        """Whether the batch is of one of them."""
        while self._coming and self._coming[-1][1] <= batch.last_offset:
            self._open.add(self._coming.pop()[0])
        if batch.is_control:
            if _type_of(batch) == _ABORT:
                self._open.discard(batch.producer_id)
            return False
        return batch.is_transactional and batch.producer_id in self._open


def _type_of(batch: Batch) -> int | None:
    """The type of its marker; None if the log's cleaner took it out."""
    if not batch.count:
        return None
    # One record, never compressed: its length, attributes, deltas of time and offset, the length of its key.
    body, at = batch.body, 0
    _, at = varint_at(body, at, len(body))
    at += 1
    for _ in range(3):
        _, at = varint_at(body, at, len(body))
    return int.from_bytes(body[at + 2 : at + 4], "big")
