"""Exact ranges of a topic's partitions, as Arrow, with an account of every offset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import time

import pyarrow as pa

from sluice.clients.kafka.log.brokers import Brokers, Fetched
from sluice.clients.kafka.log.fetching import PATIENCE_SECONDS, Fetching
from sluice.core.messages import iso
from sluice.core.record_batches import codecs, records
from sluice.core.record_batches.account import Account, Accounting, missing, why_absent
from sluice.core.record_batches.header import Batch, DamagedBatch, batches
from sluice.core.record_batches.transactions import AbortedTransactions

# A response has about so many bytes, compressed: what came in one, decompressed, is a piece.
FETCH_BYTES = 2 << 20
# A response that has more, decompressed, is several pieces.
PIECE_BYTES = 32 << 20


class RangeReader:
    """Reads ranges of a topic over connections that stay open. For one thread at a time.

    ``topic_id``: as Kafka writes it; records of another topic of this name are never returned.
    """

    def __init__(
        self,
        brokers: Brokers,
        topic: str,
        topic_id: str,
        fetch_bytes: int = FETCH_BYTES,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self.brokers, self.topic, self.topic_id = brokers, topic, topic_id
        self._fetch_bytes, self._patience = fetch_bytes, patience

    def read(self, partition: int, begin: int, end: int, last_epoch: int = -1) -> RangeRead:
        """``[begin, end)`` of a partition. ``last_epoch``: the leader epoch of the record before ``begin``,
        as an earlier account has it; -1 if it is not known."""
        fetching = Fetching(
            self.brokers, self.topic, self.topic_id, partition, self._fetch_bytes, self._patience
        )
        return RangeRead(self.brokers, self.topic, partition, fetching, Accounting(begin, end), last_epoch)


class RangeRead:
    """One range while it is read: iterate once, then ask for its account.

    What was yielded counts only when the iteration has ended without an error. It raises DamagedBatch,
    OffsetsMissing, OffsetsDeleted, LogTruncated, TopicRecreated, TransactionOpen, Unreachable, Missing or
    Refused.
    """

    def __init__(
        self,
        brokers: Brokers,
        topic: str,
        partition: int,
        fetching: Fetching,
        accounting: Accounting,
        last_epoch: int,
    ) -> None:
        self._brokers, self._topic, self._partition = brokers, topic, partition
        self._fetching, self._accounting, self._last_epoch = fetching, accounting, last_epoch
        self._account: Account | None = None

    @property
    def account(self) -> Account:
        """Raises ValueError before the range was read to its end."""
        if self._account is None:
            raise ValueError("the range was not read to its end")
        return self._account

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the records as ``core.record_batches.records.SCHEMA``, in pieces of some MB."""
        done, is_continued = self._accounting, False
        if not done.is_complete:
            self._fetching.ask(done.begin, self._last_epoch)
        while not done.is_complete:
            fetched = self._fetching.take()
            found = list(batches(fetched.records, done.following, is_continued=is_continued))
            if not found:
                raise DamagedBatch(
                    f"damaged response: topic {self._topic!r}, partition {self._partition}: its batches end "
                    f"before offset {done.following}, which was asked for. Fix: compare its replicas"
                )
            following, is_continued = found[-1].last_offset + 1, True
            if following < done.end:
                # Brokers work while this one is decoded.
                self._fetching.ask(following, found[-1].leader_epoch)
            yield from self._pieces(fetched, found)
        # Records of a topic that was created again since the range began are not its own.
        self._fetching.confirm_topic()
        self._account = self._explained(done.closed())

    def _pieces(self, fetched: Fetched, found: list[Batch]) -> Iterator[pa.RecordBatch]:
        done, aborted = self._accounting, AbortedTransactions(fetched.aborted)
        waiting: list[tuple[Batch, bytes | memoryview]] = []
        size = 0
        for batch in found:
            if batch.base_offset >= done.end:
                # Nothing is between: the next offset that the log has is behind the range.
                done.behind(done.end)
                break
            is_aborted = aborted.has(batch)
            if is_aborted or batch.is_control:
                yield from self._decoded(waiting)
                waiting, size = [], 0
                (done.aborted if is_aborted else done.control)(batch)
                continue
            body = codecs.decompressed(batch)
            if waiting and size + len(body) > PIECE_BYTES:
                yield from self._decoded(waiting)
                waiting, size = [], 0
            waiting.append((batch, body))
            size += len(body)
        yield from self._decoded(waiting)

    def _decoded(self, waiting: list[tuple[Batch, bytes | memoryview]]) -> Iterator[pa.RecordBatch]:
        if not waiting:
            return
        done = self._accounting
        piece = records.read(waiting)
        offsets = piece.column("offset").to_numpy()
        bounds = offsets.searchsorted([batch.last_offset + 1 for batch, _ in waiting])
        first = 0
        for (batch, _), bound in zip(waiting, bounds, strict=True):
            done.records(batch, offsets[first:bound])
            first = bound
        begin, end = offsets.searchsorted([done.begin, done.end])
        if begin < end:
            yield piece.slice(begin, end - begin)

    def _explained(self, account: Account) -> Account:
        if not account.absent:
            return account
        policy = self._brokers.cleanup_policy(self._topic)
        evidence = why_absent(policy, f"observed {iso(time())}")
        if not evidence:
            raise missing(self._topic, self._partition, account.absent, policy)
        return replace(account, evidence=evidence)
