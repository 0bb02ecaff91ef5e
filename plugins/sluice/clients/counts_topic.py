"""What a query's compacted topic says: of every key the newest result, and which batch is the last."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from sluice.clients.errors import ClientError, Missing, Refused, Unreachable
from sluice.clients.kafka import TIMEOUT_SECONDS, KafkaAdmin, translated
from sluice.model import marks
from sluice.model.marks import NO_BATCH
from sluice.model.platform import Kafka
from sluice.model.query import VERSION, key_text

# For all of a topic.
READ_SECONDS = 120.0
_RECORDS = 10_000
# Waited for _RECORDS, also where fewer are left.
_POLL_SECONDS = 0.1

_SETTINGS: dict[str, Any] = {
    # Named because librdkafka wants it; nothing joins or commits.
    "group.id": "sluice-counts",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,
    # What fails is raised.
    "log_level": 2,
}


@dataclass(frozen=True)
class Result:
    """The newest result of one key: its measures, and the batch that gave them."""

    measures: dict[str, int]
    version: int


def read(kafka: Kafka, topic: str, keys: Sequence[str], seconds: float = READ_SECONDS) -> dict[str, Result]:
    """Key text (``query.key_text``) -> its result, of all that was committed when this was asked.

    ``keys`` are the columns of ``Query.keys``; what else a record has, but its version, are measures. Of
    several records of a key the one with the highest version counts, wherever it lies. A transaction that is
    open when this is asked is waited for: it may have been committed already, and its records not yet shown.

    Raises Missing where there is no such topic, Refused where a record is no result (it names the place) or
    where the role may not read, Unreachable where Kafka does not answer, or not all was read in so many
    ``seconds``.
    """
    deadline = time.monotonic() + seconds
    admin = KafkaAdmin(kafka, min(seconds, TIMEOUT_SECONDS))
    try:
        # Behind all records, committed or not.
        ends = admin.ends(topic)
    except Missing as error:
        raise Missing(
            f"topic {topic!r} does not exist on {kafka.bootstrap_servers}; run the load's "
            "provision_sinks step"
        ) from error
    reading = Reading(topic, keys, ends)
    consumer = Consumer({**kafka.librdkafka(), **_SETTINGS}, error_cb=reading.note)
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
        while reading.missing:
            if time.monotonic() > deadline:
                raise reading.unfinished(seconds)
            for message in consumer.consume(_RECORDS, _POLL_SECONDS):
                reading.take(message)
    finally:
        consumer.close()
    return reading.results


def last_batch(kafka: Kafka, stream: str, query: str, topic: str) -> int | None:
    """The last batch that the topic holds whole; None before the first.

    Waits for a commit that is under way. Raises Refused where the role may not see the group, or where what
    stands there is no mark, Unreachable where Kafka does not answer.
    """
    group = marks.group(stream, query)
    found = KafkaAdmin(kafka).committed(group, topic, marks.PARTITION)
    if found is None:
        return None
    try:
        batch = marks.parse(*found).batch
    except ValueError as error:
        raise Refused(
            f"group {group!r}, topic {topic!r}: {error}; delete the group's offsets and start the query again"
        ) from error
    return None if batch == NO_BATCH else batch


class Reading:
    """A topic as far as it was read."""

    def __init__(self, topic: str, keys: Sequence[str], ends: Mapping[int, int]) -> None:
        self.results: dict[str, Result] = {}
        # Partition -> where its reading ends; those that are not read to there.
        self.missing = dict(ends)
        self._topic, self._keys = topic, keys
        self._own = {*keys, VERSION}
        self._at = dict.fromkeys(ends, 0)
        self._trouble = ""

    def note(self, error: KafkaError) -> None:
        """librdkafka tries again by itself, and only tells."""
        self._trouble = f"; Kafka: {error.str()}"

    def take(self, message: Message) -> None:
        error, partition = message.error(), message.partition()
        if partition not in self.missing:
            return
        end = self.missing[partition]
        if error is None:
            at = cast("int", message.offset()) + 1
            # One that came since then may be of a batch of which not all is read.
            if at <= end:
                self._keep(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            # The end of what is committed; where a transaction was open, a later one is told, too.
            at = cast("int", message.offset())
        else:
            raise translated(f"topic {self._topic!r}", KafkaException(error))
        self._at[partition] = at
        if at >= end:
            del self.missing[partition]

    def _keep(self, message: Message) -> None:
        try:
            key = (message.key() or b"").decode()
            result = _result(key, json.loads(message.value() or b""), self._keys, self._own)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Refused(
                f"topic {self._topic!r}, partition {message.partition()}, offset {message.offset()}: no "
                f"result of the query ({type(error).__name__}: {error}); only the query may write there: "
                "delete the topic, run the load's provision_sinks step, and let the query begin anew"
            ) from error
        known = self.results.get(key)
        if known is None or result.version >= known.version:
            self.results[key] = result

    def unfinished(self, seconds: float) -> ClientError:
        partition, end = next(iter(self.missing.items()))
        return Unreachable(
            f"topic {self._topic!r}: partition {partition} was read to offset {self._at[partition]} of {end} "
            f"in {seconds:g} s{self._trouble}; either Kafka is slow or away, or a transaction is open whose "
            "writer stands still: see that the query runs"
        )


def _result(key: str, value: dict[str, Any], keys: Sequence[str], own: set[str]) -> Result:
    """Raises KeyError, TypeError or ValueError where this is none."""
    version = value[VERSION]
    said = key_text([value[column] for column in keys])
    if said != key:
        raise ValueError(f"its key is {key!r}, and its value says {said!r}")
    measures = {name: count for name, count in value.items() if name not in own}
    if not measures or not all(type(number) is int for number in (version, *measures.values())):
        raise ValueError(f"measures and version must be whole numbers: {value!r}")
    return Result(measures, version)
