"""How far a stream has published, as its table says."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.core.json_record import JsonRecord
from sluice.core.offsets.rejection import Counters


@dataclass(frozen=True)
class Position(JsonRecord):
    """The stream's state on ``main``: offsets ``[starts, ends)`` are published; times in seconds since 1970.

    ``epoch``: of the newest writer; ``starts``, ``ends``: partition -> offset; ``topic_id``: Kafka's id of
    the topic that was read, None if the newest snapshot does not say.
    ``at``: of the newest snapshot; ``batch_at``: of the newest batch; ``acquired_at``: of the newest epoch.
    ``longest_batch``: seconds, of the last 20 batches. None: no kept snapshot has it. ``rejected``: number of
    the published offsets whose records belong into the quarantine; ``malformed``: number of records that
    batches rejected, and not on purpose. ``changes``: number of published changes. ``counters``: before and
    after each of the last 20 batches, oldest first; ``newest_malformed``: place and reason of the newest
    malformed record, if one of these batches rejected any.
    """

    epoch: int
    at: float
    acquired_at: float | None
    starts: dict[int, int]
    ends: dict[int, int]
    topic_id: str | None = None
    longest_batch: float | None = None
    batch_at: float | None = None
    rejected: int = 0
    malformed: int = 0
    changes: int = 0
    counters: tuple[Counters, ...] = ()
    newest_malformed: str = ""

    @property
    def records(self) -> int:
        """Number of published offsets."""
        return sum(end - self.starts.get(partition, 0) for partition, end in self.ends.items())
