"""A topic's id and offsets; the stream's offsets as a consumer group, for Kafka's lag tools.

Sluice does not read the group: the table has the offsets, and a failed commit stops nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from math import inf
from time import monotonic, sleep
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from sluice.clients.kafka.consumers import consumer
from sluice.clients.kafka.errors import is_refused_login
from sluice.clients.kafka.login.certificates import Renewed
from sluice.clients.kafka.login.noted import Noted
from sluice.clients.kafka.login.properties import librdkafka
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.error_codes import ErrorCode, coded

log = logging.getLogger(__name__)

ID_SECONDS = 30.0
_AGAIN_SECONDS = 0.2
# An empty group's offsets expire (the broker's offsets.retention.minutes: usually a week, once a day).
RENEW_SECONDS = 3600.0
RETRY_SECONDS = 60.0
# The longest commit: it delays the next batch or the stop.
COMMIT_SECONDS = 5.0
GIVE_UP_MS = 4_000
_POLL_SECONDS = 0.02


class Topic:
    """A topic, over connections that stay open: a stream reads the id with every batch."""

    def __init__(self, kafka: Kafka, name: str) -> None:
        self.name = name
        self.kafka = kafka
        self._noted = Noted(kafka)
        settings: dict[str, Any] = {"error_cb": self._noted}
        self._renewed = Renewed(kafka, lambda: AdminClient({**librdkafka(kafka), **settings}))
        self.admin = self._renewed.client

    def _current(self) -> AdminClient:
        if self._renewed.renew():
            self.admin = self._renewed.client
        return self.admin

    def id(self) -> str:
        """Return the topic's id, in one metadata request; a recreated topic has another.

        Raises LookupError for a missing topic, TimeoutError without an answer in ID_SECONDS, LoginRefused at
        once if the login is, KafkaException if the request is refused. (A broker that was cut off may return
        an old id for a few seconds, those that serve the topic's records do not.)
        """
        until = monotonic() + ID_SECONDS
        while True:
            try:
                return self._asked_id(max(until - monotonic(), 1.0))
            except KafkaException as error:
                # The end of a login's session ends the connection, and with it what was asked just then.
                if error.args[0].code() != KafkaError._TRANSPORT:
                    raise
                if monotonic() >= until:
                    raise self._unanswered(error) from error
            sleep(_AGAIN_SECONDS)

    def _asked_id(self, seconds: float) -> str:
        request = TopicCollection([self.name])
        (future,) = self._current().describe_topics(request, request_timeout=seconds).values()
        try:
            found = str(self._noted.result(future, seconds + 1, self.admin.poll).topic_id)
            self._noted.answered()
            return found
        except FutureTimeout as error:
            raise self._unanswered(error) from error
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise coded(
                    ErrorCode.TOPIC_NOT_FOUND,
                    LookupError(
                        f"topic {self.name!r}: {error}. Fix: run the load's task provision_topic; of a topic "
                        "of others correct its name"
                    ),
                ) from error
            if code == KafkaError._TIMED_OUT:
                raise self._unanswered(error) from error
            if is_refused_login(error.args[0]):
                raise self._noted.translated(f"topic {self.name!r}", error) from error
            raise
        finally:
            # The client's log.
            self.admin.poll(0)

    def config(self) -> dict[str, str | None]:
        """The topic's configs, the brokers' defaults among them. Raises KafkaException, as without the right
        DescribeConfigs, and TimeoutError."""
        resource = ConfigResource(ResourceType.TOPIC, self.name)
        (future,) = self._current().describe_configs([resource], request_timeout=ID_SECONDS).values()
        try:
            found = self._noted.result(future, ID_SECONDS + 1, self.admin.poll)
            return {name: entry.value for name, entry in found.items()}
        except FutureTimeout as error:
            raise self._unanswered(error, "configs") from error

    def _unanswered(self, reason: Exception, what: str = "id") -> TimeoutError:
        return TimeoutError(
            f"topic {self.name!r}: no broker returned its {what} in {ID_SECONDS:g} s, so nothing is "
            f"published ({reason}). Fix: start the stream again when Kafka is reachable"
        )


class GroupOffsets:
    """A group's offsets, set by a consumer that never joins it. For one thread at a time.

    AdminClient aborts the process (an assertion in rd_kafka_enq_once_del_source_return, librdkafka 4605) if a
    broker goes away during its search for the group's coordinator. librdkafka gives up a commit that waits
    for a broker after GIVE_UP_MS, which the end of the process may take.
    """

    def __init__(self, kafka: Kafka, group: str) -> None:
        self.group = group
        self._failing = False
        self._pending = False
        self._refused: KafkaError | None = None
        settings = {
            # Errors are returned.
            "log_level": 2,
            "on_commit": self._answered,
            # For the search for the coordinator, and its answer.
            "session.timeout.ms": GIVE_UP_MS,
            "heartbeat.interval.ms": GIVE_UP_MS // 4,
            "socket.timeout.ms": GIVE_UP_MS,
        }
        self._renewed = Renewed(kafka, lambda: consumer(kafka, group, settings))

    def set(self, offsets: list[TopicPartition], seconds: float) -> KafkaError | None:
        """Set the offsets within ``seconds``; return the error or None.

        Without an answer in time they may still be set, but not after a later call's.
        """
        deadline = monotonic() + seconds
        if self._is_answered(deadline):
            self._pending = True
            try:
                # No commit is in flight.
                self._renewed.current().commit(offsets=offsets, asynchronous=True)
            except KafkaException as error:
                self._pending = False
                return error.args[0]
        if not self._is_answered(deadline):
            return KafkaError(KafkaError._TIMED_OUT, f"no answer in {seconds:g} s")
        return self._refused

    def try_set(self, offsets: list[TopicPartition]) -> bool:
        """Set the offsets; return whether Kafka accepted them.

        Takes COMMIT_SECONDS and one more at most. The first failure in a row is logged.
        """
        refused = self.set(offsets, COMMIT_SECONDS)
        if refused is not None:
            self._note_failure(refused.str())
        elif self._failing:
            self._failing = False
            log.info("offset commits resumed group=%s", self.group)
        return refused is None

    def _note_failure(self, reason: str) -> None:
        if not self._failing:
            log.warning("offset commit failed group=%s: %s; lag tools show old offsets", self.group, reason)
        self._failing = True

    def _is_answered(self, deadline: float) -> bool:
        while self._pending and monotonic() < deadline:
            self._renewed.client.poll(_POLL_SECONDS)
        return not self._pending

    def _answered(self, error: KafkaError | None, offsets: list[TopicPartition]) -> None:
        self._pending = False
        self._refused = error or next((offset.error for offset in offsets if offset.error), None)


class Group(GroupOffsets):
    """The group ``sluice-<stream>``. For one thread at a time.

    A writer commits after a publish, so a zombie fails before. Exception: a zombie that was suspended between
    publish and commit moves the group back, until its successor publishes or renews.
    """

    def __init__(self, kafka: Kafka, stream: str, topic: str) -> None:
        super().__init__(kafka, f"sluice-{stream}")
        self._topic = topic
        self._next = inf

    @property
    def is_due(self) -> bool:
        """Whether to commit again: an hour after the last commit, a minute after a failure."""
        return monotonic() >= self._next

    def commit(self, ends: Mapping[int, int]) -> bool:
        """Commit partition -> the next offset to read; as :meth:`GroupOffsets.try_set`."""
        accepted = self.try_set(
            [TopicPartition(self._topic, partition, end) for partition, end in ends.items()]
        )
        self._next = monotonic() + (RENEW_SECONDS if accepted else RETRY_SECONDS)
        return accepted

    def postpone(self, reason: str) -> None:
        """Be due in a minute. The first failure in a row is logged."""
        self._note_failure(reason)
        self._next = monotonic() + RETRY_SECONDS
