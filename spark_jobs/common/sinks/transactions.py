"""Write a batch of records and its committed batch (a group's offset) to a topic in one Kafka transaction.

Kafka lets only the last producer write that asked for the transactional id. The epoch decides who may ask:
the committed batch holds the writer's epoch, and a writer that finds a higher one there is fenced.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from sluice.clients import query_state as state
from sluice.clients.kafka import consumers as kafka_io
from sluice.clients.kafka.consumers import MISSING_RIGHT, REFUSED_LOGIN
from sluice.clients.query_state import NO_BATCH, CommittedBatch
from sluice.config.query import VERSION
from sluice.config.sections.kafka import Kafka
from sluice.core.tables.records import Headers
from spark_jobs.common.sinks.base import RetryPolicy, SinkWriteFailed, Target, TransientError
from spark_jobs.common.spark.process import check_epoch

log = logging.getLogger(__name__)

T = TypeVar("T")
# Partition, key, value; without a value the key's results are removed.
Record = tuple[int, bytes, bytes | None]

# The broker ends a transaction that is open for longer; until then, readers of committed records wait behind
# the transaction of a dead writer without a successor.
TRANSACTION_SECONDS = 300
# Timeout of one request to Kafka, which is repeated until the stall timeout.
REQUEST_SECONDS = 3.0
COMMIT_SECONDS = 15.0
# Without a delivery for longer, Kafka is stalled.
STALLED_SECONDS = 5.0
# Read from the end of a partition for its newest record; ten times as many if those are control records.
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
    # Errors are raised or reported by callbacks; librdkafka would repeat them every few seconds.
    "log_level": 2,
}
_UNKNOWN = frozenset(
    {KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART}
)
# Errors of the record, which a retry does not solve.
_TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})


class Transactions:
    """The only writer of a query's topic. Not thread-safe.

    After any error the producer is replaced: with the same transactional id, Kafka ends the old one's
    transaction, and the committed batch says whether it went through, even if the answer to its commit was
    lost. So a batch is retried from its first record.
    """

    def __init__(self, target: Target, kafka: Kafka) -> None:
        stream, query, topic = target.stream, target.query_name, target.sink.topic
        self.topic, self.partitions = topic, target.sink.partitions
        self.name = target.sink.name
        self.label = f"{stream} {query}: sink {self.name}"
        self.epoch = 0
        # The committed batch has the epoch.
        self._is_writer = False
        self._group = state.group(stream, query)
        self._transactional_id = state.transactional_id(stream, query, topic)
        self._kafka, self._servers = kafka, kafka.bootstrap_servers
        self._retry = RetryPolicy(
            self.label,
            f"see that Kafka at {self._servers} is up and takes the role's login, then start the query "
            "again: it repeats the batch",
            target.stall_timeout_seconds,
            target.stop,
        )
        self._login_error: KafkaError | None = None
        self._last = NO_BATCH
        self._producer: Producer | None = None
        self._is_disconnected = False
        # Since the transaction began: delivered records, and the first failed delivery.
        self._delivered = 0
        self._undelivered: KafkaError | None = None

    def open(self, epoch: int) -> int | None:
        """Become the writer with this epoch; the last committed batch (None: none).

        Ends an earlier writer's open transaction. Raises Fenced if the topic has this epoch or a higher one,
        SinkWriteFailed if the topic is missing, its last batch is unknown, Kafka refuses or is stalled for
        too long.
        """
        self.epoch, self._is_writer, self._last = epoch, False, NO_BATCH
        self.close()
        self._with_retries(self._open)
        self._is_writer = True
        return None if self._last == NO_BATCH else self._last

    def write_records(self, batch: int, records: Callable[[], Iterable[Record]]) -> bool:
        """Write a batch in one transaction; False if the topic holds it.

        ``records`` is called for each attempt. Raises as :meth:`open`, SinkWriteFailed if the topic lost
        batches, and errors of ``records``; then the topic holds nothing of the batch.
        """
        if not self._is_writer:
            raise LookupError(f"{self.label}: no epoch set; call open() before write()")
        if batch <= self._last:
            return False

        def attempt() -> None:
            self._open()
            # The commit of an attempt before may have gone through without an answer.
            if self._last < batch:
                self._transact(CommittedBatch(self.epoch, batch), records())

        self._with_retries(attempt)
        return True

    def close(self) -> None:
        """Give up the producer. Aborts its transaction if Kafka answers at once; else the next one does."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            producer.purge(in_queue=True, in_flight=True, blocking=False)
            producer.abort_transaction(1.0)
        except KafkaException as error:
            log.debug("%s: transaction not aborted: %s", self.label, error)

    # One attempt.

    def _open(self) -> None:
        """Create the producer, and read the committed batch after no other one may write."""
        if self._producer is not None:
            self._producer.poll(0)
            if not self._is_disconnected:
                return
            # For example an idle connection that the broker closed; see _send_committed_batch.
            self.close()
        self._check_topic()
        # Checked before the request for the id, with which a zombie would fence its successor for a moment.
        # Uncommitted, so as not to wait for an open transaction, which may be the one to be ended.
        self._check_fenced(self._committed_batch("read_uncommitted"))
        settings = {"transactional.id": self._transactional_id, "error_cb": self._on_producer_error}
        producer = Producer({**self._kafka.librdkafka(), **_SETTINGS, **settings})
        self._producer = producer
        self._ask(producer.init_transactions)
        producer.poll(0)
        self._is_disconnected = False
        committed = self._last_batch()
        self._last = committed.batch
        if committed.epoch != self.epoch:
            self._transact(CommittedBatch(self.epoch, committed.batch), ())

    def _transact(self, committed: CommittedBatch, records: Iterable[Record]) -> None:
        producer = self._producer
        assert producer is not None
        producer.begin_transaction()
        self._delivered, self._undelivered = 0, None
        for number, (partition, key, value) in enumerate(records, start=1):
            headers = state.tombstone_headers(committed.batch) if value is None else []
            self._send(producer, partition, key, value, headers)
            if number % _POLL_RECORDS == 0:
                producer.poll(0)
        self._wait_for(lambda: len(producer) == 0)
        if self._is_writer:
            # The connection survives a topic that is recreated.
            self._last_batch()
        self._send_committed_batch(producer, committed)
        self._ask(producer.commit_transaction)
        self._last = committed.batch

    def _send_committed_batch(self, producer: Producer, committed: CommittedBatch) -> None:
        """Send the offset within the transaction.

        A producer that lost a broker may never return from sending offsets, whatever its timeout (librdkafka
        2.16.0, tried): it waits for its old coordinator. So it is not called then, and if it does not return,
        it is abandoned with its thread.
        """
        if self._is_disconnected:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT, "a broker was lost within the batch"))
        offset = TopicPartition(self.topic, state.PARTITION, committed.offset, committed.text())
        failures: list[Exception] = []

        def send(group: object) -> None:
            try:
                self._ask(lambda seconds: producer.send_offsets_to_transaction([offset], group, seconds))
            except (KafkaException, SinkWriteFailed) as error:
                failures.append(error)

        with self._consumer() as consumer:
            group = consumer.consumer_group_metadata()
            thread = threading.Thread(target=send, args=(group,), daemon=True, name=f"offset of {self.topic}")
            thread.start()
            thread.join(COMMIT_SECONDS)
        if thread.is_alive():
            self._producer = None
            raise KafkaException(
                KafkaError(KafkaError._TIMED_OUT, f"no answer to the offset in {COMMIT_SECONDS:g} s")
            )
        if failures:
            raise failures[0]

    def _send(
        self, producer: Producer, partition: int, key: bytes, value: bytes | None, headers: Headers
    ) -> None:
        while True:
            try:
                producer.produce(
                    self.topic, value, key, partition, headers=headers, on_delivery=self._on_delivery
                )
            except BufferError:
                self._wait_for(partial(_has_room, producer, len(producer)))
            else:
                return

    def _on_delivery(self, error: KafkaError | None, message: object) -> None:
        if error is None:
            self._delivered += 1
        else:
            self._undelivered = self._undelivered or error

    def _wait_for(self, is_done: Callable[[], bool]) -> None:
        producer = self._producer
        assert producer is not None
        delivered, last_delivery = self._delivered, time.monotonic()
        while not is_done():
            producer.poll(_POLL_SECONDS)
            if self._undelivered is not None:
                raise KafkaException(self._undelivered)
            now = time.monotonic()
            if self._delivered != delivered:
                delivered, last_delivery = self._delivered, now
            elif now - last_delivery > STALLED_SECONDS:
                self._retry.check_stalled(self._reason("takes no records"))
        if self._undelivered is not None:
            raise KafkaException(self._undelivered)

    def _ask(self, request: Callable[[float], T]) -> T:
        while True:
            try:
                return request(REQUEST_SECONDS)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                self._retry.check_stalled(self._reason(error.args[0].str()))

    # Around an attempt.

    def _with_retries(self, attempt: Callable[[], None]) -> None:
        def translated() -> None:
            try:
                attempt()
            except BaseException as error:
                self.close()
                if not isinstance(error, KafkaException):
                    raise
                cause: KafkaError = error.args[0]
                self._check_transient(cause)
                raise TransientError(self._reason(cause.str())) from error

        self._retry.call(translated)

    def _check_transient(self, cause: KafkaError) -> None:
        if cause.code() in MISSING_RIGHT:
            raise SinkWriteFailed(
                f"{self.label}: {cause.str()} ({cause.name()}); check [kafka] in the role's platform file, "
                f"and the user's rights to write to the topic, to read the group {self._group}, and to use "
                f"the transactional id {self._transactional_id}"
            )
        if cause.code() in _TOO_LARGE:
            raise SinkWriteFailed(
                f"{self.label}: {cause.str()} ({cause.name()}); raise max.message.bytes of the topic"
            )
        if cause.code() in _UNKNOWN:
            # Deleted within a transaction; if the topic exists after all, the next attempt succeeds.
            try:
                self._check_topic()
            except KafkaException as error:
                log.debug("%s: %s", self.label, error)

    def _check_topic(self) -> None:
        """Lists all topics: a request for one may create it (auto.create.topics.enable)."""
        with self._consumer() as consumer:
            topic = consumer.list_topics(timeout=REQUEST_SECONDS).topics.get(self.topic)
        count = len(topic.partitions) if topic is not None else 0
        if count < self.partitions:
            missing = f"has {count} partitions, and {self.partitions} are declared"
            problem = missing if count else "does not exist"
            raise SinkWriteFailed(
                f"{self.label}: topic {self.topic!r} {problem}, on {self._servers}. Fix: run the load's "
                "provision_sinks step"
            )

    def _check_fenced(self, committed: CommittedBatch | None) -> None:
        newest = None if committed is None else committed.epoch
        check_epoch(self.label, self.epoch, newest, f"group {self._group}", opening=not self._is_writer)

    def _last_batch(self) -> CommittedBatch:
        """The topic's last batch. Raises Fenced, and SinkWriteFailed if this writer committed a later one: no
        later batch has the results of those in between."""
        committed = self._committed_batch("read_committed")
        self._check_fenced(committed)
        if committed is None:
            committed = CommittedBatch(0, self._newest_version())
        if committed.batch < self._last:
            raise SinkWriteFailed(
                f"{self.label}: the topic's last batch is {committed.batch}, and batch {self._last} was "
                "committed: it was restored or recreated. Fix: restart the queries, which rebuilds this one"
            )
        return committed

    def _committed_batch(self, isolation: str) -> CommittedBatch | None:
        partition = TopicPartition(self.topic, state.PARTITION)
        with self._consumer(isolation) as consumer:
            (found,) = kafka_io.committed(consumer, [partition], REQUEST_SECONDS)
        if found.offset < 0:
            return None
        try:
            return state.parse(found.offset, found.metadata or "")
        except ValueError as error:
            raise SinkWriteFailed(
                f"{self.label}: group {self._group}: {error}; delete the group's offsets: then the topic's "
                "records say which batch is the last"
            ) from error

    def _newest_version(self) -> int:
        """The last batch of a topic without committed batch: it is new, or the group's offset expired."""
        with self._consumer() as consumer:
            found = max(self._newest_of(consumer, partition) for partition in range(self.partitions))
        if found != NO_BATCH:
            log.warning(
                "%s: offset expired group=%s last_batch_of_records=%d", self.label, self._group, found
            )
        return found

    def _newest_of(self, consumer: Consumer, partition: int) -> int:
        """The batch of a partition's last record. Compaction never removes it, unless it is a tombstone: then
        results of its batch are in another partition, or there is none."""
        place, seconds, last = TopicPartition(self.topic, partition), REQUEST_SECONDS, None
        begin, end = consumer.get_watermark_offsets(place, timeout=seconds)
        start, offsets = end, NEWEST_OFFSETS
        while start > begin and last is None:
            start, offsets = max(begin, end - offsets), offsets * 10
            try:
                for message in kafka_io.read_range(
                    consumer, self.topic, {partition: start}, {partition: end}, seconds
                ):
                    last = message
            except TimeoutError as error:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT, str(error))) from error
        return NO_BATCH if last is None else version_of(last)

    @contextmanager
    def _consumer(self, isolation: str = "read_committed") -> Iterator[Consumer]:
        consumer = kafka_io.consumer(
            self._kafka,
            self._group,
            {
                "error_cb": self._on_error,
                "isolation.level": isolation,
                **kafka_io.RANGE_SETTINGS,
                # Before it reports a partition's end, where no more records are expected.
                "fetch.wait.max.ms": 10,
                "log_level": 2,
            },
        )
        try:
            yield consumer
        except KafkaException as error:
            # Only poll reports a refused login (to error_cb) and a group that the role may not read.
            message = consumer.poll(0)
            if (
                message is not None
                and (cause := message.error()) is not None
                and cause.code() in MISSING_RIGHT
            ):
                raise KafkaException(cause) from error
            raise
        finally:
            consumer.close()

    def _on_error(self, error: KafkaError) -> None:
        """librdkafka retries a refused login, and reports it only here."""
        if error.code() in REFUSED_LOGIN:
            self._login_error = error

    def _on_producer_error(self, error: KafkaError) -> None:
        self._on_error(error)
        if error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            self._is_disconnected = True

    def _reason(self, otherwise: str) -> str:
        login_error, self._login_error = self._login_error, None
        return f"Kafka: {otherwise if login_error is None else login_error.str()}"


def _has_room(producer: Producer, full: int) -> bool:
    return len(producer) < full


def version_of(message: Message) -> int:
    """The version of a record. Raises ValueError if it is missing."""
    value = message.value()
    try:
        version: Any = (
            state.tombstone_version(message.headers()) if value is None else json.loads(value)[VERSION]
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"a record {value!r:.100} has no version; is the topic the query's alone?"
        ) from error
    if not isinstance(version, int):
        raise ValueError(
            f"a record's version is {version!r}; it must be a number. Is the topic the query's alone?"
        )
    return version
