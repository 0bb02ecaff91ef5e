"""Exact ranges of a topic's partitions, as Arrow, with an account of every offset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import time

import pyarrow as pa

from sluice.clients.kafka.log.brokers import Brokers
from sluice.clients.kafka.log.fetching import PATIENCE_SECONDS, Fetching, LogTruncated, patiently
from sluice.clients.kafka.log.responses import Fetched
from sluice.core.messages import iso
from sluice.core.offsets.ranges import IntervalSet
from sluice.core.record_batches import codecs, records
from sluice.core.record_batches.account import Account, Accounting, missing, why_absent
from sluice.core.record_batches.header import Batch, DamagedBatch, batches
from sluice.core.record_batches.transactions import AbortedTransactions

# A response has about so many bytes, compressed: what came in one, decompressed, is a piece.
FETCH_BYTES = 2 << 20
# Nor more than a range needs by what the partition's offsets took before, and a little more: too little costs
# another round trip.
_MARGIN, _SPARE_BYTES = 1.25, 128 << 10
# Where that is not known yet.
_FEW_OFFSETS, _FEW_BYTES = 1_000, 256 << 10
# A response that has more, decompressed, is several pieces.
PIECE_BYTES = 4 << 20


@dataclass(frozen=True)
class Epochs:
    """What is known of a range's leader epochs (KIP-320): a log that was truncated has other ones.

    ``before``: of the record before the range, as an earlier account has it; -1 if it is not known.
    ``highest``: the leader's when the log's end was behind the range already; None if that is not known.
    Records of the range were written by then, so none has a higher one.
    """

    before: int = -1
    highest: int | None = None


ANY = Epochs()


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
        self.fetch_bytes, self.patience = fetch_bytes, patience
        # A partition's leader stays known from one range to the next.
        self._fetching: dict[int, Fetching] = {}

    def read(self, partition: int, wanted: IntervalSet, epochs: Epochs = ANY) -> RangeRead:
        """These offsets of a partition. What lies between them is fetched, too, and neither decoded nor
        accounted for."""
        fetching = self._fetching.setdefault(
            partition, Fetching(self.brokers, self.topic, self.topic_id, partition, self.patience)
        )
        return RangeRead(self, partition, fetching, Accounting(wanted), epochs)


class RangeRead:
    """One range while it is read: iterate once, then ask for its account.

    What was yielded counts only when the iteration has ended without an error. It raises DamagedBatch,
    OffsetsMissing, OffsetsDeleted, LogTruncated, TopicRecreated, TransactionOpen, Unreachable, Missing or
    Refused.
    """

    def __init__(
        self, reader: RangeReader, partition: int, fetching: Fetching, accounting: Accounting, epochs: Epochs
    ) -> None:
        self._reader, self._topic, self._partition = reader, reader.topic, partition
        self._fetching, self._accounting, self._epochs = fetching, accounting, epochs
        self._account: Account | None = None
        self._is_asked = False

    def ask_ahead(self) -> None:
        """Ask for the first records, which iterating waits for: for one who reads several ranges, each of
        another partition. Raises as iterating does."""
        if not self._is_asked and not self._accounting.is_complete:
            self._is_asked = True
            self._ask(self._accounting.begin, self._epochs.before)

    @property
    def account(self) -> Account:
        """Raises ValueError before the range was read to its end."""
        if self._account is None:
            raise ValueError("the range was not read to its end")
        return self._account

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the records as ``core.record_batches.records.SCHEMA``, in pieces of some MB."""
        done, is_continued = self._accounting, False
        self.ask_ahead()
        while not done.is_complete:
            fetched = self._fetching.take()
            found: list[Batch] = []
            for batch in batches(fetched.records, done.following, is_continued=is_continued):
                found.append(batch)
                if batch.last_offset + 1 >= done.end:
                    # What is behind the range is not looked at.
                    break
            if not found:
                raise DamagedBatch(
                    f"damaged response: topic {self._topic!r}, partition {self._partition}: its batches end "
                    f"before offset {done.following}, which was asked for. Fix: compare its replicas"
                )
            following, is_continued = found[-1].last_offset + 1, True
            # Not what the response has behind the range.
            offsets = following - min(done.following, found[0].base_offset)
            self._fetching.bytes_per_offset = sum(batch.size for batch in found) / offsets
            if following < done.end:
                # Brokers work while this one is decoded.
                self._ask(following, found[-1].leader_epoch)
            yield from self._pieces(fetched, found)
        # Records of a topic that was created again since the range began are not its own.
        self._fetching.confirm_topic()
        self._account = self._explained(done.closed())

    def _ask(self, offset: int, last_epoch: int) -> None:
        offsets, each = self._accounting.end - offset, self._fetching.bytes_per_offset
        if each is not None:
            size = int(offsets * each * _MARGIN) + _SPARE_BYTES
        else:
            size = _FEW_BYTES if offsets < _FEW_OFFSETS else self._reader.fetch_bytes
        self._fetching.ask(offset, last_epoch, min(size, self._reader.fetch_bytes))

    def _pieces(self, fetched: Fetched, found: list[Batch]) -> Iterator[pa.RecordBatch]:
        done, aborted = self._accounting, AbortedTransactions(fetched.aborted)
        waiting: list[tuple[Batch, bytes | memoryview]] = []
        size = 0
        for batch in found:
            if batch.base_offset >= done.end:
                # Nothing is between: the next offset that the log has is behind the range.
                done.behind(done.end)
                break
            self._check_epoch(batch)
            is_aborted = aborted.has(batch)
            if not done.wants(batch):
                done.behind(batch.last_offset + 1)
                continue
            if is_aborted or batch.is_control:
                (done.aborted if is_aborted else done.control)(batch)
                continue
            body = codecs.decompressed(batch, self._reader.brokers.max_batch_bytes)
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
            yield done.chosen(piece.slice(begin, end - begin))

    def _check_epoch(self, batch: Batch) -> None:
        highest = self._epochs.highest
        if highest is not None and batch.leader_epoch > highest:
            raise LogTruncated(
                f"topic {self._topic!r}, partition {self._partition}: the log was truncated: offset "
                f"{batch.base_offset} was there under leader epoch {highest}, and its record is of epoch "
                f"{batch.leader_epoch}. Fix: see which broker led without the others "
                "(unclean.leader.election.enable), and plan the range again"
            )

    def _explained(self, account: Account) -> Account:
        if not account.absent:
            return account
        brokers, patience = self._reader.brokers, self._reader.patience
        policy = patiently(brokers, patience, lambda: brokers.cleanup_policy(self._topic))
        evidence = why_absent(policy, f"observed {iso(time())}")
        if not evidence:
            raise missing(self._topic, self._partition, account.absent, policy)
        return replace(account, evidence=evidence)
