"""Waiting until a feed's producer has sent enough."""

from __future__ import annotations

from typing import Any

from sluice.clients.errors import Missing
from sluice.triggers.wait import Outcome, Progress, WaitTrigger


class ArrivedTrigger(WaitTrigger):
    """Fires when ``events`` records came onto the topic behind the offsets ``begin``, or at ``deadline``.

    The event's ``arrived`` and ``ends`` (the end offsets) are as last observed, and missing if Kafka never
    answered. Hopeless as soon as the topic is no longer the one with ``topic_id``: its offsets begin again.
    """

    names = (*WaitTrigger.names, "begin", "events", "topic_id")

    def __init__(self, *, begin: dict[str, int], events: int, topic_id: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.begin = begin
        self.events = events
        self.topic_id = topic_id

    def check(self) -> Progress:
        topic, kafka = self.spec.topic.name, self.hook.kafka
        try:
            ends = kafka.ends(topic)
            # After the offsets: they were this topic's then.
            is_same = kafka.identify(topic).topic_id == self.topic_id
        except Missing:
            is_same = False
        if not is_same:
            return Progress(
                f"topic {topic!r} was deleted or recreated since the load began; trigger a new run",
                Outcome.PERMANENT,
            )
        # A partition that was added meanwhile counts from its first offset.
        arrived = sum(end - self.begin.get(str(partition), 0) for partition, end in ends.items())
        return Progress(
            f"{arrived} of {self.events} events arrived",
            Outcome.REACHED if arrived >= self.events else None,
            {"arrived": arrived, "ends": {str(partition): end for partition, end in sorted(ends.items())}},
        )
