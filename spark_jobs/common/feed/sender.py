"""Send events in order, in transactions with the feed's position."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

from sluice.config.platform_sections.kafka import Kafka
from sluice.config.sections.topic import POSITIONS_TOPIC, Topic
from sluice.core.tables.records import Headers
from spark_jobs.common.feed.event import Event
from spark_jobs.common.feed.position import SavedPosition
from spark_jobs.common.feed.records import ids_key, newest_ids, position_key, record_headers
from spark_jobs.common.feed.transaction import Transactions, Undelivered

# The part of a message that is not the value. The declaration of a feed's topic leaves room for both.
_OVERHEAD_BYTES = 16 * 1024
# Ids of the last events that are saved, per event that may be in flight.
RECENT_IDS = 2
# Between two calls of ``wait``.
_WAIT_SECONDS = 0.2


class Sender:
    """The topic of one producer. One thread sends, another commits.

    Of a transaction either all is read, its events and the position behind them, or nothing. After any error
    the process ends, and the next one begins with what is committed. Errors: as of Transactions.
    """

    def __init__(self, kafka: Kafka, stream: str, topic: Topic, max_in_flight: int) -> None:
        """``max_in_flight``: events of one transaction."""
        self.max_bytes = topic.max_message_bytes - _OVERHEAD_BYTES
        self.instance = str(uuid4())
        self._stream, self._topic, self._max_in_flight = stream, topic.name, max_in_flight
        self._transactions = Transactions(kafka, stream, topic.max_message_bytes, max_in_flight)
        # For all that follows, the transactions too.
        self._lock = threading.Lock()
        self._room, self._is_needed = threading.Condition(self._lock), threading.Condition(self._lock)
        self._saved = SavedPosition("", "")
        self._position: str | None = None
        self._next_sequence = 1
        self._ids: deque[str] = deque(maxlen=RECENT_IDS * max_in_flight)
        # Events of the open transaction.
        self._count = 0
        self._is_full, self._is_abandoned = False, False

    def fence(self, gives_up: Callable[[], bool]) -> None:
        """Become the stream's producer: Kafka takes nothing of an earlier one from now on. ``gives_up``: is
        asked now and then."""
        self._transactions.fence(gives_up)

    def begin(self, start: SavedPosition) -> None:
        """Send from there on; nothing is saved yet."""
        self._saved, self._position, self._next_sequence = start, start.position, start.next_sequence
        self._transactions.ends = dict(start.ends)
        self._ids.extend(start.ids)

    @property
    def is_outdated(self) -> bool:
        """As that of Transactions."""
        return self._transactions.is_outdated

    @property
    def position(self) -> str | None:
        """The newest position that was handled; None before the first."""
        return self._position

    @property
    def saved(self) -> SavedPosition:
        """The last that was committed, without its ids."""
        return self._saved

    @property
    def uncommitted(self) -> int:
        """The events of the open transaction."""
        return self._count

    @property
    def unsaved_ids(self) -> int:
        """The events whose ids are not saved."""
        return self._next_sequence - 1 - self._saved.ids_sequence

    # The reading thread.

    def send(self, event: Event, data: str, position: str | None, wait: Callable[[], None]) -> None:
        """Queue an event, cut to the topic's limit. During a commit, and while the transaction or the queue
        is full, it calls ``wait`` now and then."""
        value = data.encode()
        original_size = len(value) if len(value) > self.max_bytes else None
        headers = record_headers(event, self._next_sequence, self._saved.feed, position, original_size)
        key = None if event.key is None else event.key.encode()
        while not self._lock.acquire(timeout=_WAIT_SECONDS):
            wait()
        try:
            while not self._queue(value[: self.max_bytes], key, headers):
                self._is_full = True
                self._is_needed.notify()
                if not self._room.wait(_WAIT_SECONDS):
                    wait()
            self._count += 1
            self._ids.append(event.event_id)
            self._next_sequence += 1
            self._position = position or self._position
        finally:
            self._lock.release()

    def _queue(self, value: bytes, key: bytes | None, headers: Headers) -> bool:
        if self._is_abandoned or self._count >= self._max_in_flight:
            return False
        return self._transactions.send(self._topic, value, key, headers=headers)

    def skip(self, position: str | None) -> None:
        """Handle an event that is not sent."""
        # In the thread that sends: all before it is in this transaction or an earlier one.
        self._position = position or self._position

    # The committing thread.

    def wait(self, seconds: float, commit_seconds: float) -> bool:
        """Wait at most ``seconds`` until a commit is due: ``commit_seconds`` after the transaction's begin,
        or when it is full. Whether it is."""
        with self._lock:
            if self._transactions.is_open:
                seconds = min(seconds, max(commit_seconds - self._transactions.age, 0.0))
            if not self._is_full:
                self._is_needed.wait(seconds)
            is_old = self._transactions.is_open and self._transactions.age >= commit_seconds
            return self._is_full or is_old

    def commit(self, read_at: float, gives_up: Callable[[], bool], *, with_ids: bool) -> bool:
        """Commit the events that were queued, with their position; False if ``gives_up``, which is asked
        while Kafka does not answer. ``read_at``: up to when the feed's events were handled."""
        with self._lock:
            # First, so that the offsets of all are known.
            if not self._transactions.flush(gives_up):
                return False
            saved = self._now(read_at, with_ids)
            if with_ids:
                self._save(ids_key(self._stream), saved.dump_ids())
            self._save(position_key(self._stream), saved.dump())
            if not self._transactions.commit(gives_up):
                return False
            self._saved = replace(saved, ids=[])
            self._count, self._is_full = 0, False
            self._room.notify()
            return True

    def forget_former(self) -> None:
        """The row of an earlier release is deleted."""
        self._saved = replace(self._saved, is_former=False)

    def abandon(self) -> None:
        """Send nothing more, not even queued events, and abort the transaction."""
        with self._lock:
            self._is_abandoned = True
            self._transactions.abort()

    def _now(self, read_at: float, with_ids: bool) -> SavedPosition:
        ends = dict(self._transactions.ends)
        saved = replace(
            self._saved,
            position=self._position,
            next_sequence=self._next_sequence,
            ends=ends,
            read_at=read_at,
            instance=self.instance,
        )
        if not with_ids:
            return saved
        ids, sequence = newest_ids(self._ids), self._next_sequence - 1
        return replace(saved, ids=ids, ids_sequence=sequence, ids_ends=ends)

    def _save(self, key: bytes, text: str) -> None:
        if not self._transactions.send(POSITIONS_TOPIC.name, text.encode(), key, partition=0):
            self._transactions.check()
            raise Undelivered(f"the queue of librdkafka does not take the position of {self._stream}")
