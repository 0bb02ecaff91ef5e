"""What the topic has acknowledged of a producer's records, and the position to save for it."""

from __future__ import annotations

from collections import deque

from spark_jobs.common.feed.position import RECENT_IDS, RECENT_PLACES, Place, SavedPosition, Start


class Progress:
    """Progress of one run of the feed ``name``. For the thread that gets the acknowledgements."""

    def __init__(self, name: str, start: Start, max_in_flight: int) -> None:
        self._name, self._start = name, start
        self._acknowledged = start.next_sequence - 1
        self._ends = dict(start.ends)
        self._recent: deque[Place] = deque(start.places, maxlen=RECENT_PLACES * max_in_flight)
        # Ids of the events up to a sequence, every one of which is acknowledged: a saved id of any other
        # would let the event be skipped when it comes again.
        self._ids: deque[str] = deque(start.ids, maxlen=RECENT_IDS * max_in_flight)
        self._complete = self._acknowledged
        self._out_of_order: dict[int, str] = {}
        self._ids_sequence = 0

    @property
    def ends(self) -> dict[int, int]:
        """Partition -> the offset behind the last acknowledged record."""
        return dict(self._ends)

    @property
    def has_unsaved_ids(self) -> bool:
        return self._complete > self._ids_sequence

    def acknowledge(self, sequence: int, event_id: str, partition: int, offset: int | None) -> None:
        """``offset``: None if Kafka did not say it; then it is not below the partition's end so far."""
        end = self._ends.get(partition, 0)
        self._recent.append((partition, end if offset is None else offset))
        if offset is not None:
            self._ends[partition] = max(end, offset + 1)
        self._acknowledged = max(self._acknowledged, sequence)
        self._out_of_order[sequence] = event_id
        while (following := self._out_of_order.pop(self._complete + 1, None)) is not None:
            self._ids.append(following)
            self._complete += 1

    def saved(
        self, position: str | None, next_sequence: int, read_at: float | None, *, with_ids: bool = False
    ) -> SavedPosition:
        """``position``: up to it every event is acknowledged. ``with_ids``: they are saved with it. The
        others: as SavedPosition."""
        if with_ids:
            self._ids_sequence = self._complete
        return SavedPosition(
            topic_id=self._start.topic_id,
            feed=self._name,
            position=position,
            acknowledged=self._acknowledged,
            next_sequence=next_sequence,
            first_sequence=self._start.first_sequence,
            ends=self.ends,
            tail_starts=self._tail_starts(),
            read_at=read_at or self._start.read_at,
            ids_sequence=self._ids_sequence,
            decision=self._start.decision,
            ids=list(self._ids) if with_ids else [],
        )

    def _tail_starts(self) -> dict[int, int]:
        starts = self.ends
        for partition, offset in self._recent:
            starts[partition] = min(starts.get(partition, offset), offset)
        return starts
