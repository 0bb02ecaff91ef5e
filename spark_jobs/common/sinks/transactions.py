"""Write a batch of records and its committed batch (a group's offset) to a topic in one Kafka transaction.

Kafka lets only the last producer write that asked for the transactional id. The epoch decides who may ask:
the committed batch holds the writer's epoch, and a writer that finds a higher one there is fenced.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from sluice.clients.kafka.errors import MISSING_RIGHT
from sluice.clients.kafka.login.certificates import Renewed
from sluice.clients.kafka.login.properties import librdkafka
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.queries import committed_batch
from sluice.core.queries.committed_batch import NO_BATCH, CommittedBatch
from sluice.core.queries.result import tombstone_headers
from sluice.core.tables.records import Headers
from spark_jobs.common.sinks.base import RetryPolicy, SinkWriteFailed, Target, TransientError
from spark_jobs.common.sinks.query_topic import REQUEST_SECONDS, QueryTopic
from spark_jobs.common.spark.failures import check_epoch

log = logging.getLogger(__name__)

T = TypeVar("T")
# Partition, key, value; without a value the key's results are removed.
Record = tuple[int, bytes, bytes | None]

# The broker ends a transaction that is open for longer; until then, readers of committed records wait behind
# the transaction of a dead writer without a successor.
TRANSACTION_SECONDS = 300
COMMIT_SECONDS = 15.0
# Without a delivery for longer, Kafka is stalled.
STALLED_SECONDS = 5.0
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
        self._topic = QueryTopic(self.label, target, kafka)
        # The committed batch has the epoch.
        self._is_writer = False
        self._transactional_id = committed_batch.transactional_id(stream, query, topic)
        self._kafka, self._servers = kafka, kafka.bootstrap_servers
        self._retry = RetryPolicy(
            self.label,
            f"see that Kafka at {self._servers} is up and takes the role's login, then start the query "
            "again: it repeats the batch",
            target.stall_timeout_seconds,
            target.stop,
        )
        self._last = NO_BATCH
        self._producer: Producer | None = None
        self._renewed: Renewed[Producer] | None = None
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
            if not self._is_disconnected and not self._is_outdated():
                return
            # For example an idle connection that the broker closed; see _send_committed_batch.
            self.close()
        self._topic.check()
        # Checked before the request for the id, with which a zombie would fence its successor for a moment.
        # Uncommitted, so as not to wait for an open transaction, which may be the one to be ended.
        self._check_fenced(self._topic.committed("read_uncommitted"))
        settings = {"transactional.id": self._transactional_id, "error_cb": self._on_producer_error}
        made = {**librdkafka(self._kafka), **_SETTINGS, **settings}
        self._renewed = Renewed(self._kafka, lambda: Producer(made))
        producer = self._producer = self._renewed.client
        self._ask(producer.init_transactions)
        producer.poll(0)
        self._is_disconnected = False
        committed = self._last_batch()
        self._last = committed.batch
        if committed.epoch != self.epoch:
            self._transact(CommittedBatch(self.epoch, committed.batch), ())

    def _is_outdated(self) -> bool:
        """Whether its certificate was replaced."""
        return self._renewed is not None and self._renewed.is_due()

    def _transact(self, committed: CommittedBatch, records: Iterable[Record]) -> None:
        producer = self._producer
        assert producer is not None
        producer.begin_transaction()
        self._delivered, self._undelivered = 0, None
        for number, (partition, key, value) in enumerate(records, start=1):
            headers = tombstone_headers(committed.batch) if value is None else []
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
        offset = TopicPartition(self.topic, committed_batch.PARTITION, committed.offset, committed.text())
        failures: list[Exception] = []

        def send(group: object) -> None:
            try:
                self._ask(lambda seconds: producer.send_offsets_to_transaction([offset], group, seconds))
            except (KafkaException, SinkWriteFailed) as error:
                failures.append(error)

        with self._topic.consumer() as consumer:
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
                self._retry.check_stalled(self._topic.reason("takes no records"))
        if self._undelivered is not None:
            raise KafkaException(self._undelivered)

    def _ask(self, request: Callable[[float], T]) -> T:
        while True:
            try:
                return request(REQUEST_SECONDS)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                self._retry.check_stalled(self._topic.reason(error.args[0].str()))

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
                raise TransientError(self._topic.reason(cause.str())) from error

        self._retry.call(translated)

    def _check_transient(self, cause: KafkaError) -> None:
        if cause.code() in MISSING_RIGHT:
            raise SinkWriteFailed(
                f"{self.label}: {cause.str()} ({cause.name()}); check [kafka] in the role's platform file, "
                f"and the user's rights to write to the topic, to read the group {self._topic.group}, and to "
                f"use the transactional id {self._transactional_id}"
            )
        if cause.code() in _TOO_LARGE:
            raise SinkWriteFailed(
                f"{self.label}: {cause.str()} ({cause.name()}); raise max.message.bytes of the topic"
            )
        if cause.code() in _UNKNOWN:
            # Deleted within a transaction; if the topic exists after all, the next attempt succeeds.
            try:
                self._topic.check()
            except KafkaException as error:
                log.debug("%s: %s", self.label, error)

    def _check_fenced(self, committed: CommittedBatch | None) -> None:
        newest = None if committed is None else committed.epoch
        check_epoch(self.label, self.epoch, newest, f"group {self._topic.group}", opening=not self._is_writer)

    def _last_batch(self) -> CommittedBatch:
        """The topic's last batch. Raises Fenced, and SinkWriteFailed if this writer committed a later one: no
        later batch has the results of those in between."""
        committed = self._topic.committed("read_committed")
        self._check_fenced(committed)
        if committed is None:
            committed = CommittedBatch(0, self._topic.newest_version())
        if committed.batch < self._last:
            raise SinkWriteFailed(
                f"{self.label}: the topic's last batch is {committed.batch}, and batch {self._last} was "
                "committed: it was restored or recreated. Fix: restart the queries, which rebuilds this one"
            )
        return committed

    def _on_producer_error(self, error: KafkaError) -> None:
        self._topic.on_error(error)
        if error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            self._is_disconnected = True


def _has_room(producer: Producer, full: int) -> bool:
    return len(producer) < full
