"""That a long-running process is alive, and what it is doing, as the offsets of a consumer group.

A group's offsets carry a text (metadata) besides the number; any client that may describe the group reads
both back. So a sign of life needs no place of its own, and lag tools show the process's progress.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping

from confluent_kafka import TopicPartition

from sluice.model.health.heartbeat import MOST_DETAIL, State
from sluice.model.spec.platform import Kafka
from spark_jobs.common.kafka.group import COMMIT_SECONDS, GroupOffsets

log = logging.getLogger(__name__)


class Heartbeat:
    """The group ``sluice-<stream>-<part>``. Not for several threads at once.

    Nobody but the one process that holds the part may beat: the last one is what is seen.
    """

    def __init__(
        self,
        kafka: Kafka,
        stream: str,
        part: str,
        topic: str,
        clock: Callable[[], float] = time.time,
        offsets: GroupOffsets | None = None,
    ) -> None:
        """``clock``: seconds since 1970. ``offsets``: in the place of the group's own."""
        self.group = f"sluice-{stream}-{part}"
        self._offsets = offsets or GroupOffsets(kafka, self.group)
        self._topic = topic
        self._clock = clock
        self._state = ""
        self._since = 0.0
        self._failing = False

    def beat(self, ends: Mapping[int, int], state: str, detail: str = "", since: float | None = None) -> bool:
        """Tell ``ends`` (partition -> next offset; at least one partition) and what is being done.

        ``state`` is a word of State; ``detail`` is cut to MOST_DETAIL characters. ``since``: when the state
        began, seconds since 1970; by default the first beat in a row that told it. Returns whether Kafka has
        taken it; takes COMMIT_SECONDS and one more at most. A failure is logged once per streak of them, and
        stops nothing. Raises ValueError for a state that is none.
        """
        if state not in list(State):
            raise ValueError(f"state {state!r}: one of {', '.join(sorted(State))}")
        now = self._clock()
        if state != self._state:
            self._state, self._since = state, now
        told = {
            "at": int(now * 1000),
            "pid": os.getpid(),
            "state": state,
            "since": int((self._since if since is None else since) * 1000),
            "detail": detail[:MOST_DETAIL],
        }
        lowest, text = min(ends), json.dumps(told)
        offsets = [
            TopicPartition(self._topic, partition, end, metadata=text if partition == lowest else "")
            for partition, end in sorted(ends.items())
        ]
        refused = self._offsets.set(offsets, COMMIT_SECONDS)
        if refused is not None and not self._failing:
            log.warning(
                "group %s: Kafka did not take the heartbeat (%s); supervision sees an old one until it works",
                self.group,
                refused.str(),
            )
        elif refused is None and self._failing:
            log.info("group %s: Kafka takes the heartbeat again", self.group)
        self._failing = refused is not None
        return refused is None
