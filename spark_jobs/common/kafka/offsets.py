"""A topic's id and offsets; the consumer group.

What a job must know of its topic: its id, its partitions, and their first and next offsets.

The stream's offsets as an ordinary consumer group, so that any lag tool of Kafka's shows the stream.

Nothing reads them back: the table is the truth, and a commit that fails stops nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeout

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from sluice.io.kafka import consumer, topic_offsets
from sluice.model.spec.platform import Kafka

ID_SECONDS = 30


class Topic:
    """A topic by name, over connections that are kept: a stream asks for the id with every batch."""

    def __init__(self, kafka: Kafka, name: str, id_seconds: float = ID_SECONDS) -> None:
        """``id_seconds``: so long its id is asked for."""
        self.name = name
        self._kafka = kafka
        self._id_seconds = id_seconds
        self.admin = AdminClient({**kafka.librdkafka()})

    def id(self) -> str:
        """The id that Kafka gave the topic when it was made; one that is made anew gets another.

        One metadata request. Raises LookupError when the topic does not exist, TimeoutError when no broker
        says it in time, KafkaException when it is refused. (A broker that was cut off may know an old id for
        a few seconds; those that serve the topic's records do not.)
        """
        request = TopicCollection([self.name])
        (future,) = self.admin.describe_topics(request, request_timeout=self._id_seconds).values()
        try:
            return str(future.result(timeout=self._id_seconds + 1).topic_id)
        except FutureTimeout as error:
            raise self._unanswered(error) from error
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise LookupError(
                    f"topic {self.name!r}: {error}; run the load's provision_topic step first"
                ) from error
            if code in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
                raise self._unanswered(error) from error
            raise

    def _unanswered(self, reason: Exception) -> TimeoutError:
        return TimeoutError(
            f"topic {self.name!r}: no broker said within {self._id_seconds:g} s which id it has, so nothing "
            f"is published ({reason}); start the stream again when Kafka answers"
        )

    def begin_and_end_offsets(self) -> dict[int, tuple[int, int]]:
        """As :func:`sluice.io.kafka.begin_and_end_offsets`."""
        return topic_offsets(self._kafka, self.name)


log = logging.getLogger(__name__)

# An empty group's offsets expire (offsets.retention.minutes of the broker, a week as a rule, a day in old
# ones).
RENEW_SECONDS = 3600.0
RETRY_SECONDS = 60.0
# How long one commit may take: it stands between two batches, and between a stop and its end.
COMMIT_SECONDS = 5.0
_GIVE_UP_MS = 4_000
_POLL_SECONDS = 0.02


class Group:
    """The group ``sluice-<stream>``. Not for several threads at once.

    Only who has just published commits, so a zombie does not: it fails before. What remains: a zombie that
    was suspended between its publishing and its commit puts the group back when it wakes up, until its
    successor publishes again, or renews.
    """

    def __init__(
        self,
        kafka: Kafka,
        stream: str,
        topic: str,
        clock: Callable[[], float] = time.monotonic,
        offsets: GroupOffsets | None = None,
    ) -> None:
        """``offsets``: in the place of the group's own."""
        self.name = f"sluice-{stream}"
        self._topic = topic
        self._clock = clock
        self._ends: dict[int, int] = {}
        self._next = 0.0
        self._failing = False
        self._offsets = offsets or GroupOffsets(kafka, self.name)

    @property
    def is_due(self) -> bool:
        """Whether :meth:`renew` should be called: an hour after the last commit, a minute after a failure."""
        return bool(self._ends) and self._clock() >= self._next

    def commit(self, ends: Mapping[int, int]) -> bool:
        """Commit partition -> the next offset to be read. Returns whether Kafka has taken it.

        Takes COMMIT_SECONDS and one more at most. A failure is logged once per streak of them.
        """
        self._ends = dict(ends)
        refused = self._commit()
        if refused is not None:
            self.postpone(f"Kafka did not take the offsets: {refused.str()}")
            return False
        if self._failing:
            log.info("group %s: Kafka takes the offsets again", self.name)
        self._failing = False
        self._next = self._clock() + RENEW_SECONDS
        return True

    def renew(self) -> bool:
        """Commit the same ends again."""
        return self.commit(self._ends)

    def postpone(self, reason: str) -> None:
        """Not now: try again in a minute. Logged once per streak of failures."""
        if not self._failing:
            log.warning(
                "group %s: %s; lag tools show an old place until it works again, and the stream goes on",
                self.name,
                reason,
            )
        self._failing = True
        self._next = self._clock() + RETRY_SECONDS

    def _commit(self) -> KafkaError | None:
        offsets = [TopicPartition(self._topic, partition, end) for partition, end in self._ends.items()]
        return self._offsets.set(offsets, COMMIT_SECONDS)


class GroupOffsets:
    """One group's offsets, set by a consumer that never joins it. Not for several threads at once.

    Not by AdminClient: that ends the whole process (an assertion in rd_kafka_enq_once_del_source_return,
    librdkafka 4605) when a broker goes away while it looks for a group's coordinator.

    A commit that waits for a broker is given up by librdkafka after ``give_up_ms``; so long, at most, the
    process may take to end.
    """

    def __init__(self, kafka: Kafka, group: str, give_up_ms: int = _GIVE_UP_MS) -> None:
        self._pending = False
        self._refused: KafkaError | None = None
        self._consumer = consumer(
            kafka,
            group,
            {
                # What fails is returned; a line every few seconds besides would say no more.
                "log_level": 2,
                "on_commit": self._answered,
                # How long it looks for the group's coordinator, and waits for its answer.
                "session.timeout.ms": give_up_ms,
                "heartbeat.interval.ms": give_up_ms // 4,
                "socket.timeout.ms": give_up_ms,
            },
        )

    def set(self, offsets: list[TopicPartition], seconds: float) -> KafkaError | None:
        """Set these. Takes ``seconds`` at most; returns why Kafka did not take them, or None.

        What was not answered in time may still be taken, but not after what is set later.
        """
        deadline = time.monotonic() + seconds
        if self._is_answered(deadline):
            self._pending = True
            try:
                self._consumer.commit(offsets=offsets, asynchronous=True)
            except KafkaException as error:
                self._pending = False
                return error.args[0]
        if not self._is_answered(deadline):
            return KafkaError(KafkaError._TIMED_OUT, f"no answer in {seconds:g} s")
        return self._refused

    def _is_answered(self, deadline: float) -> bool:
        while self._pending and time.monotonic() < deadline:
            self._consumer.poll(_POLL_SECONDS)
        return not self._pending

    def _answered(self, error: KafkaError | None, offsets: list[TopicPartition]) -> None:
        self._pending = False
        self._refused = error or next((offset.error for offset in offsets if offset.error), None)
