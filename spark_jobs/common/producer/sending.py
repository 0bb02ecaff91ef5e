"""Rows of sources become records of the topic, by librdkafka, in the task that reads them.

Spark's Kafka sink would take each row through the JVM first, which costs more than all else that is done to
it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from sluice.clients.kafka.errors import is_refused_login, translated
from sluice.clients.kafka.login.certificates import Renewed
from sluice.clients.kafka.login.properties import librdkafka
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.sending_rules import SendingRules
from sluice.core.error_codes import ErrorCode
from sluice.core.offsets.deduplication import LoadedRows
from sluice.core.offsets.sources import WITHHELD_MARK
from sluice.core.tables.records import Headers

SETTINGS = {
    "acks": "all",
    "enable.idempotence": True,
    "compression.type": "zstd",
    "linger.ms": 20,
    "batch.num.messages": 100_000,
    # Longer than a broker's restart; a failure after it fails the attempt, and the next one resumes.
    "delivery.timeout.ms": 300_000,
    # A broker that does not answer is left after it, and asked again.
    "socket.timeout.ms": 30_000,
    # A call of Python for each record costs as much as the record.
    "delivery.report.only.error": True,
}
BATCH_BYTES = 512 * 1024
# Records that wait in each process; a full queue makes it wait. At least twice the largest record.
QUEUE_KIB = 16 * 1024
# The least that librdkafka takes.
_LEAST_BYTES = 1000
# Rows that are Python's values at a time: those of a generator's batch may be gigabytes.
_STEP = 1_000
# The topic is not as the plan found it.
_NOT_TAKEN = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
# Rows of sources. One without a ``sequence`` number is rejected: it is not sent. A null ``value`` is sent.
ROWS_SCHEMA = "source_id string, row bigint, target_partition int, sequence bigint, value binary"


class NotSent(RuntimeError):
    """The brokers did not take a record in time. The next attempt sends what is missing."""

    code = ErrorCode.KAFKA_UNREACHABLE


class SendingRefused(RuntimeError):
    """The brokers refuse the records of this user."""

    code = ErrorCode.KAFKA_PERMISSION


class NotTaken(RuntimeError):
    """The topic does not take a record: it is not as the plan found it."""

    code = ErrorCode.TOPIC_MISMATCH


@dataclass(frozen=True)
class Sending:
    """How the tasks of a plan send.

    ``kafka``: of the role producer; ``topic``: of the stream; ``rules``: of the plan; ``sent``: the rows that
    are on the topic, which are left out; ``withheld``: ids of the sources whose records say so; ``headers``:
    of each record; ``frame``: what each value begins with.
    """

    kafka: Kafka
    topic: str
    rules: SendingRules
    sent: LoadedRows
    withheld: frozenset[str] = frozenset()
    headers: tuple[tuple[str, bytes], ...] = ()
    frame: bytes = b""

    def send(self, batches: Iterable[pa.RecordBatch]) -> Sent:
        """Send all rows of ROWS_SCHEMA that were not sent, in a task; source id -> its rows.

        Raises NotSent, NotTaken, SendingRefused and what ``batches`` raises: then a part of them was sent.
        """
        found: Sent = {}
        headers: Headers = list(self.headers)
        with self._connected() as topic:
            for batch in batches:
                source_ids = batch.column("source_id").dictionary_encode()
                is_good = batch.column("sequence").is_valid().to_numpy(zero_copy_only=False)
                for code, source_id in enumerate(source_ids.dictionary.to_pylist()):
                    is_own = source_ids.indices.to_numpy() == code
                    counts = Counts(int(is_own.sum()), int((is_own & ~is_good).sum()))
                    found = total([found, {source_id: counts}])
                    wanted = is_own & is_good & ~_is_sent(self.sent, source_id, batch)
                    mark = WITHHELD_MARK if source_id in self.withheld else ":"
                    chosen = batch if wanted.all() else batch.filter(pa.array(wanted))
                    topic.send(f"{source_id}{mark}".encode(), chosen, headers, self.frame)
        return found

    def connect(self) -> None:
        """Connect this process: the brokers take half a second to give a producer its id."""
        self._connected()

    def _connected(self) -> _Topic:
        return _topic(self.kafka, self.topic, self.rules.max_message_bytes)


@dataclass(frozen=True)
class Counts:
    """Rows that were read, those that were sent before among them, and how many of them are ``rejected``."""

    rows: int = 0
    rejected: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.rows + other.rows, self.rejected + other.rejected)


# Source id -> its rows.
Sent = dict[str, Counts]


def total(parts: Iterable[Sent]) -> Sent:
    """What all tasks sent."""
    found: Sent = {}
    for part in parts:
        for source_id, counts in part.items():
            found[source_id] = found.get(source_id, Counts()) + counts
    return found


def send_frame(sending: Sending, frame: DataFrame) -> Sent:
    """Send the rows of a frame (ROWS_SCHEMA), each partition in its order. Raises PySpark's error around that
    of :meth:`Sending.send`."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"sent": pa.array([pickle.dumps(sending.send(batches))])})

    # Written by our own tasks.
    return total(pickle.loads(row["sent"]) for row in frame.mapInArrow(task, "sent binary").collect())  # noqa: S301


def _is_sent(sent: LoadedRows, source_id: str, batch: pa.RecordBatch) -> NDArray[np.bool_]:
    """Whether a row of this source is on the topic. Rows of others may be taken for its own."""
    found = np.zeros(len(batch), np.bool_)
    ranges = sent[source_id].partitions
    if ranges:
        targets = batch.column("target_partition").to_numpy()
        sequences = batch.column("sequence").fill_null(0).to_numpy()
        for partition, numbers in ranges.items():
            rows = np.flatnonzero(targets == partition)
            found[rows] = numbers.holds(sequences[rows])
    return found


_FATAL = KafkaError(KafkaError._FATAL)


class _Topic:
    """One producer in each process, which runs one task after the other: use it as a context, which ends
    when all records are acknowledged."""

    def __init__(self, kafka: Kafka, name: str, max_message_bytes: int) -> None:
        self._name = name
        self._failed: KafkaError | None = None
        self._said: KafkaError | None = None
        limits = {
            "message.max.bytes": max(max_message_bytes, _LEAST_BYTES),
            "batch.size": min(BATCH_BYTES, max_message_bytes),
            "queue.buffering.max.kbytes": max(QUEUE_KIB, 2 * max_message_bytes // 1024),
        }
        own: dict[str, Any] = {"on_delivery": self._not_delivered, "error_cb": self._remember}
        settings = {**librdkafka(kafka), **SETTINGS, **limits, **own}
        self._renewed = Renewed(kafka, lambda: Producer(settings))
        self._producer = self._renewed.client

    def _not_delivered(self, error: KafkaError | None, message: Message) -> None:
        self._failed = self._failed or error

    def _remember(self, error: KafkaError) -> None:
        # The reason of a lost connection says more than the time-out that follows from it.
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._said = error
        # librdkafka would ask with the same login until the records' time-out.
        if is_refused_login(error):
            self._failed = self._failed or error

    def __enter__(self) -> _Topic:
        # All records of the task before are acknowledged.
        self._producer = self._renewed.current()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            while kind is None and self._asked(self._producer.flush, 1.0):
                pass
        except BaseException:
            self._give_up()
            raise
        if kind is not None:
            self._give_up()

    def _give_up(self) -> None:
        """The attempt failed: what waits is sent by the next one, and not by this producer."""
        self._producer.purge()
        _topic.cache_clear()

    def send(self, prefix: bytes, rows: pa.RecordBatch, headers: Headers, frame: bytes) -> None:
        """Put the rows into the queue. ``prefix``: what keys begin with; ``frame``: values. Raises NotSent,
        NotTaken or SendingRefused for any record before."""
        produce, topic, kept = self._producer.produce, self._name, headers or None
        for number, partition, sequence, value in _columns(rows, frame):
            key = b"%s%d:%d" % (prefix, number, sequence)
            while True:
                try:
                    produce(topic, value, key, partition, headers=kept)
                    break
                except BufferError:
                    self._asked(self._producer.poll, 0.1)
                except KafkaException as error:
                    # A fatal error is that of each later record, too.
                    self._failed = self._failed or error.args[0]
                    self._check()
        self._asked(self._producer.poll, 0.0)

    def _asked(self, ask: Callable[[float], int], seconds: float) -> int:
        """Let librdkafka report what became of records. Raises as :meth:`send`."""
        found = 0
        try:
            found = ask(seconds)
        except (KafkaException, SystemError) as error:
            # confluent-kafka raises a fatal error in its callback, and SystemError if another one follows.
            cause = error if isinstance(error, KafkaException) else error.__cause__ or error.__context__
            self._failed = self._failed or (cause.args[0] if isinstance(cause, KafkaException) else _FATAL)
        self._check()
        return found

    def _check(self) -> None:
        if self._failed is None:
            return
        what = f"topic {self._name}: not all records were sent"
        cause = f" ({self._said.str()})" if self._said else ""
        if self._failed.code() in _NOT_TAKEN:
            raise NotTaken(
                f"{what}: {self._failed.str()} ({self._failed.name()}){cause}. Fix: the topic changed since "
                "the load was planned: trigger a new run"
            )
        error = translated(what, KafkaException(self._failed))
        refused = (ErrorCode.KAFKA_PERMISSION, ErrorCode.KAFKA_LOGIN)
        kind = SendingRefused if error.code in refused else NotSent
        raise kind(f"{error}{cause}")


@cache
def _topic(kafka: Kafka, name: str, max_message_bytes: int) -> _Topic:
    return _Topic(kafka, name, max_message_bytes)


def _columns(rows: pa.RecordBatch, frame: bytes) -> Iterator[tuple[int, int, int, bytes | None]]:
    """``row``, ``target_partition``, ``sequence``, and ``value`` with its frame, of each."""
    for first in range(0, len(rows), _STEP):
        part = rows.slice(first, _STEP)
        numbers = (part.column(name).to_pylist() for name in ("row", "target_partition", "sequence"))
        values = part.column("value").to_pylist()
        if frame:
            values = [None if value is None else frame + value for value in values]
        yield from zip(*numbers, values, strict=True)
