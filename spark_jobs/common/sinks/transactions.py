"""Batches of records to a topic, each in one transaction with the mark that says that it is there.

Two things keep a zombie out. Kafka lets only the last producer write that asked under the transactional id.
And the mark holds the owner's epoch: who finds a higher one there gives up, who finds none asks Kafka anew.
So the epoch decides, and Kafka only sees to it that nobody decides on what he read before.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from sluice.io import kafka as kafka_io
from sluice.io.kafka import MISSING_RIGHT, REFUSED_LOGIN
from sluice.model.queries import state
from sluice.model.queries.state import NO_BATCH, CommittedBatch
from sluice.model.spec.platform import Kafka
from spark_jobs.common.sinks.base import RetryPolicy, SinkWriteFailed, TransientError
from spark_jobs.common.spark.process import Fenced

log = logging.getLogger(__name__)

T = TypeVar("T")
# Partition, key, value.
Record = tuple[int, bytes, bytes]

# A transaction that is open for longer is ended by the broker; so long, at most, readers of what is committed
# wait behind that of a process that died and has no successor.
TRANSACTION_SECONDS = 300
# One question to Kafka; then it is asked again, until patience ends.
ASK_SECONDS = 3.0
MARK_SECONDS = 15.0
# Nothing was delivered for so long: Kafka stands still.
STILL_SECONDS = 5.0
# Read from the end of a partition for its newest record; ten times as many if those are markers or aborted.
NEWEST_OFFSETS = 100
_POLL_SECONDS = 0.1
_POLL_RECORDS = 500

_SETTINGS: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "compression.type": "zstd",
    "linger.ms": 20,
    "batch.size": 512 * 1024,
    "queue.buffering.max.kbytes": 32 * 1024,
    "queue.buffering.max.messages": 100_000,
    "transaction.timeout.ms": TRANSACTION_SECONDS * 1000,
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.max.ms": 2_000,
    # What fails is raised or told; a line every few seconds besides would say no more.
    "log_level": 2,
}
_UNKNOWN = frozenset(
    {KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART}
)
# What no second try mends, and the record is to blame for.
_TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})


class Transactions:
    """The one writer of a query's topic. Not for several threads at once.

    Whatever fails, the producer is given up for a new one: asking for the transactional id again makes Kafka
    end what the old one left, and the mark then tells whether the batch is there, even where the answer to
    its commit was lost. So a batch is tried again from its first record, for ``patience`` seconds.
    """

    def __init__(
        self,
        kafka: Kafka,
        stream: str,
        query: str,
        topic: str,
        partitions: int,
        stop: threading.Event,
        version_of: Callable[[bytes], int],
        patience: float = 120.0,
        ask_seconds: float = ASK_SECONDS,
    ) -> None:
        """``version_of`` tells the batch that gave a record, from its value; it raises ValueError.
        ``ask_seconds``: for one question to Kafka."""
        self._ask_seconds = ask_seconds
        self.topic, self.partitions = topic, partitions
        self.name = f"{stream} {query}: sink kafka {topic}"
        self.epoch = 0
        self._group = state.group(stream, query)
        self._transactional_id = state.transactional_id(stream, query, topic)
        self._kafka, self._servers = kafka, kafka.bootstrap_servers
        self._patience = RetryPolicy(
            self.name,
            f"see that Kafka at {self._servers} is up and takes the role's login, then start the query "
            "again: it repeats the batch",
            patience,
            stop,
        )
        self._version_of = version_of
        self._login: KafkaError | None = None
        self._last = NO_BATCH
        self._producer: Producer | None = None
        self._cut_off = False
        # Of the transaction: how many records were delivered, and why one was not.
        self._delivered = 0
        self._undelivered: KafkaError | None = None

    def open(self, epoch: int) -> int | None:
        """Become the writer with this epoch; the last batch that the topic holds whole (None: none).

        Ends a transaction that an earlier owner left open. Raises Fenced where a higher epoch is there,
        LookupError where the topic is missing or does not say which batch it holds, SinkWriteFailed when
        Kafka does not answer for too long or refuses.
        """
        self.epoch = epoch
        self._give_up()
        self._until_done(self._open)
        return None if self._last == NO_BATCH else self._last

    def write(self, batch: int, records: Callable[[], Iterable[Record]]) -> bool:
        """One transaction with the records of a batch, and its mark. False where it is there already.

        ``records`` gives them anew for each attempt. Raises as :meth:`enter`, and whatever ``records`` does:
        then nothing of the batch is there.
        """
        if not self.epoch:
            raise LookupError(f"{self.name}: nobody has entered; enter before writing")
        if batch <= self._last:
            return False

        def attempt() -> None:
            self._open()
            # An attempt whose commit was not answered may have come through.
            if self._last < batch:
                self._transact(CommittedBatch(self.epoch, batch), records())

        self._until_done(attempt)
        return True

    def close(self) -> None:
        """Give up the producer. A transaction that it left open is aborted."""
        self._give_up()

    # What follows is one attempt.

    def _open(self) -> None:
        """A producer that Kafka lets write, and the mark as it is since nobody else may."""
        if self._producer is not None:
            self._producer.poll(0)
            if not self._cut_off:
                return
            # An idle connection that the broker closed, say; see _send_mark.
            self._give_up()
        self._refuse_missing()
        # First a look without asking for the id: a zombie would put its successor out, if only for a moment.
        # What is not decided yet is not waited for: it may be the transaction that is to be ended.
        self._refuse_later(self._mark("read_uncommitted"))
        told = {"transactional.id": self._transactional_id, "error_cb": self._note_of_producer}
        producer = Producer({**self._kafka.librdkafka(), **_SETTINGS, **told})
        self._producer = producer
        self._ask(producer.init_transactions)
        producer.poll(0)
        self._cut_off = False
        mark = self._mark("read_committed")
        self._refuse_later(mark)
        if mark is None:
            mark = CommittedBatch(0, self._newest())
        self._last = mark.batch
        if mark.epoch != self.epoch:
            self._transact(CommittedBatch(self.epoch, mark.batch), ())

    def _transact(self, mark: CommittedBatch, records: Iterable[Record]) -> None:
        producer = self._producer
        assert producer is not None
        producer.begin_transaction()
        self._delivered, self._undelivered = 0, None
        for number, (partition, key, value) in enumerate(records, start=1):
            self._send(producer, partition, key, value)
            if number % _POLL_RECORDS == 0:
                producer.poll(0)
        self._await(lambda: len(producer) == 0)
        self._send_mark(producer, mark)
        self._ask(producer.commit_transaction)
        self._last = mark.batch

    def _send_mark(self, producer: Producer, mark: CommittedBatch) -> None:
        """Within the transaction. A producer that lost a broker since it was made may never come back from
        sending offsets, whatever time it was given (librdkafka 2.16.0, tried): it waits for a coordinator
        that it knew. So it is not asked; and where it does not come back, it is left behind with its thread.
        """
        if self._cut_off:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "a broker went away within the batch"))
        place = TopicPartition(self.topic, state.PARTITION, mark.offset, mark.text())
        failures: list[Exception] = []

        def send(group: object) -> None:
            try:
                self._ask(lambda seconds: producer.send_offsets_to_transaction([place], group, seconds))
            except (KafkaException, SinkWriteFailed) as error:
                failures.append(error)

        with self._consumer() as consumer:
            group = consumer.consumer_group_metadata()
            thread = threading.Thread(target=send, args=(group,), daemon=True, name=f"mark of {self.topic}")
            thread.start()
            thread.join(MARK_SECONDS)
        if thread.is_alive():
            self._producer = None
            raise KafkaException(
                KafkaError(KafkaError._TIMED_OUT, f"no answer to the mark in {MARK_SECONDS:g} s")
            )
        if failures:
            raise failures[0]

    def _send(self, producer: Producer, partition: int, key: bytes, value: bytes) -> None:
        while True:
            try:
                producer.produce(self.topic, value, key, partition, on_delivery=self._settled)
            except BufferError:
                self._await(partial(_has_room, producer, len(producer)))
            else:
                return

    def _settled(self, error: KafkaError | None, message: object) -> None:
        if error is None:
            self._delivered += 1
        else:
            self._undelivered = self._undelivered or error

    def _await(self, is_done: Callable[[], bool]) -> None:
        """Let Kafka deliver until it ``is_done``. Raises what was not delivered, SinkWriteFailed where
        nothing is for too long."""
        producer = self._producer
        assert producer is not None
        seen, moved = self._delivered, time.monotonic()
        while not is_done():
            producer.poll(_POLL_SECONDS)
            if self._undelivered is not None:
                raise KafkaException(self._undelivered)
            now = time.monotonic()
            if self._delivered != seen:
                seen, moved = self._delivered, now
            elif now - moved > STILL_SECONDS:
                self._patience.standing(self._reason("takes no records"))
        if self._undelivered is not None:
            raise KafkaException(self._undelivered)

    def _ask(self, question: Callable[[float], T]) -> T:
        """Ask again as long as the answer is that it was not done yet, and can be asked again as it is."""
        while True:
            try:
                return question(self._ask_seconds)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                self._patience.standing(self._reason(error.args[0].str()))

    # What lies around an attempt.

    def _until_done(self, attempt: Callable[[], None]) -> None:
        def tried() -> None:
            try:
                attempt()
            except BaseException as error:
                self._give_up()
                if not isinstance(error, KafkaException):
                    raise
                cause: KafkaError = error.args[0]
                self._refuse_for_good(cause)
                raise TransientError(self._reason(cause.str())) from error

        self._patience.call(tried)

    def _refuse_for_good(self, cause: KafkaError) -> None:
        if cause.code() in MISSING_RIGHT:
            raise SinkWriteFailed(
                f"{self.name}: {cause.str()} ({cause.name()}); check [kafka] in the role's platform file, "
                f"and the user's rights to write to the topic, to read the group {self._group}, and to use "
                f"the transactional id {self._transactional_id}"
            )
        if cause.code() in _TOO_LARGE:
            raise SinkWriteFailed(
                f"{self.name}: {cause.str()} ({cause.name()}); raise max.message.bytes of the topic"
            )
        if cause.code() in _UNKNOWN:
            # Gone within a transaction. Where it is there after all, another attempt will do.
            try:
                self._refuse_missing()
            except KafkaException as error:
                log.debug("%s: %s", self.name, error)

    def _refuse_missing(self) -> None:
        """All topics are asked for: asking for one by name may create it (auto.create.topics.enable)."""
        with self._consumer() as consumer:
            found = consumer.list_topics(timeout=self._ask_seconds).topics.get(self.topic)
        has = len(found.partitions) if found is not None else 0
        if has < self.partitions:
            problem = f"has {has} partitions, and {self.partitions} are declared" if has else "does not exist"
            raise LookupError(
                f"{self.name}: topic {self.topic!r} {problem}, on {self._servers}; run the load's "
                "provision_sinks step"
            )

    def _refuse_later(self, mark: CommittedBatch | None) -> None:
        if mark is not None and mark.epoch > self.epoch:
            raise Fenced(
                f"{self.name}: owner {self.epoch} may not write: owner {mark.epoch} has taken over "
                f"(group {self._group})"
            )

    def _mark(self, isolation: str) -> CommittedBatch | None:
        wanted = [TopicPartition(self.topic, state.PARTITION)]
        with self._consumer(isolation) as consumer:
            (found,) = kafka_io.committed(consumer, wanted, self._ask_seconds)
        if found.offset < 0:
            return None
        try:
            return state.parse(found.offset, found.metadata or "")
        except ValueError as error:
            raise LookupError(
                f"{self.name}: group {self._group}: {error}; delete the group's offsets: then the topic's "
                "records say which batch is the last"
            ) from error

    def _newest(self) -> int:
        """Of a topic without a mark: it is new, or the group's offset expired while nobody wrote."""
        with self._consumer() as consumer:
            found = max(self._newest_of(consumer, partition) for partition in range(self.partitions))
        if found != NO_BATCH:
            log.warning(
                "%s: group %s has no offset any more; the records say that batch %d is the last",
                self.name,
                self._group,
                found,
            )
        return found

    def _newest_of(self, consumer: Consumer, partition: int) -> int:
        """The batch of a partition's last record, which compaction never removes."""
        place, seconds, last = TopicPartition(self.topic, partition), self._ask_seconds, None
        begin, end = consumer.get_watermark_offsets(place, timeout=seconds)
        start, offsets = end, NEWEST_OFFSETS
        while start > begin and last is None:
            start, offsets = max(begin, end - offsets), offsets * 10
            try:
                for message in kafka_io.read_range(
                    consumer, self.topic, {partition: start}, {partition: end}, seconds
                ):
                    last = message.value()
            except TimeoutError as error:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, str(error))) from error
        return NO_BATCH if last is None else self._version_of(last)

    @contextmanager
    def _consumer(self, isolation: str = "read_committed") -> Iterator[Consumer]:
        consumer = kafka_io.consumer(
            self._kafka,
            self._group,
            {
                "error_cb": self._note,
                "isolation.level": isolation,
                **kafka_io.RANGE_SETTINGS,
                # A partition's end is told after so long; nothing more is expected there.
                "fetch.wait.max.ms": 10,
                "log_level": 2,
            },
        )
        try:
            yield consumer
        except KafkaException as error:
            # What it tells only here: a refused login (to error_cb), and a group that the role may not see.
            told = consumer.poll(0)
            if told is not None and (cause := told.error()) is not None and cause.code() in MISSING_RIGHT:
                raise KafkaException(cause) from error
            raise
        finally:
            consumer.close()

    def _note(self, error: KafkaError) -> None:
        """A refused login is tried again by librdkafka, and only told here."""
        if error.code() in REFUSED_LOGIN:
            self._login = error

    def _note_of_producer(self, error: KafkaError) -> None:
        self._note(error)
        if error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            self._cut_off = True

    def _reason(self, otherwise: str) -> str:
        login, self._login = self._login, None
        return f"Kafka: {otherwise if login is None else login.str()}"

    def _give_up(self) -> None:
        """Abort what is open, if Kafka answers at once; if not, the next who asks for the id does it."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            producer.purge(in_queue=True, in_flight=True, blocking=False)
            producer.abort_transaction(1.0)
        except KafkaException as error:
            log.debug("%s: the transaction is left to be ended: %s", self.name, error)


def _has_room(producer: Producer, full: int) -> bool:
    return len(producer) < full
