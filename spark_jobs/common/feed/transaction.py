"""The transactions of a feed's one producer, over librdkafka."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from sluice.clients.kafka.errors import is_refused_login, translated
from sluice.clients.kafka.login.certificates import Renewed
from sluice.clients.kafka.login.properties import check_token, librdkafka
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.sections.feed import TRANSACTIONAL_IDS
from sluice.config.sections.topic import POSITIONS_TOPIC
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import ClientError
from sluice.core.tables.records import Headers

log = logging.getLogger(__name__)

MAX_QUEUED_KIB = 64 * 1024
BATCH_BYTES = 512 * 1024
# The broker ends a transaction that is open for longer; until then, readers wait behind that of a killed
# producer without a successor. As long as a broker's restart may take.
TRANSACTION_SECONDS = 300
# Between two calls of ``gives_up``: librdkafka goes on with what it was asked before.
_ANSWER_SECONDS = 2.0
_FLUSH_SECONDS = 0.5
_ABORT_SECONDS = 3.0

SETTINGS = {
    "acks": "all",
    "enable.idempotence": True,
    "transaction.timeout.ms": TRANSACTION_SECONDS * 1000,
    # As the Java clients choose.
    "partitioner": "murmur2_random",
    "compression.type": "zstd",
    "linger.ms": 50,
    "request.timeout.ms": 30_000,
    "queue.buffering.max.kbytes": MAX_QUEUED_KIB,
}
# What Kafka says to a producer with the epoch of an earlier one. It begins a new epoch for a successor, and
# when it ends a transaction that was open for too long.
_OLD_EPOCH = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
# What librdkafka says of records that it had not sent when it learned of an error.
_DROPPED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
# What librdkafka says to a thread that sends after it learned of an error; the commit gives that error.
_AFTER_ERROR = _OLD_EPOCH | {KafkaError._STATE, KafkaError._FATAL}


class Undelivered(Exception):
    """Kafka did not take a transaction. The next start resumes where the last one that it took ended."""

    code = ErrorCode.UNDELIVERED


class EpochEnded(Exception):
    """Kafka has begun a new epoch of the transactional id. ``seconds``: for how long the transaction was open
    that it ended, 0 if none was."""

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(reason)
        self.seconds = seconds


class _Unanswered(Undelivered):
    """Kafka has not answered yet: the request may be repeated."""


class Transactions:
    """Transactions with the id of a stream, one at a time. Not thread-safe.

    All methods raise EpochEnded, and Undelivered for any other error, after which the process is to end:
    nothing of the open transaction is read, or all of it if only the answer to the commit was lost.
    """

    def __init__(self, kafka: Kafka, stream: str, max_bytes: int, max_records: int) -> None:
        """``max_bytes``: of one message; ``max_records``: of one transaction."""
        self.is_open = False
        self._kafka = kafka
        # Partition -> offset behind the last record that Kafka acknowledged, and its transaction's marker.
        self.ends: dict[int, int] = {}
        self._stream = stream
        # The open transaction's begin, in seconds of the monotonic clock and since 1970: the first one may
        # stand still while the machine is suspended.
        self._began, self._began_at = 0.0, 0.0
        # Why a record was not taken, or nothing is any more.
        self._failure: KafkaError | None = None
        self._refusal: KafkaError | None = None
        # A login that Kafka refuses, of which no request tells.
        self._login_error: KafkaError | None = None
        settings = (
            librdkafka(kafka)
            | SETTINGS
            | {
                "transactional.id": f"{TRANSACTIONAL_IDS}{stream}",
                "message.max.bytes": max(max_bytes, POSITIONS_TOPIC.max_message_bytes),
                "batch.size": min(BATCH_BYTES, max_bytes),
                "queue.buffering.max.messages": max(100_000, 2 * max_records),
                "error_cb": self._note,
            }
        )
        self._renewed = Renewed(kafka, lambda: Producer(settings, logger=_librdkafka_log()))
        self._producer = self._renewed.client

    @property
    def is_outdated(self) -> bool:
        """Whether the certificate was replaced that this producer logs in with: another one is to be made."""
        return self._renewed.is_due()

    def _note(self, error: KafkaError) -> None:
        if is_refused_login(error):
            self._login_error = error

    @property
    def age(self) -> float:
        """Seconds since the open transaction began; 0 if none is open."""
        return time.monotonic() - self._began if self.is_open else 0.0

    def fence(self, gives_up: Callable[[], bool]) -> None:
        """End every other producer of the stream: Kafka takes nothing more of it, and its open transaction is
        aborted."""
        while True:
            try:
                self._ask(lambda: self._producer.init_transactions(_ANSWER_SECONDS))
            except _Unanswered:
                if gives_up():
                    raise
            else:
                return

    def send(
        self, topic: str, value: bytes, key: bytes | None, partition: int = -1, headers: Headers | None = None
    ) -> bool:
        """Queue a record, and begin a transaction if none is open. False if the queue is full, and after an
        error, which the commit raises. ``partition``: -1 for the key's."""
        if not self.is_open:
            # What was refused while nothing was sent may have been corrected since.
            self._serve(lambda: self._producer.poll(0))
            self._login_error = None
            self._ask(self._producer.begin_transaction)
            self.is_open, self._began, self._began_at = True, time.monotonic(), time.time()
        is_event = headers is not None
        try:
            self._producer.produce(
                topic,
                value,
                key,
                partition,
                headers=headers,
                on_delivery=self._event_delivered if is_event else self._delivered,
            )
        except BufferError:
            return False
        except KafkaException as error:
            if error.args[0].code() in _AFTER_ERROR:
                self._refusal = error.args[0]
                return False
            raise self._error(error.args[0]) from error
        return True

    def flush(self, gives_up: Callable[[], bool]) -> bool:
        """Wait until Kafka has acknowledged every record; False if ``gives_up`` before."""
        while self._serve(lambda: self._producer.flush(_FLUSH_SECONDS)):
            self.check()
            self._check_login()
            if gives_up():
                return False
        self.check()
        return True

    def commit(self, gives_up: Callable[[], bool]) -> bool:
        """Commit the open transaction; False if ``gives_up`` before Kafka answers."""
        while True:
            try:
                self._ask(lambda: self._producer.commit_transaction(_ANSWER_SECONDS))
            except _Unanswered:
                if gives_up():
                    return False
            else:
                self.is_open = False
                # Kafka answered: a connection that it refused has another login by now.
                self._login_error = None
                return True

    def abort(self) -> None:
        """Drop what is queued, and abort the transaction, so that no reader waits for it; without an answer
        the broker or the successor does."""
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        if self.is_open:
            try:
                self._producer.abort_transaction(_ABORT_SECONDS)
            except KafkaException as error:
                log.warning("transaction not aborted: %s", error.args[0].str())

    def _ask(self, request: Callable[[], object]) -> None:
        try:
            request()
        except KafkaException as error:
            raise self._error(error.args[0]) from error

    def _serve(self, request: Callable[[], int]) -> int:
        """A request that calls back. confluent-kafka raises a fatal error from any."""
        try:
            return request()
        except (KafkaException, SystemError) as error:
            fatal = error if isinstance(error, KafkaException) else error.__cause__
            # It sets none if two callbacks raise one at once ("returned NULL").
            reasons = [fatal.args[0]] if isinstance(fatal, KafkaException) else self._refusals()
            if not reasons:
                raise
            self._failure = self._failure or reasons[0]
            return 1

    def check(self) -> None:
        """Raise why a record was not taken, if one was not."""
        cause = self._failure or self._refusal
        if cause is not None:
            raise self._error(cause)

    def _error(self, cause: KafkaError) -> Exception:
        # Why librdkafka takes no more is in the first delivery that failed, or its fatal error.
        self._serve(lambda: self._producer.poll(0))
        reasons = [cause] if self._failure is None else [cause, self._failure]
        if all(one.code() in _DROPPED for one in reasons):
            reasons += self._refusals()
        said = "; ".join(dict.fromkeys(f"{one.str()} ({one.name()})" for one in reasons))
        if any(one.code() in _OLD_EPOCH for one in reasons):
            return EpochEnded(said, time.time() - self._began_at if self.is_open else 0.0)
        try:
            self._check_login()
        except ClientError as refused:
            return refused
        if cause.retriable() and not cause.txn_requires_abort():
            return _Unanswered(f"Kafka has not answered the producer of {self._stream}: {said}")
        return Undelivered(f"Kafka did not take a transaction of the producer of {self._stream}: {said}")

    def _refusals(self) -> list[KafkaError]:
        """The fatal error, if there is one: it may come behind the deliveries that it ended."""
        try:
            # It is open already: librdkafka says so, or why it takes nothing any more.
            self._producer.begin_transaction()
        except KafkaException as error:
            found = error.args[0]
            return [] if found.code() == KafkaError._STATE else [found]
        return []

    def _check_login(self) -> None:
        """Raise why the login is refused: librdkafka asks with the same one until the time is over."""
        if self._login_error is not None:
            raise translated(f"producer of {self._stream}", KafkaException(self._login_error))
        check_token(self._kafka)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self._failure = self._failure or error

    def _event_delivered(self, error: KafkaError | None, message: Message) -> None:
        self._failure = self._failure or error
        partition, offset = message.partition(), message.offset()
        # Kafka acknowledges a retry of a record that it holds without its offset.
        if error is None and partition is not None and offset is not None and offset >= 0:
            self.ends[partition] = max(self.ends.get(partition, 0), offset + 2)


def _librdkafka_log() -> logging.Logger:
    """The client's log, without its warnings of the settings above, which are meant."""
    found = logging.getLogger(f"{__name__}.librdkafka")
    found.addFilter(lambda record: "CONFWARN" not in record.getMessage())
    return found
