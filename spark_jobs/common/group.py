"""The stream's offsets as an ordinary consumer group, so that any lag tool of Kafka's shows the stream.

Nothing reads them back: the table is the truth, and a commit that fails stops nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as FutureTimeout

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

log = logging.getLogger(__name__)

# An empty group's offsets expire (offsets.retention.minutes of the broker, a week as a rule, a day in old
# ones).
RENEW_SECONDS = 3600.0
RETRY_SECONDS = 60.0
# How long one commit may take: it stands between two batches, and between a stop and its end.
COMMIT_SECONDS = 5.0
# The group's coordinator is on its way: the very first commit makes the topic that all groups are kept in.
_MOVING = frozenset(
    {
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


class Group:
    """The group ``sluice-<stream>``. Not for several threads at once.

    Only who has just published commits, so a zombie does not: it fails before. What remains: a zombie that
    was suspended between its publishing and its commit puts the group back when it wakes up, until its
    successor publishes again, or renews.
    """

    def __init__(
        self, admin: AdminClient, stream: str, topic: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.name = f"sluice-{stream}"
        self._topic = topic
        self._clock = clock
        self._ends: dict[int, int] = {}
        self._next = 0.0
        self._failing = False
        self._admin = admin

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
        """As an administrator would set them: a consumer's own commit waits without end for a broker that
        does not answer, and keeps the process from ending."""
        offsets = [TopicPartition(self._topic, partition, end) for partition, end in self._ends.items()]
        request = [ConsumerGroupTopicPartitions(self.name, offsets)]
        deadline = time.monotonic() + COMMIT_SECONDS
        while True:
            left = max(deadline - time.monotonic(), 0.1)
            try:
                (future,) = self._admin.alter_consumer_group_offsets(request, request_timeout=left).values()
                done = future.result(timeout=left + 1).topic_partitions
                refused = next((offset.error for offset in done if offset.error), None)
            except KafkaException as error:
                refused = error.args[0]
            except FutureTimeout:
                refused = KafkaError(KafkaError._TIMED_OUT, f"no answer in {COMMIT_SECONDS:g} s")
            if refused is None or refused.code() not in _MOVING or time.monotonic() + 0.2 > deadline:
                return refused
            time.sleep(0.2)
