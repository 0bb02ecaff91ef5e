"""Fetches of one partition, repeated while its leader moves."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_fixed

from sluice.clients.kafka.log.brokers import EARLIEST, LATEST, OUT_OF_RANGE, Brokers
from sluice.clients.kafka.log.responses import Fetched, Moving, TopicLeaders
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused, Unreachable

# Without any progress. An election takes seconds, a broker's restart a minute or two.
PATIENCE_SECONDS = 120.0
MISSING_SECONDS = 5.0
_PAUSE_SECONDS = 0.2
T = TypeVar("T")


class TopicRecreated(Refused):
    """A topic of this name, and not the one that the range is of."""

    code = ErrorCode.HEALTH_TOPIC_RECREATED


class LogTruncated(Refused):
    """Records that were read, or known to be there, are not those of the log any more."""

    code = ErrorCode.LOG_TRUNCATED


class OffsetsDeleted(Refused):
    """The log begins behind the offset. ``first``: the first one that it keeps."""

    code = ErrorCode.OFFSETS_NOT_THERE

    def __init__(self, message: str, first: int) -> None:
        super().__init__(message)
        self.first = first


class TransactionOpen(Unreachable):
    """A transaction that began before the end of the range does not end."""

    code = ErrorCode.TRANSACTION_OPEN


def patiently(brokers: Brokers, patience: float, ask: Callable[[], T]) -> T:
    """What ``ask`` returns, repeated while brokers move, ``patience`` seconds long.

    Missing is believed after MISSING_SECONDS: a broker may not know yet what was created just now.
    """

    def is_over(state: RetryCallState) -> bool:
        is_missing = state.outcome is not None and isinstance(state.outcome.exception(), Missing)
        longest = min(patience, MISSING_SECONDS) if is_missing else patience
        return (state.seconds_since_start or 0) > longest

    retrying = Retrying(
        retry=retry_if_exception_type((Moving, Missing)),
        stop=is_over,
        wait=wait_fixed(_PAUSE_SECONDS),
        # Connections work and are repaired meanwhile.
        sleep=brokers.wait,
        reraise=True,
    )
    return retrying(ask)


class Fetching:
    """Responses for ``partition``, one request ahead: ``ask`` for an offset, then ``take`` what came."""

    def __init__(self, brokers: Brokers, topic: str, topic_id: str, partition: int, patience: float) -> None:
        self._brokers, self._topic, self._topic_id = brokers, topic, topic_id
        self._partition, self._patience = partition, patience
        self._where = f"topic {topic!r}, partition {partition}"
        self._leader: tuple[int, int] | None = None
        # Compressed, as the last response had it; None before one came.
        self.bytes_per_offset: float | None = None
        self._asked = (0, -1, 0)
        # When the leader first did not know the epoch that was asked with.
        self._unknown_since = 0.0
        self._pending: Callable[[], Fetched] | None = None

    def confirm_topic(self) -> None:
        """Raises TopicRecreated, or Unreachable if no broker says in time.

        The leader is asked first: another broker, one that is cut off, may not know what was created again.
        """
        try:
            self._described(self._leader[0] if self._leader else None)
        except Moving:
            patiently(self._brokers, self._patience, self._described)

    def _described(self, node: int | None = None) -> TopicLeaders:
        found = self._brokers.describe(self._topic, node)
        if found.id != self._topic_id:
            raise TopicRecreated(
                f"topic {self._topic!r} was created again: its id is {found.id}, the range is of "
                f"{self._topic_id}. Fix: restore the topic, or name a new table"
            )
        return found

    def ask(self, offset: int, last_epoch: int, size: int) -> None:
        """``last_epoch``: of the record before ``offset``, -1 if it is not known. ``size``: about so many
        bytes."""
        self._asked, self._pending = (offset, last_epoch, size), None
        self._unknown_since = 0.0
        try:
            self._pending = self._sent()
        except Moving:
            # take() repeats it.
            self._leader = None

    def take(self) -> Fetched:
        """What came for the last ``ask``: at least one byte of records.

        Raises Unreachable without progress for ``patience`` seconds, TransactionOpen, OffsetsDeleted,
        LogTruncated, or Refused.
        """
        deadline = time.monotonic() + self._patience
        while True:
            why: Unreachable
            try:
                pending, self._pending = self._pending or self._sent(), None
                found = pending()
                if found.error == 0 and found.records and found.diverging is None:
                    return found
                why = self._not_yet(found)
            except Moving as error:
                self._leader, why = None, error
                # Another leader has its own time to learn of it.
                self._unknown_since = 0.0
            if time.monotonic() > deadline:
                raise why
            self._brokers.wait(_PAUSE_SECONDS)

    def _sent(self) -> Callable[[], Fetched]:
        if self._leader is None:
            found = patiently(self._brokers, MISSING_SECONDS, self._described)
            self._leader = found.leaders.get(self._partition)
        if self._leader is None:
            raise Moving(f"{self._where} has no leader")
        offset, last_epoch, size = self._asked
        return self._brokers.fetch(self._topic, self._partition, self._leader, offset, size, last_epoch)

    def _not_yet(self, found: Fetched) -> Unreachable:
        """Why nothing came, if it may still come. Raises the others."""
        offset, last_epoch, _ = self._asked
        if found.error == OUT_OF_RANGE and self._leader is not None:
            # Unless the log has moved meanwhile: then the fetch is repeated.
            self._raise_out_of_range(offset, self._leader)
            if last_epoch >= 0:
                self._raise_if_still_unknown(offset, last_epoch)
            return Moving(f"{self._where}: offset {offset} was out of range")
        self._brokers.check(found.error, f"{self._where}: fetch from offset {offset}")
        if found.diverging is not None:
            epoch, end = found.diverging
            raise LogTruncated(
                f"{self._where}: the log was truncated: offset {offset - 1} was read with leader epoch "
                f"{last_epoch}, and now epoch {epoch} ends at {end}. Fix: see which broker led without the "
                "others (unclean.leader.election.enable); what was published from there on is to be compared"
            )
        if found.last_stable <= offset < found.high_watermark:
            return TransactionOpen(
                f"{self._where}: a transaction that began at or before offset {found.last_stable} is open "
                f"for {self._patience:g} s or longer; records up to {found.high_watermark} wait behind it. "
                "Fix: see `kafka-transactions.sh find-hanging`, and end it or its producer"
            )
        return Unreachable(
            f"{self._where}: nothing came from offset {offset} on in {self._patience:g} s; enough replicas "
            f"have offsets up to {found.high_watermark}. Fix: look for replicas that are behind",
            ErrorCode.KAFKA_UNREACHABLE,
        )

    def _raise_if_still_unknown(self, offset: int, last_epoch: int) -> None:
        """A leader that has the offset answers so to a fetch behind an epoch that is later than any it knows:
        https://github.com/apache/kafka/blob/4.1.1/core/src/main/scala/kafka/cluster/Partition.scala
        (``fetchRecords``)."""
        self._unknown_since = self._unknown_since or time.monotonic()
        if time.monotonic() - self._unknown_since > MISSING_SECONDS:
            raise LogTruncated(
                f"{self._where}: the log was truncated: offset {offset - 1} was read with leader epoch "
                f"{last_epoch}, and the log has no such epoch. Fix: see which broker led without the others "
                "(unclean.leader.election.enable), or whether the topic was restored; what was published "
                "before is to be compared"
            )

    def _raise_out_of_range(self, offset: int, leader: tuple[int, int]) -> None:
        self._described(leader[0])
        first = self._brokers.bound(self._topic, self._partition, leader, EARLIEST)
        end = self._brokers.bound(self._topic, self._partition, leader, LATEST)
        if offset < first:
            raise OffsetsDeleted(
                f"{self._where}: offset {offset} was deleted, the log begins at {first}. Fix: read from "
                "there on, or raise the topic's retention.ms",
                first,
            )
        if offset > end:
            raise LogTruncated(
                f"{self._where}: offset {offset} is behind the log's end {end}: the log was truncated, or "
                "the range is of another topic. Fix: see which broker led without the others"
            )
