"""Wait for a feed's events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.airflow.triggers.wait import Outcome, Progress, WaitTrigger
from sluice.core.errors import Missing

if TYPE_CHECKING:
    from sluice.airflow.hook import StreamClients


@dataclass(kw_only=True, eq=False, repr=False)
class ArrivedTrigger(WaitTrigger):
    """Fires when ``events`` offsets were written to the topic after ``start_offsets``, or at ``deadline``:
    those of events, and of the marker that each commit leaves in a partition.

    The event's ``arrived`` and ``ends`` (end offsets) are the last observed, and missing if Kafka never
    answered. Permanent if the topic's id is no longer ``topic_id``: its offsets restart.
    """

    start_offsets: dict[str, int]
    events: int
    topic_id: str

    def check(self, clients: StreamClients) -> Progress:
        topic, kafka = self.spec.topic.name, clients.platform_hook.kafka
        try:
            ends = kafka.ends(topic)
            # After the offsets, so that they are this topic's.
            is_same = kafka.describe(topic).id == self.topic_id
        except Missing:
            is_same = False
        if not is_same:
            return Progress(
                f"topic {topic!r} was deleted or recreated since the load began. Fix: trigger a new run",
                Outcome.PERMANENT,
            )
        # A partition that was added meanwhile counts from its first offset.
        arrived = sum(end - self.start_offsets.get(str(partition), 0) for partition, end in ends.items())
        return Progress(
            f"{arrived} of {self.events} events arrived",
            Outcome.REACHED if arrived >= self.events else None,
            {"arrived": arrived, "ends": {str(partition): end for partition, end in sorted(ends.items())}},
        )
